"""The records of the topic `__share_group_state`, in Kafka's binary format.

A snapshot has the whole state of a share partition, an update what has changed since. Their keys
have versions 0 and 1. Kafka's tools can read them.

Source: Kafka's schemas ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey and ShareUpdateValue.
"""

from __future__ import annotations

import struct
import uuid

from purgatory_broker._wire.reader import FlexibleReader, Reader
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker._wire.writer import FlexibleWriter, Writer
from purgatory_broker.sharing.records import RecordState, StateBatch
from purgatory_broker.sharing.state import ShareKey, ShareState
from request_purgatory.errors import PurgatoryError

SNAPSHOT, UPDATE = 0, 1
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
#: Of a snapshot: the epochs of the snapshot, the state and the leader, the start offset, two times.
_SNAPSHOT = struct.Struct(">iiiqqq")
#: Of an update: the epochs of the snapshot and the leader, and the start offset.
_UPDATE = struct.Struct(">iiq")
_BATCH = struct.Struct(">qqbh")


class ShareRecordError(PurgatoryError, ValueError):
    """Bytes that are no record of this format."""


def encode_key(key: ShareKey, kind: int) -> bytes:
    out = Writer()
    out += _INT16.pack(kind)
    out.string(key.group_id)
    out.topic_id(key.topic_id)
    out += _INT32.pack(key.partition)
    return bytes(out)


def decode_key(raw: bytes) -> tuple[int, ShareKey] | None:
    """Return the kind and the share partition; None for a kind of a later version."""
    try:
        reader = Reader(raw, 0)
        (kind,) = reader.unpack(_INT16)
        if kind not in (SNAPSHOT, UPDATE):
            return None
        group_id = reader.string("group id")
        topic_id = reader.topic_id("topic id") or uuid.UUID(int=0)
        (partition,) = reader.unpack(_INT32)
    except (WireError, struct.error, ValueError) as error:
        raise ShareRecordError(f"the key is invalid: {error}") from error
    return kind, ShareKey(group_id, topic_id, partition)


def encode_snapshot(state: ShareState) -> bytes:
    return _encode(
        _SNAPSHOT.pack(
            state.snapshot_epoch,
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.create_ms,
            state.write_ms,
        ),
        state,
    )


def encode_update(state: ShareState) -> bytes:
    return _encode(
        _UPDATE.pack(state.snapshot_epoch, state.leader_epoch, state.start_offset), state
    )


def _encode(head: bytes, state: ShareState) -> bytes:
    out = FlexibleWriter()
    out += _INT16.pack(0)
    out += head
    out.length(len(state.batches))
    for batch in state.batches:
        out += _BATCH.pack(*batch)
        out.tagged_fields([])
    out.tagged_fields([])
    return bytes(out)


def decode_value(raw: bytes, kind: int) -> ShareState:
    """Return a snapshot's state, or an update's with what it does not change."""
    try:
        return _decode(raw, kind)
    except (WireError, struct.error, IndexError, ValueError) as error:
        raise ShareRecordError(f"the value is invalid: {error}") from error


def _decode(raw: bytes, kind: int) -> ShareState:
    (version,) = _INT16.unpack_from(raw)
    if version != 0:
        raise WireError(f"its version must be 0, got {version}")
    reader = FlexibleReader(raw, 2)
    if kind == SNAPSHOT:
        snapshot, epoch, leader_epoch, start, create_ms, write_ms = reader.unpack(_SNAPSHOT)
    else:
        snapshot, leader_epoch, start = reader.unpack(_UPDATE)
        epoch = create_ms = write_ms = -1
    batches = []
    for _ in range(reader.count("state batches", _BATCH.size)):
        batch = StateBatch(*reader.unpack(_BATCH))
        RecordState(batch.state)
        reader.skip_tagged_fields()
        batches.append(batch)
    return ShareState(
        snapshot_epoch=snapshot,
        state_epoch=epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        batches=tuple(batches),
        create_ms=create_ms,
        write_ms=write_ms,
    )
