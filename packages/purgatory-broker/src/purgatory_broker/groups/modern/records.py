"""The records of the newer kinds of groups in `__consumer_offsets`, in Kafka's binary format.

A key is the kind of the record, the group's id and, for some kinds, a member's id or a regular
expression. A value begins with its version, which is 0, and is flexible (KIP-482).

| kind | record | item | value |
|---|---|---|---|
| 3 | ConsumerGroupMetadata | | group epoch, hash of the topics' metadata |
| 4 | ConsumerGroupPartitionMetadata | | of Kafka before 4.1; it is skipped |
| 5 | ConsumerGroupMemberMetadata | member | subscription, timeouts, client |
| 6 | ConsumerGroupTargetAssignmentMetadata | | epoch of the target assignment |
| 7 | ConsumerGroupTargetAssignmentMember | member | target assignment |
| 8 | ConsumerGroupCurrentMemberAssignment | member | member epoch, state, partitions |
| 10 | ShareGroupMemberMetadata | member | subscription, client |
| 11 | ShareGroupMetadata | | group epoch, hash of the topics' metadata |
| 12 | ShareGroupTargetAssignmentMetadata | | epoch of the target assignment |
| 13 | ShareGroupTargetAssignmentMember | member | target assignment |
| 14 | ShareGroupCurrentMemberAssignment | member | member epoch, state, partitions |
| 15 | ShareGroupStatePartitionMetadata | | topics whose share partitions have a state |
| 16 | ConsumerGroupRegularExpression | expression | topics that match it |

Source: the schemas of those names in Kafka 4.1's group coordinator.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from purgatory_broker._wire.reader import FlexibleReader
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker._wire.writer import FlexibleRecordsWriter, FlexibleWriter
from purgatory_broker.groups.modern.partitions import (
    NO_PARTITIONS,
    Assignment,
    by_topic,
    of_topics,
)

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
#: A record is at most as large as a batch, so its arrays need no other limit.
_MAX_ELEMENTS = 10_000_000


class RecordKind(IntEnum):
    CONSUMER_GROUP = 3
    CONSUMER_MEMBER = 5
    CONSUMER_TARGET_EPOCH = 6
    CONSUMER_TARGET = 7
    CONSUMER_CURRENT = 8
    SHARE_MEMBER = 10
    SHARE_GROUP = 11
    SHARE_TARGET_EPOCH = 12
    SHARE_TARGET = 13
    SHARE_CURRENT = 14
    SHARE_STATES = 15
    CONSUMER_REGEX = 16


#: The kinds whose key has an item.
_WITH_ITEM: Final = frozenset(
    {
        RecordKind.CONSUMER_MEMBER,
        RecordKind.CONSUMER_TARGET,
        RecordKind.CONSUMER_CURRENT,
        RecordKind.CONSUMER_REGEX,
        RecordKind.SHARE_MEMBER,
        RecordKind.SHARE_TARGET,
        RecordKind.SHARE_CURRENT,
    }
)


class ModernKey(NamedTuple):
    kind: RecordKind
    group_id: str
    #: A member's id or a regular expression; empty for kinds without one.
    item: str = ""


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    epoch: int
    #: Of the subscribed topics' metadata: another one makes a new epoch.
    metadata_hash: int = 0


class MemberState(IntEnum):
    """Where a member is on the way from its assignment to the target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


#: A state of a later version is unknown.
_STATES: Final = {state.value: state for state in MemberState}


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """What a member says that uses the classic protocol."""

    session_timeout_ms: int
    #: Names of assignors and embedded subscriptions, in the member's order of preference.
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberValue:
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()
    #: None if the member subscribes by names alone.
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    #: None for a member of the consumer protocol.
    classic: ClassicMember | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    epoch: int = 0
    #: The epoch before the last change: its answer may have been lost.
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NO_PARTITIONS
    pending_revocation: Assignment = NO_PARTITIONS


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    topics: frozenset[str]
    #: Of the metadata with which the topics were found.
    version: int = 0
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class ShareMemberValue:
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShareStates:
    """The partitions of a share group with a state at a share coordinator."""

    initializing: Assignment = NO_PARTITIONS
    initialized_partitions: Assignment = NO_PARTITIONS
    #: The topics whose states are being deleted.
    deleting: frozenset[UUID] = frozenset()
    #: The names of all these topics, for a topic that is deleted.
    names: frozenset[tuple[UUID, str]] = frozenset()


