"""Share sessions, fetches and acknowledgements."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.broker.parity.batches import batch
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient
from tests.broker.sharing.parity.member import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    ShareMember,
    call,
    prepared,
    ranges,
    read,
    read_summary,
    share_coordinator,
)


def share_session_epochs(harness: CaseHarness) -> Any:
    member = ShareMember(harness, *prepared(harness, 1))
    seen: dict[str, Any] = {
        "fetch, no session": member.fetch(epoch=1),
        "final fetch, no session": member.fetch(epoch=-1),
        "acknowledge, no session": member.acknowledge((0, 0, [ACCEPT]), epoch=1),
        "final acknowledge, no session": member.acknowledge((0, 0, [ACCEPT]), epoch=-1),
        "acknowledge with epoch 0": member.acknowledge((0, 0, [ACCEPT]), epoch=0),
        "acknowledgements with epoch 0": member.fetch((0, 0, [ACCEPT]), epoch=0),
    }
    member.acquire()
    return seen | {
        "fetch, wrong epoch": member.fetch(epoch=77),
        "acknowledge, wrong epoch": member.acknowledge((0, 0, [ACCEPT]), epoch=77),
        "nothing new": member.fetch(max_wait_ms=0),
        "accepted": member.acknowledge((0, 0, [ACCEPT])),
        "final": member.fetch(epoch=-1, indexes=()),
        "after the end": member.fetch(epoch=member.epoch),
    }


def share_fetch_first_response(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 0)
    member = ShareMember(harness, topic, group)
    return {
        # The node may have to read the state first.
        "empty": member.fetch(max_wait_ms=500),
        "empty again": member.fetch(max_wait_ms=0),
        "unknown partition": member.fetch(max_wait_ms=0, indexes=(7,)),
        "acknowledge unknown partition": member.acknowledge((0, 0, [ACCEPT]), indexes=(7,)),
        "acknowledge unknown topic": member.acknowledge((0, 0, [ACCEPT]), topic_id=UUID(int=77)),
    }


def share_first_fetch_of_two_partitions(harness: CaseHarness) -> Any:
    """Fetch two partitions whose states the leader has to read, one after the other."""
    topic, group = harness.topic(partitions=2), harness.name("group")
    harness.produce(harness.leader(topic), topic, batch(b"0"), batch(b"1"))
    topic_id = harness.topic_id(topic)
    for number in range(2):
        state = {"partition": number, "state_epoch": 0, "start_offset": 0}
        topics = [{"topic_id": topic_id, "partitions": [state]}]
        coordinator = share_coordinator(harness, group, topic, number)

        def initialized(client: RawClient = coordinator, topics: Any = topics) -> bool:
            answer = call(client, "InitializeShareGroupState", group_id=group, topics=topics)
            return not answer.results[0].partitions[0].error_code

        harness.until(initialized)
    member = ShareMember(harness, topic, group)
    return [
        [
            [partition.partition_index, len(partition.acquired_records)]
            for answered in member.fetch(indexes=indexes).responses
            for partition in answered.partitions
        ]
        for indexes in ((0, 1), (), ())
    ]


def share_fetch_of_unknown_topic(harness: CaseHarness) -> Any:
    member = ShareMember(harness, *prepared(harness, 0))
    member.fetch(max_wait_ms=0)
    return member.fetch(max_wait_ms=0, topic_id=UUID(int=77))


def share_acquire_and_acknowledge(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 6)
    first, second = ShareMember(harness, topic, group), ShareMember(harness, topic, group)
    acquired = first.acquire()
    seen = {
        "acquired": acquired,
        "other member": ranges(second.fetch(max_wait_ms=0)),
        "not the owner": second.acknowledge((0, 0, [ACCEPT])),
        "types": first.acknowledge((0, 3, [ACCEPT, GAP, RELEASE, REJECT])),
        "again": first.acknowledge((0, 0, [ACCEPT])),
        "released": second.acquire(),
        "in a fetch": first.fetch((4, 5, [RELEASE]), max_wait_ms=0),
    }
    coordinator = share_coordinator(harness, group, topic)
    state = read(coordinator, group, harness.topic_id(topic))
    return seen | {"state": state}


def share_acknowledge_errors(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 3)
    member = ShareMember(harness, topic, group)
    member.acquire()
    given: dict[str, Any] = {
        "beyond the end": [(2, 5, [ACCEPT])],
        "far beyond the end": [(50, 51, [ACCEPT])],
        "first after last": [(2, 1, [ACCEPT])],
        "no types": [(0, 2, [])],
        "too few types": [(0, 2, [ACCEPT, ACCEPT])],
        "unknown type": [(0, 0, [9])],
        "negative type": [(0, 0, [-1])],
        "overlap": [(0, 1, [ACCEPT]), (1, 2, [ACCEPT])],
        "not in order": [(2, 2, [ACCEPT]), (0, 0, [ACCEPT])],
        "negative offset": [(-5, -4, [ACCEPT])],
        "no batches": [],
    }
    return {
        name: {
            "acknowledge": member.acknowledge(*batches),
            "fetch": member.fetch(*batches, max_wait_ms=0) if batches else None,
        }
        for name, batches in given.items()
    } | {"all right": member.acknowledge((0, 2, [ACCEPT]))}


def share_delivery_count(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 1)
    member = ShareMember(harness, topic, group)
    seen = []
    for _ in range(5):
        seen.append(member.acquire())
        member.acknowledge((0, 0, [RELEASE]))
    harness.produce(harness.leader(topic), topic, batch(b"next"))
    return {"deliveries": seen, "after the limit": member.acquire()}


def share_session_end_releases(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 1)
    staying = ShareMember(harness, topic, group)
    staying.fetch(max_wait_ms=0)
    seen: dict[str, Any] = {}
    leaving = ShareMember(harness, topic, group)
    if not ranges(staying.fetch(max_wait_ms=0)):
        leaving.acquire()
    else:
        staying.acknowledge((0, 0, [RELEASE]))
        leaving.acquire()
    seen["final fetch"] = leaving.fetch(epoch=-1, indexes=())
    return seen


def share_disconnect_releases(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 2)
    gone, other = ShareMember(harness, topic, group), ShareMember(harness, topic, group)
    first = gone.acquire()
    other.fetch(max_wait_ms=0)
    gone.client.close()
    return {"first": first, "other": other.acquire(max_wait_ms=200)}


def share_new_session_keeps_records(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 2)
    member = ShareMember(harness, topic, group)
    first = member.acquire()
    return {
        "first": first,
        "new session": member.fetch(epoch=0, max_wait_ms=0),
        "accepted": member.acknowledge((0, 1, [ACCEPT]), epoch=1),
    }


def share_limits_of_records(harness: CaseHarness) -> Any:
    topic, group = prepared(harness)
    client = harness.leader(topic)
    for size in (3, 3, 3, 1, 1, 1):
        harness.produce(client, topic, batch(*[b"value"] * size))
    member = ShareMember(harness, topic, group)
    made = member.acquire(max_records=4, batch_size=2)
    answer = member.fetch(max_records=100, batch_size=2)
    return {
        "four": made,
        "rest": ranges(answer),
        "in ranges": [
            [each.first_offset, each.last_offset]
            for each in answer.responses[0].partitions[0].acquired_records
        ],
    }


def share_fetch_waits(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 1)
    member = ShareMember(harness, topic, group)
    member.acquire()
    return {
        "time": harness.timed(300, member.fetch, max_wait_ms=300),
        "no time": harness.timed(0, member.fetch, max_wait_ms=0),
    }


def share_state_after_all_is_accepted(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 4)
    member = ShareMember(harness, topic, group)
    member.acquire()
    member.acknowledge((0, 3, [ACCEPT]))
    coordinator, topic_id = share_coordinator(harness, group, topic), harness.topic_id(topic)
    first = read_summary(coordinator, group, topic_id)
    harness.produce(harness.leader(topic), topic, batch(b"next"))
    member.acquire()
    member.acknowledge((4, 4, [REJECT]))
    return {
        "first": first,
        "second": read_summary(coordinator, group, topic_id),
        "state": read(coordinator, group, topic_id),
    }


CASES = (
    share_session_epochs,
    share_fetch_first_response,
    share_first_fetch_of_two_partitions,
    share_fetch_of_unknown_topic,
    share_acquire_and_acknowledge,
    share_acknowledge_errors,
    share_delivery_count,
    share_session_end_releases,
    share_disconnect_releases,
    share_new_session_keeps_records,
    share_limits_of_records,
    share_fetch_waits,
    share_state_after_all_is_accepted,
)
