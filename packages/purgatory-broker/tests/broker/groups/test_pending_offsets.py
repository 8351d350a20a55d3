"""Pending offsets of many producers, groups and topics, beside a plain list of what was done."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.groups.committed_offsets import PendingOffsets
from purgatory_broker.groups.group_records import OffsetKey, OffsetValue

PRODUCERS, GROUPS, TOPICS = (1, 2), ("g", "h"), ("t", "u")
KEYS = [OffsetKey(group, topic, 0) for group in GROUPS for topic in TOPICS]

commits = st.tuples(
    st.sampled_from(["write", "fail", "begin"]), st.sampled_from(PRODUCERS), st.sampled_from(KEYS)
)
others = st.one_of(
    st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.none()),
    st.tuples(st.just("remove"), st.none(), st.sampled_from(KEYS)),
    st.tuples(st.sampled_from(["note", "drop"]), st.none(), st.none()),
)


@given(st.lists(st.one_of(commits, others), max_size=40))
def test_pending_offsets_are_those_of_a_plain_list(steps: list[tuple[str, Any, Any]]) -> None:
    pending = PendingOffsets()
    plain: list[tuple[int, OffsetKey, OffsetValue]] = []
    in_flight: list[tuple[int, OffsetKey, OffsetValue]] = []
    for number, (action, producer, key) in enumerate(steps):
        if action in ("write", "fail", "begin"):
            commit = producer, key, OffsetValue(number, -1, "", 0, -1)
            pending.put(*commit)
            if action == "fail":
                pending.discard(*commit)
                continue
            plain.append(commit)
            if action == "write":
                pending.note_written(*commit)
            else:
                in_flight.append(commit)
        elif action == "end":
            expected = {key: value for owner, key, value in plain if owner == producer}
            assert pending.take(producer) == expected
            plain = [commit for commit in plain if commit[0] != producer]
        elif action == "remove":
            pending.remove(key)
            plain = [commit for commit in plain if commit[1] != key]
        elif in_flight:
            commit = in_flight.pop(0)
            if action == "note":
                pending.note_written(*commit)
            else:
                pending.discard(*commit)
                plain = [each for each in plain if each[2] is not commit[2]]
        keys = {key for _, key, _ in plain}
        assert {key for key in KEYS if key in pending} == keys
        for group in GROUPS:
            of_group = {key for key in keys if key.group_id == group}
            assert set(pending.keys_of_group(group)) == of_group
            assert pending.has_group(group) is bool(of_group)
        for topic in TOPICS:
            assert set(pending.keys_of_topic(topic)) == {k for k in keys if k.topic == topic}
    for producer in PRODUCERS:
        pending.take(producer)
    assert pending._by_group == {}
    assert pending._by_producer == {}
