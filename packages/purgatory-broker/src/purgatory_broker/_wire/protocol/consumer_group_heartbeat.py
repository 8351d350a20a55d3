"""The messages of ConsumerGroupHeartbeat.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_II = struct.Struct(">ii")


class TopicPartitions(MessageStruct):
    """TopicPartitions of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[int]

    def __init__(self, topic_id: UUID | None = None, partitions: list[int] = NEW_LIST) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class ConsumerGroupHeartbeatRequest(MessageStruct):
    """ConsumerGroupHeartbeatRequest of Kafka."""

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "server_assignor",
        "topic_partitions",
    )
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: list[TopicPartitions] | None

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


class Assignment(MessageStruct):
    """Assignment of Kafka."""

    __slots__ = ("topic_partitions",)
    topic_partitions: list[TopicPartitions]

    def __init__(self, topic_partitions: list[TopicPartitions] = NEW_LIST) -> None:
        self.topic_partitions = [] if topic_partitions is NEW_LIST else topic_partitions


class ConsumerGroupHeartbeatResponse(MessageStruct):
    """ConsumerGroupHeartbeatResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


def _read_topic_partitions(reader: Reader, version: int) -> TopicPartitions:
    topic_id = reader.topic_id("topic_id")
    partitions = reader.numbers("partitions", "i", 4)
    reader.skip_tagged_fields()
    return TopicPartitions(topic_id, partitions)


def _read_consumer_group_heartbeat_request(
    reader: Reader, version: int
) -> ConsumerGroupHeartbeatRequest:
    subscribed_topic_regex: str | None = None
    group_id = reader.string("group_id")
    member_id = reader.string("member_id")
    (member_epoch,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    instance_id = reader.nullable_string("instance_id")
    rack_id = reader.nullable_string("rack_id")
    (rebalance_timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    subscribed_topic_names = reader.nullable_strings("subscribed_topic_names")
    if version >= 1:
        subscribed_topic_regex = reader.nullable_string("subscribed_topic_regex")
    server_assignor = reader.nullable_string("server_assignor")
    topic_partitions = (
        None
        if (count := reader.nullable_count("topic_partitions", 18)) < 0
        else [_read_topic_partitions(reader, version) for _ in range(count)]
    )
    reader.skip_tagged_fields()
    return ConsumerGroupHeartbeatRequest(
        group_id,
        member_id,
        member_epoch,
        instance_id,
        rack_id,
        rebalance_timeout_ms,
        subscribed_topic_names,
        subscribed_topic_regex,
        server_assignor,
        topic_partitions,
    )


def _read_assignment(reader: Reader, version: int) -> Assignment:
    topic_partitions: list[TopicPartitions] = []
    for _ in range(reader.count("topic_partitions", 18)):
        topic_partitions.append(_read_topic_partitions(reader, version))
    reader.skip_tagged_fields()
    return Assignment(topic_partitions)


def _read_consumer_group_heartbeat_response(
    reader: Reader, version: int
) -> ConsumerGroupHeartbeatResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    member_id = reader.nullable_string("member_id")
    member_epoch, heartbeat_interval_ms = _II.unpack_from(reader.frame, reader.position)
    reader.position += 8
    assignment = _read_assignment(reader, version) if reader.is_present() else None
    reader.skip_tagged_fields()
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms,
        error_code,
        error_message,
        member_id,
        member_epoch,
        heartbeat_interval_ms,
        assignment,
    )


def _write_topic_partitions(out: Writer, data: TopicPartitions, version: int) -> None:
    out.topic_id(data.topic_id)
    out.numbers(data.partitions, "i")
    out.append(0)


def _write_assignment(out: Writer, data: Assignment, version: int) -> None:
    out.length(len(data.topic_partitions))
    for topic_partitions in data.topic_partitions:
        _write_topic_partitions(out, topic_partitions, version)
    out.append(0)


def _write_consumer_group_heartbeat_response(
    out: Writer, data: ConsumerGroupHeartbeatResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    out.nullable_string(data.member_id)
    out += _II.pack(data.member_epoch, data.heartbeat_interval_ms)
    if data.assignment is None:
        out += b"\xff"
    else:
        out += b"\x01"
        _write_assignment(out, not_null(data.assignment, "assignment"), version)
    out.append(0)


def _error_response(
    request: ConsumerGroupHeartbeatRequest, code: int
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


def _topics(request: ConsumerGroupHeartbeatRequest) -> Iterator[NamedTopic]:
    for topic_partitions in request.topic_partitions or ():
        yield NamedTopic(None, topic_partitions.topic_id, topic_partitions.partitions)


def _groups(request: ConsumerGroupHeartbeatRequest) -> Iterable[str]:
    return [request.group_id]


CONSUMER_GROUP_HEARTBEAT_MESSAGES = ApiMessages(
    key=68,
    name="ConsumerGroupHeartbeat",
    versions=(0, 1),
    flexible_since=0,
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    read_request=_read_consumer_group_heartbeat_request,
    read_response=_read_consumer_group_heartbeat_response,
    write_response=_write_consumer_group_heartbeat_response,
    error_response=_error_response,
    fields={ConsumerGroupHeartbeatRequest: {"subscribed_topic_regex": (1, 1)}},
    topics=_topics,
    names_partitions=True,
    groups=_groups,
)
