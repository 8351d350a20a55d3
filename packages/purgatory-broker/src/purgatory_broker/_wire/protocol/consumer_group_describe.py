"""The messages of ConsumerGroupDescribe.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_T = struct.Struct(">?")
_B = struct.Struct(">b")
_H = struct.Struct(">h")
_I = struct.Struct(">i")
_II = struct.Struct(">ii")


class ConsumerGroupDescribeRequest(MessageStruct):
    """ConsumerGroupDescribeRequest of Kafka."""

    __slots__ = ("group_ids", "include_authorized_operations")
    group_ids: list[str]
    include_authorized_operations: bool

    def __init__(
        self, group_ids: list[str] = NEW_LIST, include_authorized_operations: bool = False
    ) -> None:
        self.group_ids = [] if group_ids is NEW_LIST else group_ids
        self.include_authorized_operations = include_authorized_operations


class TopicPartitions(MessageStruct):
    """TopicPartitions of Kafka."""

    __slots__ = ("topic_id", "topic_name", "partitions")
    topic_id: UUID | None
    topic_name: str
    partitions: list[int]

    def __init__(
        self, topic_id: UUID | None = None, topic_name: str = "", partitions: list[int] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW_LIST else partitions


class Assignment(MessageStruct):
    """Assignment of Kafka."""

    __slots__ = ("topic_partitions",)
    topic_partitions: list[TopicPartitions]

    def __init__(self, topic_partitions: list[TopicPartitions] = NEW_LIST) -> None:
        self.topic_partitions = [] if topic_partitions is NEW_LIST else topic_partitions


class Member(MessageStruct):
    """Member of Kafka."""

    __slots__ = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    assignment: Assignment | None
    target_assignment: Assignment | None
    member_type: int

    def __init__(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NEW_LIST,
        subscribed_topic_regex: str | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = (
            [] if subscribed_topic_names is NEW_LIST else subscribed_topic_names
        )
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = assignment
        self.target_assignment = target_assignment
        self.member_type = member_type


class DescribedGroup(MessageStruct):
    """DescribedGroup of Kafka."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: list[Member]
    authorized_operations: int

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] = NEW_LIST,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is NEW_LIST else members
        self.authorized_operations = authorized_operations


