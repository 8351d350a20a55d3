"""The messages of ShareGroupDescribe.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_T = struct.Struct(">?")
_H = struct.Struct(">h")
_I = struct.Struct(">i")
_II = struct.Struct(">ii")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ShareGroupDescribeRequest(MessageStruct):
    """ShareGroupDescribeRequest of Kafka."""

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class TopicPartitions(MessageStruct):
    """TopicPartitions of Kafka."""

    topic_id: UUID | None = None
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class Assignment(MessageStruct):
    """Assignment of Kafka."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class Member(MessageStruct):
    """Member of Kafka."""

    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    assignment: Assignment | None = None


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribedGroup(MessageStruct):
    """DescribedGroup of Kafka."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ShareGroupDescribeResponse(MessageStruct):
    """ShareGroupDescribeResponse of Kafka."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)


def _read_share_group_describe_request(reader: Reader, version: int) -> ShareGroupDescribeRequest:
    group_ids = reader.strings("group_ids")
    (include_authorized_operations,) = _T.unpack_from(reader.frame, reader.position)
    reader.position += 1
    reader.skip_tagged_fields()
    return ShareGroupDescribeRequest(group_ids, include_authorized_operations)


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
    member_id = reader.string("member_id")
    rack_id = reader.nullable_string("rack_id")
    (member_epoch,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    client_id = reader.string("client_id")
    client_host = reader.string("client_host")
    subscribed_topic_names = reader.strings("subscribed_topic_names")
    assignment = _read_assignment(reader, version)
    reader.skip_tagged_fields()
    return Member(
        member_id, rack_id, member_epoch, client_id, client_host, subscribed_topic_names, assignment
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
    for _ in range(reader.count("members", 11)):
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


def _read_share_group_describe_response(reader: Reader, version: int) -> ShareGroupDescribeResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    groups: list[DescribedGroup] = []
    for _ in range(reader.count("groups", 20)):
        groups.append(_read_described_group(reader, version))
    reader.skip_tagged_fields()
    return ShareGroupDescribeResponse(throttle_time_ms, groups)


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
    out.nullable_string(data.rack_id)
    out += _I.pack(data.member_epoch)
    out.string(data.client_id)
    out.string(data.client_host)
    out.strings(data.subscribed_topic_names)
    _write_assignment(out, not_null(data.assignment, "assignment"), version)
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


def _write_share_group_describe_response(
    out: Writer, data: ShareGroupDescribeResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.groups))
    for described_group in data.groups:
        _write_described_group(out, described_group, version)
    out.append(0)


def _error_response(request: ShareGroupDescribeRequest, code: int) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[DescribedGroup(error_code=code, group_id=value) for value in request.group_ids]
    )


def _groups(request: ShareGroupDescribeRequest) -> Iterable[str]:
    return request.group_ids


SHARE_GROUP_DESCRIBE_MESSAGES = ApiMessages(
    key=77,
    name="ShareGroupDescribe",
    versions=(1, 1),
    flexible_since=0,
    request=ShareGroupDescribeRequest,
    response=ShareGroupDescribeResponse,
    read_request=_read_share_group_describe_request,
    read_response=_read_share_group_describe_response,
    write_response=_write_share_group_describe_response,
    error_response=_error_response,
    fields={},
    groups=_groups,
)
