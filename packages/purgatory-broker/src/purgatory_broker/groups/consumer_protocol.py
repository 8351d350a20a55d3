"""The bytes of Kafka's consumer protocol: assignments and subscriptions.

Source: Kafka's schemas ConsumerProtocolAssignment and ConsumerProtocolSubscription.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OWNED_SINCE = 1
_GENERATION_SINCE = 2
_RACK_SINCE = 3
_NEWEST = 3


class Subscription(NamedTuple):
    version: int
    topics: frozenset[str]
    #: The partitions that the consumer has, by topic; empty in the first version.
    owned: dict[str, list[int]]
    rack_id: str | None = None


def assigned_partitions(assignment: bytes) -> dict[str, list[int]]:
    """Return an assignment's partitions by topic, which come first in every version."""
    if not assignment:
        return {}
    try:
        return _Fields(assignment, _INT16.size).partitions()
    except struct.error as error:
        raise ValueError(
            f"{len(assignment)} bytes are not a consumer's assignment: {error}"
        ) from error


def has_user_data(assignment: bytes) -> bool:
    """Return whether an assignor has added bytes of its own to an assignment."""
    if not assignment:
        return False
    try:
        fields = _Fields(assignment, _INT16.size)
        fields.partitions()
        return bool(fields.blob())
    except struct.error as error:
        raise ValueError(
            f"{len(assignment)} bytes are not a consumer's assignment: {error}"
        ) from error


def encode_assignment(version: int, topics: Mapping[str, Sequence[int]]) -> bytes:
    """Return an assignment without data of an assignor."""
    parts = [_INT16.pack(min(max(version, 0), _NEWEST)), _INT32.pack(len(topics))]
    for name, partitions in topics.items():
        raw = name.encode()
        parts += [_INT16.pack(len(raw)), raw, _INT32.pack(len(partitions))]
        parts += map(_INT32.pack, partitions)
    return b"".join([*parts, _INT32.pack(-1)])


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return a subscription's topics, which come first in every version of its schema."""
    try:
        return _Fields(metadata, _INT16.size).topics()
    except struct.error as error:
        raise ValueError(
            f"{len(metadata)} bytes are not a consumer's subscription: {error}"
        ) from error


def decode_subscription(metadata: bytes) -> Subscription:
    try:
        (version,) = _INT16.unpack_from(metadata)
        fields = _Fields(metadata, _INT16.size)
        topics = fields.topics()
        fields.blob()
        owned = fields.partitions() if version >= _OWNED_SINCE else {}
        if version >= _GENERATION_SINCE:
            fields.number()
        rack_id = fields.nullable_text() if version >= _RACK_SINCE else None
    except struct.error as error:
        raise ValueError(
            f"{len(metadata)} bytes are not a consumer's subscription: {error}"
        ) from error
    return Subscription(version, topics, owned, rack_id)


class _Fields:
    """Reads fields one after the other; raises struct.error or ValueError."""

    def __init__(self, raw: bytes, position: int) -> None:
        self._raw = raw
        self._position = position
        if len(raw) < position:
            raise struct.error(f"expected {position} bytes at least")

    def number(self) -> int:
        (number,) = _INT32.unpack_from(self._raw, self._position)
        self._position += _INT32.size
        return int(number)

    def text(self) -> str:
        text = self.nullable_text()
        if text is None:
            raise ValueError(f"no name of a topic is null, as the one before {self._position}")
        return text

    def nullable_text(self) -> str | None:
        (length,) = _INT16.unpack_from(self._raw, self._position)
        position = self._position + _INT16.size
        if length == -1:
            self._position = position
            return None
        end = position + length
        if length < 0 or end > len(self._raw):
            raise ValueError(f"no text has {length} bytes at {self._position} of {len(self._raw)}")
        self._position = end
        return self._raw[position:end].decode()

    def blob(self) -> bytes:
        length = max(self.number(), 0)
        end = self._position + length
        if end > len(self._raw):
            raise struct.error(f"no {length} bytes are left at {self._position}")
        start, self._position = self._position, end
        return self._raw[start:end]

    def topics(self) -> frozenset[str]:
        return frozenset([self.text() for _ in range(self.number())])

    def partitions(self) -> dict[str, list[int]]:
        topics: dict[str, list[int]] = {}
        for _ in range(self.number()):
            name = self.text()
            count = self.number()
            numbers = struct.unpack_from(f">{count}i", self._raw, self._position)
            self._position += _INT32.size * count
            topics[name] = sorted(numbers)
        return topics
