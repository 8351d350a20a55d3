"""The encoding of target and current assignments, of consumer groups and of share groups."""

from __future__ import annotations

import struct
from typing import Final

from purgatory_broker._wire.reader import FlexibleReader
from purgatory_broker._wire.writer import FlexibleWriter
from purgatory_broker.groups.modern.partitions import Assignment, by_topic, of_topics
from purgatory_broker.groups.modern.record_values import CurrentAssignment, MemberState

_INT8 = struct.Struct(">b")
_INT32 = struct.Struct(">i")
#: A state of a later version is unknown.
_STATES: Final = {state.value: state for state in MemberState}


def _write_partitions(out: FlexibleWriter, partitions: Assignment) -> None:
    topics = by_topic(partitions)
    out.length(len(topics))
    for topic_id, numbers in topics.items():
        out.topic_id(topic_id)
        out.numbers(numbers, "i")
        out.append(0)


def _read_partitions(reader: FlexibleReader) -> Assignment:
    topics = []
    for _ in range(reader.count("topics", 18)):
        topic_id = reader.topic_id("topic_id")
        topics.append((topic_id, reader.numbers("partitions", "i", 4)))
        reader.skip_tagged_fields()
    return of_topics(topics)


def write_target_epoch(out: FlexibleWriter, epoch: int) -> None:
    out += _INT32.pack(epoch)
    out.append(0)


def read_target_epoch(reader: FlexibleReader) -> int:
    (epoch,) = reader.unpack(_INT32)
    reader.skip_tagged_fields()
    return int(epoch)


def write_target(out: FlexibleWriter, partitions: Assignment) -> None:
    _write_partitions(out, partitions)
    out.append(0)


def read_target(reader: FlexibleReader) -> Assignment:
    partitions = _read_partitions(reader)
    reader.skip_tagged_fields()
    return partitions


def write_current(out: FlexibleWriter, value: CurrentAssignment) -> None:
    out += _INT32.pack(value.epoch) + _INT32.pack(value.previous_epoch) + _INT8.pack(value.state)
    _write_partitions(out, value.assigned)
    _write_partitions(out, value.pending_revocation)
    out.append(0)


def read_current(reader: FlexibleReader) -> CurrentAssignment:
    (epoch,), (previous,) = reader.unpack(_INT32), reader.unpack(_INT32)
    (state,) = reader.unpack(_INT8)
    assigned, pending = _read_partitions(reader), _read_partitions(reader)
    reader.skip_tagged_fields()
    return CurrentAssignment(
        epoch, previous, _STATES.get(state, MemberState.UNKNOWN), assigned, pending
    )


def write_share_current(out: FlexibleWriter, value: CurrentAssignment) -> None:
    out += _INT32.pack(value.epoch) + _INT32.pack(value.previous_epoch) + _INT8.pack(value.state)
    _write_partitions(out, value.assigned)
    out.append(0)


def read_share_current(reader: FlexibleReader) -> CurrentAssignment:
    (epoch,), (previous,) = reader.unpack(_INT32), reader.unpack(_INT32)
    (state,) = reader.unpack(_INT8)
    assigned = _read_partitions(reader)
    reader.skip_tagged_fields()
    return CurrentAssignment(epoch, previous, _STATES.get(state, MemberState.UNKNOWN), assigned)
