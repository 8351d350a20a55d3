"""Groups of the consumer protocol: heartbeats, epochs, assignments and their records."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, is_dataclass
from dataclasses import fields as fields_of
from typing import Any

from purgatory_broker.groups.group_records import decode_key, decode_modern
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.modern.record_values import GroupEpoch, ResolvedRegex
from purgatory_broker.groups.modern.records import ModernKey
from purgatory_broker.log.batch import split_batches
from purgatory_broker.log.record import read_records
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, java_partition
from tests.broker.kafka_server import SHARED_SETTINGS
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, fetch_fields
from tests.broker.parity.members import newcomer, only_member
from tests.broker.parity.raw import RawClient, message
from tests.broker.wire.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)

_JOIN, _LEAVE, _STATIC_LEAVE = 0, -1, -2
_LATEST = 1


@dataclass
class _Member:
    """A member as its client remembers it."""

    client: RawClient
    group: str
    id: str
    topics: list[str] | None
    instance: str | None = None
    epoch: int = _JOIN
    #: The numbers of its partitions, by topic id.
    owned: dict[Any, list[int]] = field(default_factory=dict)

    def beat(self, version: int = _LATEST, **changed: Any) -> Any:
        """Send a whole request, and learn from the response."""
        owned = [{"topic_id": each, "partitions": got} for each, got in self.owned.items()]
        fields = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            "rack_id": None,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": owned,
        }
        answer = self.client.send(message(ConsumerGroupHeartbeatRequest, fields | changed), version)
        if not answer.error_code:
            self.id, self.epoch = answer.member_id, max(answer.member_epoch, _JOIN)
            if answer.assignment is not None:
                self.owned = {
                    each.topic_id: sorted(each.partitions)
                    for each in answer.assignment.topic_partitions
                }
        return _seen(answer)

    def beat_short(self) -> Any:
        """Send a request without what has not changed."""
        return self.beat(
            rebalance_timeout_ms=-1, subscribed_topic_names=None, topic_partitions=None
        )

    def leave(self, epoch: int = _LEAVE) -> Any:
        return self.beat(
            member_epoch=epoch,
            rebalance_timeout_ms=-1,
            subscribed_topic_names=None,
            topic_partitions=None,
        )


def _seen(answer: Any) -> dict[str, Any]:
    """Return what a response says, with its message and the sorted partitions."""
    seen: dict[str, Any] = {"error_code": answer.error_code, "said": answer.error_message}
    if not answer.error_code:
        seen |= {
            "member_id": answer.member_id,
            "epoch": answer.member_epoch,
            "interval": answer.heartbeat_interval_ms,
            "assignment": None
            if answer.assignment is None
            else sorted(sorted(each.partitions) for each in answer.assignment.topic_partitions),
        }
    return seen


def _member(
    harness: CaseHarness, group: str, name: str, *topics: str, instance: str | None = None
) -> _Member:
    return _Member(harness.coordinator(group), group, name, list(topics), instance)


def _described(member: _Member, version: int = 1) -> Any:
    fields = {"group_ids": [member.group], "include_authorized_operations": False}
    answer = member.client.send(message(ConsumerGroupDescribeRequest, fields), version)
    group = answer.groups[0]
    members = [
        {
            "id": each.member_id,
            "instance": each.instance_id,
            "epoch": each.member_epoch,
            "topics": sorted(each.subscribed_topic_names),
            "regex": each.subscribed_topic_regex,
            "assignment": _named(each.assignment),
            "target": _named(each.target_assignment),
            "type": each.member_type,
        }
        for each in group.members
    ]
    return {
        "error_code": group.error_code,
        "said": group.error_message,
        "state": group.group_state,
        "epoch": group.group_epoch,
        "assignment epoch": group.assignment_epoch,
        "assignor": group.assignor_name,
        "members": sorted(members, key=lambda each: str(each["id"])),
    }


def _named(assignment: Any) -> list[Any]:
    return sorted(
        [each.topic_name, *sorted(each.partitions)] for each in assignment.topic_partitions
    )


def _commit(member: _Member, topic: str, version: int = 9, **changed: Any) -> Any:
    partition = {
        "partition_index": 0,
        "committed_offset": 5,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    fields = {
        "group_id": member.group,
        "generation_id_or_member_epoch": member.epoch,
        "member_id": member.id,
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    return member.client.call("OffsetCommit", version, **fields | changed).topics


def _fetch(member: _Member, topic: str, **changed: Any) -> Any:
    group = {
        "group_id": member.group,
        "member_id": member.id,
        "member_epoch": member.epoch,
        "topics": [{"name": topic, "partition_indexes": [0]}],
    }
    return member.client.call(
        "OffsetFetch", 9, groups=[group | changed], require_stable=False
    ).groups


@case
def consumer_joins_alone_and_leaves(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=4)
    member = _member(harness, group, "a", topic)
    seen = {"joined": member.beat(), "whole": member.beat(), "short": member.beat_short()}
    seen |= {
        "described": _described(member),
        "described, version 0": _described(member, 0),
        "committed": _commit(member, topic),
        "fetched": _fetch(member, topic),
        "other subscription": member.beat(subscribed_topic_names=[topic, harness.name("none")]),
        "left": member.leave(),
        "left again": member.leave(),
        "empty": _described(member),
        "heartbeat": member.beat(member_epoch=3),
    }
    return seen


@case
def consumer_heartbeats_that_are_refused(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=2)
    member = _member(harness, group, "a", topic)
    one = [{"topic_id": harness.topic_id(topic), "partitions": [0]}]
    first = {
        "empty group": member.beat(group_id=""),
        "unknown group": member.beat(member_epoch=1),
        "unknown group left": member.leave(),
        "no member id": member.beat(member_id=""),
        "no rebalance timeout": member.beat(rebalance_timeout_ms=-1),
        "no partitions": member.beat(topic_partitions=None),
        "partitions": member.beat(topic_partitions=one),
        "no subscription": member.beat(subscribed_topic_names=None),
        "empty instance": member.beat(instance_id=""),
        "empty rack": member.beat(rack_id=""),
        "unknown assignor": member.beat(server_assignor="mine"),
        "epoch too low": member.beat(member_epoch=-3),
        "no instance": member.beat(member_epoch=_STATIC_LEAVE),
        "invalid expression": member.beat(subscribed_topic_regex="(a"),
    }
    member.beat()
    return first | {
        "greater epoch": member.beat(member_epoch=member.epoch + 1),
        "smaller epoch": member.beat(member_epoch=member.epoch, topic_partitions=one),
        "unknown member": member.beat(member_id="b", member_epoch=1),
        "unknown instance": member.beat(instance_id="i"),
        "unknown member left": member.beat(member_id="b", member_epoch=_LEAVE),
        "generated id": _generated(member),
    }


def _generated(member: _Member) -> Any:
    """Join in the version whose members may have no id; the id is random."""
    seen = member.beat(0, member_id="", member_epoch=_JOIN, topic_partitions=[])
    return seen | {"member_id": len(seen["member_id"])}


@case
def consumers_share_partitions(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=4)
    first = _member(harness, group, "a", topic)
    seen: dict[str, Any] = {"first": first.beat()}
    before = first.owned
    second = _member(harness, group, "b", topic)
    seen["second"] = second.beat()
    seen["first is told"] = first.beat()
    seen["states"] = {
        name: value for name, value in _described(first).items() if name in ("state", "epoch")
    }
    now, first.owned = first.owned, before
    seen["first has not revoked"] = first.beat(topic_partitions=_as_fields(before))
    seen["second waits"] = second.beat()
    first.owned = now
    seen["first has revoked"] = first.beat()
    seen["second gets them"] = second.beat()
    seen["all is stable"] = _described(first)["state"]
    seen["second left"] = second.leave()
    seen["first gets all"] = first.beat()
    return seen


def _as_fields(owned: dict[Any, list[int]]) -> list[dict[str, Any]]:
    return [{"topic_id": each, "partitions": got} for each, got in owned.items()]


@case
def consumer_repeats_a_heartbeat_whose_answer_is_lost(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=2)
    member = _member(harness, group, "a", topic)
    member.beat()
    epoch, owned = member.epoch, _as_fields(member.owned)
    other = harness.topic("other", partitions=1)
    member.topics = [topic, other]
    seen = {"changed": member.beat()}
    seen["repeated"] = member.beat(member_epoch=epoch, topic_partitions=owned)
    seen["without partitions"] = member.beat(member_epoch=epoch, topic_partitions=None)
    seen["two epochs ago"] = member.beat(member_epoch=epoch - 1, topic_partitions=owned)
    seen["join again"] = member.beat(member_epoch=_JOIN, topic_partitions=[])
    return seen


@case
def offsets_of_consumers_need_their_epoch(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=2)
    member = _member(harness, group, "a", topic)
    member.beat()
    stale = member.epoch - 1
    return {
        "stale": _commit(member, topic, generation_id_or_member_epoch=stale),
        "later": _commit(member, topic, generation_id_or_member_epoch=member.epoch + 1),
        "unknown": _commit(member, topic, member_id="b"),
        "no member": _commit(member, topic, member_id="", generation_id_or_member_epoch=-1),
        "old version": _commit(member, topic, 8),
        "committed": _commit(member, topic),
        "fetched": _fetch(member, topic),
        "fetched, stale": _fetch(member, topic, member_epoch=stale),
        "fetched, unknown": _fetch(member, topic, member_id="b"),
        "fetched, no member": _fetch(member, topic, member_id=None, member_epoch=-1),
    }


@case
def static_consumers_return(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=2)
    first = _member(harness, group, "a", topic, instance="i")
    seen = {"joined": first.beat()}
    second = _member(harness, group, "b", topic, instance="i")
    seen["taken"] = second.beat()
    seen["other id"] = second.beat(member_epoch=1)
    seen["left for now"] = first.leave(_STATIC_LEAVE)
    seen["described"] = _described(first)
    seen["returned"] = second.beat()
    seen["former one"] = first.beat(member_epoch=1)
    seen["former one left"] = first.leave(_STATIC_LEAVE)
    seen["left"] = second.leave()
    seen["empty"] = _described(first)
    return seen


@case
def consumer_subscribes_by_expression(harness: CaseHarness) -> Any:
    group = harness.name("group")
    harness.topic(partitions=2)
    harness.topic("topic2", partitions=1)
    member = _member(harness, group, "a")
    member.topics = None
    regex = harness.name("topic2?")
    seen: dict[str, Any] = {"joined": member.beat(subscribed_topic_regex=regex)}

    def assigned() -> Any:
        answer = member.beat(subscribed_topic_regex=regex)
        return answer if answer["assignment"] else None

    seen["assigned"] = harness.until(assigned)
    seen["described"] = _described(member)
    seen["no expression"] = member.beat(subscribed_topic_regex="", subscribed_topic_names=[])
    seen["left"] = member.leave()
    return seen


@case
def groups_are_seen_by_their_type(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=1)
    member = _member(harness, group, "a", topic)
    member.beat()
    classic = only_member(harness, harness.name("classic"))

    def listed(client: RawClient, wanted: str, **filters: Any) -> Any:
        fields: dict[str, Any] = {"states_filter": [], "types_filter": []}
        answer = client.call("ListGroups", 5, **fields | filters)
        return [each for each in answer.groups if each.group_id == wanted]

    describe = {"groups": [group], "include_authorized_operations": False}
    on_classic = _Member(classic.client, classic.group, "a", [topic])
    return {
        "listed": listed(member.client, group),
        "consumer": listed(member.client, group, types_filter=["consumer"]),
        "not classic": listed(member.client, group, types_filter=["classic"]),
        "stable": listed(member.client, group, states_filter=["stable"]),
        "not empty": listed(member.client, group, states_filter=["empty"]),
        "as classic": member.client.call("DescribeGroups", 6, **describe).groups,
        "as classic, version 5": member.client.call("DescribeGroups", 5, **describe).groups,
        "classic as consumer": _described(on_classic),
        "heartbeat in classic": on_classic.beat(member_epoch=1),
        "left classic": on_classic.leave(),
        "deleted with members": member.client.call("DeleteGroups", 2, groups_names=[group]),
        "left": member.leave(),
        "deleted": member.client.call("DeleteGroups", 2, groups_names=[group]),
        "gone": _described(member),
    }


def _subscription(topic: str) -> bytes:
    name = topic.encode()
    return struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">i", -1)


def _in_protocol(topic: str) -> dict[str, Any]:
    return {"protocols": [{"name": "range", "metadata": _subscription(topic)}]}


@case
def classic_group_is_upgraded_and_downgraded(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=2)
    classic = newcomer(harness, group)
    fields = _in_protocol(topic)
    seen: dict[str, Any] = {"classic joined": classic.join(**fields).error_code}
    name = topic.encode()
    assignment = struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">iii", 2, 0, 1)
    assignment += struct.pack(">i", -1)
    synced = classic.sync(assignments=[{"member_id": classic.id, "assignment": assignment}])
    seen["classic synced"] = synced.error_code
    member = _member(harness, group, "a", topic)
    seen["consumer joined"] = member.beat()
    seen["described"] = _described(member)
    seen["classic heartbeat"] = classic.heartbeat()
    seen["classic joins again"] = classic.join(**fields)
    seen["classic synced again"] = classic.sync(assignments=[])
    seen["consumer gets one"] = member.beat()
    seen["classic in peace"] = classic.heartbeat()
    seen["of another generation"] = classic.heartbeat(generation_id=1)
    seen["stable"] = _described(member)
    seen["consumer left"] = member.leave()
    seen["as consumers"] = _described(member)
    seen["classic is told"] = classic.heartbeat()
    seen["classic joined alone"] = classic.join(**fields)
    return seen


@case
def empty_groups_change_their_type(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=1)
    member = _member(harness, group, "a", topic)
    seen: dict[str, Any] = {"consumer joined": member.beat(), "consumer left": member.leave()}
    classic = only_member(harness, group)
    seen["generation"] = classic.generation
    seen["as consumers"] = _described(member)
    seen["classic left"] = classic.leave()
    seen["consumer joined again"] = member.beat(member_epoch=_JOIN, topic_partitions=[])
    return seen


@case
def members_get_partitions_that_are_added(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=1)
    member = _member(harness, group, "a", topic)
    seen: dict[str, Any] = {"joined": member.beat()}
    more = {"name": topic, "count": 3, "assignments": None}
    harness.node_0.call(
        "CreatePartitions", 3, topics=[more], timeout_ms=10_000, validate_only=False
    )

    def grown() -> Any:
        answer = member.beat()
        return answer if answer["epoch"] > 1 else None

    return seen | {"grown": harness.until(grown)}


def _stored(harness: CaseHarness, member: _Member) -> list[Any]:
    """Return the group's records, in the order of the log."""
    partition = java_partition(member.group, SHARED_SETTINGS["offsets.topic.num.partitions"])
    leader = harness.leader(OFFSETS_TOPIC, partition)
    fields = fetch_fields(OFFSETS_TOPIC, {partition: 0}, partition_max_bytes=1 << 26)
    fetched = leader.call("Fetch", 12, **fields | {"max_bytes": 1 << 26})
    raw = bytes(fetched.responses[0].partitions[0].records)
    ids: dict[Any, str] = {}
    stored = []
    for header, kept in split_batches(raw):
        for record in read_records(header, kept):
            key = decode_key(record.key or b"")
            if isinstance(key, ModernKey) and key.group_id == member.group:
                value = None
                if record.value is not None:
                    value = _plain(decode_modern(key, record.value), ids)
                stored.append([key.kind.name, key.item, value])
    return stored


def _plain(value: Any, ids: dict[Any, str]) -> Any:
    """Return a value as JSON; what differs in every run by its kind alone."""
    if isinstance(value, GroupEpoch):
        return {"epoch": value.epoch, "has hash": value.metadata_hash != 0}
    if isinstance(value, ResolvedRegex):
        return sorted(value.topics)
    if isinstance(value, frozenset):
        return sorted(
            [ids.setdefault(each.topic_id, f"topic {len(ids)}"), each.partition]
            if isinstance(each, TopicIdPartition)
            else each
            for each in value
        )
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name), ids) for each in fields_of(value)}
    return value


@case
def records_of_consumer_groups(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=2)
    first = _member(harness, group, "a", topic, instance="i")
    first.beat()
    second = _member(harness, group, "b", topic)
    for member in (second, first, first, second):
        member.beat()
    second.leave()
    first.leave(_STATIC_LEAVE)
    returned = _member(harness, group, "c", topic, instance="i")
    returned.beat()
    returned.leave()
    first.client.call("DeleteGroups", 2, groups_names=[group])
    return _stored(harness, first)
