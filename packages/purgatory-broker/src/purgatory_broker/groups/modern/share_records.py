"""The encoding of share groups, of their members and of the partitions that have a state."""

from __future__ import annotations

import struct
from uuid import UUID

from purgatory_broker._wire.reader import FlexibleReader
from purgatory_broker._wire.writer import FlexibleWriter
from purgatory_broker.groups.modern.partitions import Assignment, by_topic, of_topics
from purgatory_broker.groups.modern.record_values import GroupEpoch, ShareMemberValue, ShareStates

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def write_share_group(out: FlexibleWriter, value: GroupEpoch) -> None:
    out += _INT32.pack(value.epoch) + _INT64.pack(value.metadata_hash)
    out.append(0)


def read_share_group(reader: FlexibleReader) -> GroupEpoch:
    (epoch,), (metadata_hash,) = reader.unpack(_INT32), reader.unpack(_INT64)
    reader.skip_tagged_fields()
    return GroupEpoch(epoch, metadata_hash)


def write_share_member(out: FlexibleWriter, value: ShareMemberValue) -> None:
    out.nullable_string(value.rack_id)
    out.string(value.client_id)
    out.string(value.client_host)
    out.strings(sorted(value.topics))
    out.append(0)


def read_share_member(reader: FlexibleReader) -> ShareMemberValue:
    rack_id = reader.nullable_string("rack_id")
    client_id, client_host = reader.string("client_id"), reader.string("client_host")
    topics = frozenset(reader.strings("subscribed_topic_names"))
    reader.skip_tagged_fields()
    return ShareMemberValue(client_id, client_host, rack_id, topics)


def write_share_states(out: FlexibleWriter, value: ShareStates) -> None:
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


def read_share_states(reader: FlexibleReader) -> ShareStates:
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
