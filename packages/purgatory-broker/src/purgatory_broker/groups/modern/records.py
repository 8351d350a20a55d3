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
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from purgatory_broker._wire.reader import FlexibleReader
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker._wire.writer import FlexibleRecordsWriter, FlexibleWriter
from purgatory_broker.groups.modern.assignment_records import (
    read_current,
    read_share_current,
    read_target,
    read_target_epoch,
    write_current,
    write_share_current,
    write_target,
    write_target_epoch,
)
from purgatory_broker.groups.modern.consumer_records import (
    read_epoch,
    read_member,
    read_regex,
    write_epoch,
    write_member,
    write_regex,
)
from purgatory_broker.groups.modern.record_values import ModernValue
from purgatory_broker.groups.modern.share_records import (
    read_share_group,
    read_share_member,
    read_share_states,
    write_share_group,
    write_share_member,
    write_share_states,
)

_INT16 = struct.Struct(">h")
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


class _Codec(NamedTuple):
    write: Callable[[FlexibleWriter, Any], None]
    read: Callable[[FlexibleReader], ModernValue]


_CODECS: Final[dict[int, _Codec]] = {
    RecordKind.CONSUMER_GROUP: _Codec(write_epoch, read_epoch),
    RecordKind.CONSUMER_MEMBER: _Codec(write_member, read_member),
    RecordKind.CONSUMER_TARGET_EPOCH: _Codec(write_target_epoch, read_target_epoch),
    RecordKind.CONSUMER_TARGET: _Codec(write_target, read_target),
    RecordKind.CONSUMER_CURRENT: _Codec(write_current, read_current),
    RecordKind.CONSUMER_REGEX: _Codec(write_regex, read_regex),
    RecordKind.SHARE_GROUP: _Codec(write_share_group, read_share_group),
    RecordKind.SHARE_MEMBER: _Codec(write_share_member, read_share_member),
    RecordKind.SHARE_TARGET_EPOCH: _Codec(write_target_epoch, read_target_epoch),
    RecordKind.SHARE_TARGET: _Codec(write_target, read_target),
    RecordKind.SHARE_CURRENT: _Codec(write_share_current, read_share_current),
    RecordKind.SHARE_STATES: _Codec(write_share_states, read_share_states),
}
