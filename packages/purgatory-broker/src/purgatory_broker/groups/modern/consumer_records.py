"""The encoding of consumer groups, of their members and of the regular expressions of these."""

from __future__ import annotations

import struct

from purgatory_broker._wire.reader import FlexibleReader
from purgatory_broker._wire.writer import FlexibleWriter
from purgatory_broker.groups.modern.record_values import (
    ClassicMember,
    ConsumerMemberValue,
    GroupEpoch,
    ResolvedRegex,
)

_INT8 = struct.Struct(">b")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def write_epoch(out: FlexibleWriter, value: GroupEpoch) -> None:
    out += _INT32.pack(value.epoch)
    # A tagged field with its default is left out.
    out.tagged_fields([(0, _INT64.pack(value.metadata_hash))] if value.metadata_hash else [])


def read_epoch(reader: FlexibleReader) -> GroupEpoch:
    (epoch,) = reader.unpack(_INT32)
    metadata_hash = 0
    for _ in range(reader.tagged_fields()):
        if reader.tag() == 0:
            (metadata_hash,) = reader.unpack(_INT64)
        else:
            reader.skip_value()
    return GroupEpoch(epoch, metadata_hash)


def write_member(out: FlexibleWriter, value: ConsumerMemberValue) -> None:
    out.nullable_string(value.instance_id)
    out.nullable_string(value.rack_id)
    out.string(value.client_id)
    out.string(value.client_host)
    out.strings(sorted(value.topics))
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


def read_member(reader: FlexibleReader) -> ConsumerMemberValue:
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


def write_regex(out: FlexibleWriter, value: ResolvedRegex) -> None:
    out.strings(sorted(value.topics))
    out += _INT64.pack(value.version) + _INT64.pack(value.timestamp_ms)
    out.append(0)


def read_regex(reader: FlexibleReader) -> ResolvedRegex:
    topics = frozenset(reader.strings("topics"))
    (version,), (timestamp_ms,) = reader.unpack(_INT64), reader.unpack(_INT64)
    reader.skip_tagged_fields()
    return ResolvedRegex(topics, version, timestamp_ms)