class ConsumerGroupDescribeResponse(MessageStruct):
    """ConsumerGroupDescribeResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "groups")
    throttle_time_ms: int
    groups: list[DescribedGroup]

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribedGroup] = NEW_LIST) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW_LIST else groups


def _read_consumer_group_describe_request(
    reader: Reader, version: int
) -> ConsumerGroupDescribeRequest:
    group_ids = reader.strings("group_ids")
    (include_authorized_operations,) = _T.unpack_from(reader.frame, reader.position)
    reader.position += 1
    reader.skip_tagged_fields()
    return ConsumerGroupDescribeRequest(group_ids, include_authorized_operations)


def _read_topic_partitions(reader: Reader, version: int) -> TopicPartitions:
    topic_id = reader.topic_id("topic_id")
    topic_name = reader.string("topic_name")
    partitions = reader.numbers("partitions", "i", 4)
    reader.skip_tagged_fields()
    return TopicPartitions(topic_id, topic_name, partitions)


def _read_assignment(reader: Reader, version: int) -> Assignment:
    topic_partitions: list[TopicPartitions] = []
    for _ in range(reader.count("topic_partitions", 19)):
        topic_partitions.append(_read_topic_partitions(reader, version))
    reader.skip_tagged_fields()
    return Assignment(topic_partitions)


def _read_member(reader: Reader, version: int) -> Member:
    member_type: int = -1
    member_id = reader.string("member_id")
    instance_id = reader.nullable_string("instance_id")
    rack_id = reader.nullable_string("rack_id")
    (member_epoch,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    client_id = reader.string("client_id")
    client_host = reader.string("client_host")
    subscribed_topic_names = reader.strings("subscribed_topic_names")
    subscribed_topic_regex = reader.nullable_string("subscribed_topic_regex")
    assignment = _read_assignment(reader, version)
    target_assignment = _read_assignment(reader, version)
    if version >= 1:
        (member_type,) = _B.unpack_from(reader.frame, reader.position)
        reader.position += 1
    reader.skip_tagged_fields()
    return Member(
        member_id,
        instance_id,
        rack_id,
        member_epoch,
        client_id,
        client_host,
        subscribed_topic_names,
        subscribed_topic_regex,
        assignment,
        target_assignment,
        member_type,
    )


def _read_described_group(reader: Reader, version: int) -> DescribedGroup:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    group_id = reader.string("group_id")
    group_state = reader.string("group_state")
    group_epoch, assignment_epoch = _II.unpack_from(reader.frame, reader.position)
    reader.position += 8
    assignor_name = reader.string("assignor_name")
    members: list[Member] = []
    for _ in range(reader.count("members", 14)):
        members.append(_read_member(reader, version))
    (authorized_operations,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return DescribedGroup(
        error_code,
        error_message,
        group_id,
        group_state,
        group_epoch,
        assignment_epoch,
        assignor_name,
        members,
        authorized_operations,
    )


def _read_consumer_group_describe_response(
    reader: Reader, version: int
) -> ConsumerGroupDescribeResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    groups: list[DescribedGroup] = []
    for _ in range(reader.count("groups", 20)):
        groups.append(_read_described_group(reader, version))
    reader.skip_tagged_fields()
    return ConsumerGroupDescribeResponse(throttle_time_ms, groups)


def _write_topic_partitions(out: Writer, data: TopicPartitions, version: int) -> None:
    out.topic_id(data.topic_id)
    out.string(data.topic_name)
    out.numbers(data.partitions, "i")
    out.append(0)


def _write_assignment(out: Writer, data: Assignment, version: int) -> None:
    out.length(len(data.topic_partitions))
    for topic_partitions in data.topic_partitions:
        _write_topic_partitions(out, topic_partitions, version)
    out.append(0)


def _write_member(out: Writer, data: Member, version: int) -> None:
    out.string(data.member_id)
    out.nullable_string(data.instance_id)
    out.nullable_string(data.rack_id)
    out += _I.pack(data.member_epoch)
    out.string(data.client_id)
    out.string(data.client_host)
    out.strings(data.subscribed_topic_names)
    out.nullable_string(data.subscribed_topic_regex)
    _write_assignment(out, not_null(data.assignment, "assignment"), version)
    _write_assignment(out, not_null(data.target_assignment, "target_assignment"), version)
    if version >= 1:
        out += _B.pack(data.member_type)
    out.append(0)


def _write_described_group(out: Writer, data: DescribedGroup, version: int) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out.string(data.group_id)
    out.string(data.group_state)
    out += _II.pack(data.group_epoch, data.assignment_epoch)
    out.string(data.assignor_name)
    out.length(len(data.members))
    for member in data.members:
        _write_member(out, member, version)
    out += _I.pack(data.authorized_operations)
    out.append(0)


def _write_consumer_group_describe_response(
    out: Writer, data: ConsumerGroupDescribeResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.groups))
    for described_group in data.groups:
        _write_described_group(out, described_group, version)
    out.append(0)


def _error_response(
    request: ConsumerGroupDescribeRequest, code: int
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(error_code=code, group_id=value) for value in request.group_ids]
    )


def _groups(request: ConsumerGroupDescribeRequest) -> Iterable[str]:
    return request.group_ids


CONSUMER_GROUP_DESCRIBE_MESSAGES = ApiMessages(
    key=69,
    name="ConsumerGroupDescribe",
    versions=(0, 1),
    flexible_since=0,
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    read_request=_read_consumer_group_describe_request,
    read_response=_read_consumer_group_describe_response,
    write_response=_write_consumer_group_describe_response,
    error_response=_error_response,
    fields={Member: {"member_type": (1, 1)}},
    groups=_groups,
)