ModernValue: TypeAlias = (
    ShareMemberValue
    | ShareStates
    | GroupEpoch
    | ConsumerMemberValue
    | CurrentAssignment
    | ResolvedRegex
    | Assignment
    | int
)


def encode_modern_key(key: ModernKey) -> bytes:
    raw = _INT16.pack(key.kind) + _text(key.group_id)
    return raw + _text(key.item) if key.kind in _WITH_ITEM else raw


def decode_modern_key(raw: bytes) -> ModernKey | None:
    """Decode the key of a record; None for a kind that is not known."""
    (number,) = _INT16.unpack_from(raw)
    if number not in _CODECS:
        return None
    kind = RecordKind(number)
    group_id, position = _read_text(raw, _INT16.size)
    item = _read_text(raw, position)[0] if kind in _WITH_ITEM else ""
    return ModernKey(kind, group_id, item)


def encode_modern_value(key: ModernKey, value: Any) -> bytes:
    """Encode the value of a record; raise WireError if one of its strings is too long."""
    out = FlexibleRecordsWriter(_INT16.pack(0))
    _CODECS[key.kind].write(out, value)
    return bytes(out)


def decode_modern_value(key: ModernKey, raw: bytes) -> ModernValue:
    reader = FlexibleReader(raw, 0, _MAX_ELEMENTS)
    (version,) = reader.unpack(_INT16)
    if version != 0:
        raise WireError(f"the version of a value must be 0, got {version}")
    return _CODECS[key.kind].read(reader)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def _read_text(raw: bytes, position: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(raw, position)
    end = position + _INT16.size + length
    if length < 0 or end > len(raw):
        raise WireError(f"no string of {length} bytes at {position} of {len(raw)}")
    return raw[position + _INT16.size : end].decode(), end


def write_partitions(out: FlexibleWriter, partitions: Assignment) -> None:
    topics = by_topic(partitions)
    out.length(len(topics))
    for topic_id, numbers in topics.items():
        out.topic_id(topic_id)
        out.numbers(numbers, "i")
        out.append(0)


def read_partitions(reader: FlexibleReader) -> Assignment:
    topics = []
    for _ in range(reader.count("topics", 18)):
        topic_id = reader.topic_id("topic_id")
        topics.append((topic_id, reader.numbers("partitions", "i", 4)))
        reader.skip_tagged_fields()
    return of_topics(topics)


def _write_epoch(out: FlexibleWriter, value: GroupEpoch) -> None:
    out += _INT32.pack(value.epoch)
    # A tagged field with its default is left out.
    out.tagged_fields([(0, _INT64.pack(value.metadata_hash))] if value.metadata_hash else [])


def _read_epoch(reader: FlexibleReader) -> GroupEpoch:
    (epoch,) = reader.unpack(_INT32)
    metadata_hash = 0
    for _ in range(reader.tagged_fields()):
        if reader.tag() == 0:
            (metadata_hash,) = reader.unpack(_INT64)
        else:
            reader.skip_value()
    return GroupEpoch(epoch, metadata_hash)


def _write_target_epoch(out: FlexibleWriter, epoch: int) -> None:
    out += _INT32.pack(epoch)
    out.append(0)


def _read_target_epoch(reader: FlexibleReader) -> int:
    (epoch,) = reader.unpack(_INT32)
    reader.skip_tagged_fields()
    return int(epoch)


def _write_target(out: FlexibleWriter, partitions: Assignment) -> None:
    write_partitions(out, partitions)
    out.append(0)


def _read_target(reader: FlexibleReader) -> Assignment:
    partitions = read_partitions(reader)
    reader.skip_tagged_fields()
    return partitions


def _write_strings(out: FlexibleWriter, texts: Iterable[str]) -> None:
    out.strings(sorted(texts))


def _write_member(out: FlexibleWriter, value: ConsumerMemberValue) -> None:
    out.nullable_string(value.instance_id)
    out.nullable_string(value.rack_id)
    out.string(value.client_id)
    out.string(value.client_host)
    _write_strings(out, value.topics)
    # Without an expression, Kafka writes an empty one.
    out.nullable_string(value.regex or "")
    out += _INT32.pack(value.rebalance_timeout_ms)
    out.nullable_string(value.assignor)
    classic = value.classic
    field = out.value()
    # Whether a tagged struct is null is told by a 0 or 1, and not by -1 as elsewhere.
    field.append(classic is not None)
    if classic is None:
        out.tagged_fields([(0, field)])
        return
    field += _INT32.pack(classic.session_timeout_ms)
    field.length(len(classic.protocols))
    for name, metadata in classic.protocols:
        field.string(name)
        field.blob(metadata)
        field.append(0)
    field.append(0)
    out.tagged_fields([(0, field)])


def _read_member(reader: FlexibleReader) -> ConsumerMemberValue:
    instance_id = reader.nullable_string("instance_id")
    rack_id = reader.nullable_string("rack_id")
    client_id = reader.string("client_id")
    client_host = reader.string("client_host")
    topics = frozenset(reader.strings("subscribed_topic_names"))
    regex = reader.nullable_string("subscribed_topic_regex") or None
    (rebalance_timeout_ms,) = reader.unpack(_INT32)
    assignor = reader.nullable_string("server_assignor")
    classic = None
    for _ in range(reader.tagged_fields()):
        if reader.tag() == 0:
            (is_present,) = reader.unpack(_INT8)
            classic = _read_classic(reader) if is_present else None
        else:
            reader.skip_value()
    return ConsumerMemberValue(
        client_id,
        client_host,
        instance_id,
        rack_id,
        topics,
        regex,
        rebalance_timeout_ms,
        assignor,
        classic,
    )


def _read_classic(reader: FlexibleReader) -> ClassicMember:
    (session_timeout_ms,) = reader.unpack(_INT32)
    protocols = []
    for _ in range(reader.count("supported_protocols", 3)):
        protocols.append((reader.string("name"), reader.blob("metadata")))
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return ClassicMember(session_timeout_ms, tuple(protocols))


def _write_current(out: FlexibleWriter, value: CurrentAssignment) -> None:
    out += _INT32.pack(value.epoch) + _INT32.pack(value.previous_epoch) + _INT8.pack(value.state)
    write_partitions(out, value.assigned)
    write_partitions(out, value.pending_revocation)
    out.append(0)


def _read_current(reader: FlexibleReader) -> CurrentAssignment:
    (epoch,), (previous,) = reader.unpack(_INT32), reader.unpack(_INT32)
    (state,) = reader.unpack(_INT8)
    assigned, pending = read_partitions(reader), read_partitions(reader)
    reader.skip_tagged_fields()
    return CurrentAssignment(
        epoch, previous, _STATES.get(state, MemberState.UNKNOWN), assigned, pending
    )


def _write_regex(out: FlexibleWriter, value: ResolvedRegex) -> None:
    _write_strings(out, value.topics)
    out += _INT64.pack(value.version) + _INT64.pack(value.timestamp_ms)
    out.append(0)


def _read_regex(reader: FlexibleReader) -> ResolvedRegex:
    topics = frozenset(reader.strings("topics"))
    (version,), (timestamp_ms,) = reader.unpack(_INT64), reader.unpack(_INT64)
    reader.skip_tagged_fields()
    return ResolvedRegex(topics, version, timestamp_ms)


def _write_share_group(out: FlexibleWriter, value: GroupEpoch) -> None:
    out += _INT32.pack(value.epoch) + _INT64.pack(value.metadata_hash)
    out.append(0)


def _read_share_group(reader: FlexibleReader) -> GroupEpoch:
    (epoch,), (metadata_hash,) = reader.unpack(_INT32), reader.unpack(_INT64)
    reader.skip_tagged_fields()
    return GroupEpoch(epoch, metadata_hash)


def _write_share_member(out: FlexibleWriter, value: ShareMemberValue) -> None:
    out.nullable_string(value.rack_id)
    out.string(value.client_id)
    out.string(value.client_host)
    _write_strings(out, value.topics)
    out.append(0)


def _read_share_member(reader: FlexibleReader) -> ShareMemberValue:
    rack_id = reader.nullable_string("rack_id")
    client_id, client_host = reader.string("client_id"), reader.string("client_host")
    topics = frozenset(reader.strings("subscribed_topic_names"))
    reader.skip_tagged_fields()
    return ShareMemberValue(client_id, client_host, rack_id, topics)


def _write_share_current(out: FlexibleWriter, value: CurrentAssignment) -> None:
    out += _INT32.pack(value.epoch) + _INT32.pack(value.previous_epoch) + _INT8.pack(value.state)
    write_partitions(out, value.assigned)
    out.append(0)


def _read_share_current(reader: FlexibleReader) -> CurrentAssignment:
    (epoch,), (previous,) = reader.unpack(_INT32), reader.unpack(_INT32)
    (state,) = reader.unpack(_INT8)
    assigned = read_partitions(reader)
    reader.skip_tagged_fields()
    return CurrentAssignment(epoch, previous, _STATES.get(state, MemberState.UNKNOWN), assigned)


def _write_share_states(out: FlexibleWriter, value: ShareStates) -> None:
    names = dict(value.names)
    for partitions in (value.initializing, value.initialized_partitions):
        topics = by_topic(partitions)
        out.length(len(topics))
        for topic_id, numbers in topics.items():
            out.topic_id(topic_id)
            out.string(names[topic_id])
            out.numbers(numbers, "i")
            out.append(0)
    out.length(len(value.deleting))
    for topic_id in sorted(value.deleting):
        out.topic_id(topic_id)
        out.string(names[topic_id])
        out.append(0)
    out.append(0)


def _read_share_states(reader: FlexibleReader) -> ShareStates:
    names: set[tuple[UUID, str]] = set()

    def topic() -> UUID:
        topic_id = reader.topic_id("topic_id") or UUID(int=0)
        names.add((topic_id, reader.string("topic_name")))
        return topic_id

    def topics() -> Assignment:
        found = []
        for _ in range(reader.count("topics", 19)):
            found.append((topic(), reader.numbers("partitions", "i", 4)))
            reader.skip_tagged_fields()
        return of_topics(found)

    initializing, initialized = topics(), topics()
    deleting = set()
    for _ in range(reader.count("deleting", 18)):
        deleting.add(topic())
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return ShareStates(initializing, initialized, frozenset(deleting), frozenset(names))


class _Codec(NamedTuple):
    write: Callable[[FlexibleWriter, Any], None]
    read: Callable[[FlexibleReader], ModernValue]


_CODECS: Final[dict[int, _Codec]] = {
    RecordKind.CONSUMER_GROUP: _Codec(_write_epoch, _read_epoch),
    RecordKind.CONSUMER_MEMBER: _Codec(_write_member, _read_member),
    RecordKind.CONSUMER_TARGET_EPOCH: _Codec(_write_target_epoch, _read_target_epoch),
    RecordKind.CONSUMER_TARGET: _Codec(_write_target, _read_target),
    RecordKind.CONSUMER_CURRENT: _Codec(_write_current, _read_current),
    RecordKind.CONSUMER_REGEX: _Codec(_write_regex, _read_regex),
    RecordKind.SHARE_GROUP: _Codec(_write_share_group, _read_share_group),
    RecordKind.SHARE_MEMBER: _Codec(_write_share_member, _read_share_member),
    RecordKind.SHARE_TARGET_EPOCH: _Codec(_write_target_epoch, _read_target_epoch),
    RecordKind.SHARE_TARGET: _Codec(_write_target, _read_target),
    RecordKind.SHARE_CURRENT: _Codec(_write_share_current, _read_share_current),
    RecordKind.SHARE_STATES: _Codec(_write_share_states, _read_share_states),
}
