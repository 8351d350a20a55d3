"""The records of the offsets topic `__consumer_offsets`, in Kafka's binary format.

A key begins with a version, which also names the kind of record; a value begins with its own
version. Kafka's tools can read these records, and records of Kafka 4.1 and earlier can be decoded.
The kinds of the newer group protocols are in `modern.records`.

| record | key version | key fields | value version |
|---|---|---|---|
| committed offset | 1 (formerly 0) | group, topic, partition | 3; 1 with an expiration time |
| group | 2 | group | 3 |

Source: Kafka's schemas OffsetCommitKey, OffsetCommitValue, GroupMetadataKey and GroupMetadataValue.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.groups.modern.record_values import ModernValue
from purgatory_broker.groups.modern.records import (
    ModernKey,
    decode_modern_key,
    decode_modern_value,
    encode_modern_key,
    encode_modern_value,
)
from request_purgatory.errors import PurgatoryError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

_OFFSET_KEY_VERSIONS = (0, 1)
_GROUP_KEY_VERSION = 2
_MAX_STRING_BYTES = 0x7FFF


class RecordFormatError(PurgatoryError, ValueError):
    """Bytes that are not a record of this format, or a value that does not fit into one."""


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """A committed offset; times are since the epoch, and -1 never expires by itself."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    #: The number of its record in the partition, which is not part of the record.
    record_number: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class MemberValue:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupValue:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MemberValue, ...]


Key = OffsetKey | GroupKey | ModernKey
Value = OffsetValue | GroupValue | ModernValue


def encode_key(key: Key) -> bytes:
    if isinstance(key, ModernKey):
        return encode_modern_key(key)
    if isinstance(key, OffsetKey):
        return (
            _INT16.pack(1) + _string(key.group_id) + _string(key.topic) + _INT32.pack(key.partition)
        )
    return _INT16.pack(_GROUP_KEY_VERSION) + _string(key.group_id)


def encode_value(value: OffsetValue | GroupValue) -> bytes:
    return _encode_offset(value) if isinstance(value, OffsetValue) else _encode_group(value)


def encode_record(key: Key, value: Value | None) -> tuple[bytes, bytes | None]:
    """Encode a record; a value of None is a tombstone."""
    if value is None:
        return encode_key(key), None
    if isinstance(key, ModernKey):
        try:
            return encode_key(key), encode_modern_value(key, value)
        except WireError as error:
            raise RecordFormatError(str(error)) from error
    assert isinstance(value, OffsetValue | GroupValue), value
    return encode_key(key), encode_value(value)


def decode_key(raw: bytes) -> Key | None:
    """Decode the key of a record; None for a kind that is not known."""
    reader = _Reader(raw)
    version = reader.int16()
    if version in _OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if version == _GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    try:
        return decode_modern_key(raw)
    except (WireError, struct.error, UnicodeDecodeError) as error:
        raise RecordFormatError(f"the key {raw[:40]!r} is no record's: {error}") from error


def decode_modern(key: ModernKey, raw: bytes) -> ModernValue:
    """Decode the value of a record of one of the newer kinds."""
    try:
        return decode_modern_value(key, raw)
    except (WireError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise RecordFormatError(f"the value of {key} is invalid: {error}") from error


def decode_offset(raw: bytes) -> OffsetValue:
    """Decode the value of a committed offset, of versions 0 to 3; fields of later ones are -1."""
    reader = _Reader(raw)
    version = reader.version(3)
    return OffsetValue(
        offset=reader.int64(),
        leader_epoch=reader.int32() if version >= 3 else -1,
        metadata=reader.string(),
        commit_timestamp_ms=reader.int64(),
        expire_timestamp_ms=reader.int64() if version == 1 else -1,
    )


def decode_group(raw: bytes) -> GroupValue:
    """Decode versions 0 to 3; version 0's rebalance timeout is the session timeout."""
    reader = _Reader(raw)
    version = reader.version(3)
    return GroupValue(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        state_timestamp_ms=reader.int64() if version >= 2 else -1,
        members=tuple(_decode_member(reader, version) for _ in range(reader.int32())),
    )


def _decode_member(reader: _Reader, version: int) -> MemberValue:
    member = MemberValue(
        member_id=reader.string(),
        instance_id=reader.nullable_string() if version >= 3 else None,
        client_id=reader.string(),
        client_host=reader.string(),
        rebalance_timeout_ms=reader.int32() if version >= 1 else -1,
        session_timeout_ms=reader.int32(),
        subscription=reader.bytes_field(),
        assignment=reader.bytes_field(),
    )
    if member.rebalance_timeout_ms == -1:
        return replace(member, rebalance_timeout_ms=member.session_timeout_ms)
    return member


def _encode_offset(value: OffsetValue) -> bytes:
    # Only version 1 has an expiration time. OffsetCommit requests up to version 4 may set one.
    expires = value.expire_timestamp_ms != -1
    return b"".join(
        (
            _INT16.pack(1 if expires else 3),
            _INT64.pack(value.offset),
            b"" if expires else _INT32.pack(value.leader_epoch),
            _string(value.metadata),
            _INT64.pack(value.commit_timestamp_ms),
            _INT64.pack(value.expire_timestamp_ms) if expires else b"",
        )
    )


def _encode_group(value: GroupValue) -> bytes:
    parts = [
        _INT16.pack(3),
        _string(value.protocol_type),
        _INT32.pack(value.generation),
        _nullable_string(value.protocol),
        _nullable_string(value.leader),
        _INT64.pack(value.state_timestamp_ms),
        _INT32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            _string(member.member_id),
            _nullable_string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def _string(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > _MAX_STRING_BYTES:
        raise RecordFormatError(
            f"a string in a record may have {_MAX_STRING_BYTES} bytes, got {len(raw)}: "
            f"{text[:40]!r}..."
        )
    return _INT16.pack(len(raw)) + raw


def _nullable_string(text: str | None) -> bytes:
    return _INT16.pack(-1) if text is None else _string(text)


def _bytes(raw: bytes) -> bytes:
    return _INT32.pack(len(raw)) + raw


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._position = 0

    def version(self, latest: int) -> int:
        version = self.int16()
        if not 0 <= version <= latest:
            raise RecordFormatError(
                f"the version of a value must be between 0 and {latest}, got {version}"
            )
        return version

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise RecordFormatError(
                f"expected a string, got null before byte {self._position} of {len(self._raw)}"
            )
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length == -1:
            return None
        try:
            return self._read(length).decode()
        except UnicodeDecodeError as error:
            raise RecordFormatError(f"a string is not UTF-8: {error}") from error

    def bytes_field(self) -> bytes:
        return self._read(self.int32())

    def _number(self, form: struct.Struct) -> int:
        number: int = form.unpack(self._read(form.size))[0]
        return number

    def _read(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._raw):
            raise RecordFormatError(
                f"expected {size} bytes after byte {self._position} of {len(self._raw)}"
            )
        start, self._position = self._position, end
        return bytes(self._raw[start:end])
