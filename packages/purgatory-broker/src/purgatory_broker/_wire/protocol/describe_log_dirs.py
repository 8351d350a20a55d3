"""The messages of DescribeLogDirs.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_IQQT = struct.Struct(">iqq?")
_QQ = struct.Struct(">qq")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribableLogDirTopic(MessageStruct):
    """DescribableLogDirTopic of Kafka."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeLogDirsRequest(MessageStruct):
    """DescribeLogDirsRequest of Kafka."""

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeLogDirsPartition(MessageStruct):
    """DescribeLogDirsPartition of Kafka."""

    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeLogDirsTopic(MessageStruct):
    """DescribeLogDirsTopic of Kafka."""

    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeLogDirsResult(MessageStruct):
    """DescribeLogDirsResult of Kafka."""

    error_code: int = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeLogDirsResponse(MessageStruct):
    """DescribeLogDirsResponse of Kafka."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)


def _read_describable_log_dir_topic(reader: Reader, version: int) -> DescribableLogDirTopic:
    topic = reader.string("topic")
    partitions = reader.numbers("partitions", "i", 4)
    if version >= 2:
        reader.skip_tagged_fields()
    return DescribableLogDirTopic(topic, partitions)


def _read_describe_log_dirs_request(reader: Reader, version: int) -> DescribeLogDirsRequest:
    topics = (
        None
        if (count := reader.nullable_count("topics", 3)) < 0
        else [_read_describable_log_dir_topic(reader, version) for _ in range(count)]
    )
    if version >= 2:
        reader.skip_tagged_fields()
    return DescribeLogDirsRequest(topics)


def _read_describe_log_dirs_partition(reader: Reader, version: int) -> DescribeLogDirsPartition:
    partition_index, partition_size, offset_lag, is_future_key = _IQQT.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 21
    if version >= 2:
        reader.skip_tagged_fields()
    return DescribeLogDirsPartition(partition_index, partition_size, offset_lag, is_future_key)


def _read_describe_log_dirs_topic(reader: Reader, version: int) -> DescribeLogDirsTopic:
    name = reader.string("name")
    partitions: list[DescribeLogDirsPartition] = []
    for _ in range(reader.count("partitions", 21)):
        partitions.append(_read_describe_log_dirs_partition(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DescribeLogDirsTopic(name, partitions)


def _read_describe_log_dirs_result(reader: Reader, version: int) -> DescribeLogDirsResult:
    total_bytes: int = -1
    usable_bytes: int = -1
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    log_dir = reader.string("log_dir")
    topics: list[DescribeLogDirsTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_describe_log_dirs_topic(reader, version))
    if version >= 4:
        total_bytes, usable_bytes = _QQ.unpack_from(reader.frame, reader.position)
        reader.position += 16
    if version >= 2:
        reader.skip_tagged_fields()
    return DescribeLogDirsResult(error_code, log_dir, topics, total_bytes, usable_bytes)


def _read_describe_log_dirs_response(reader: Reader, version: int) -> DescribeLogDirsResponse:
    error_code: int = 0
    if version >= 3:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    else:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    results: list[DescribeLogDirsResult] = []
    for _ in range(reader.count("results", 5)):
        results.append(_read_describe_log_dirs_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DescribeLogDirsResponse(throttle_time_ms, error_code, results)


def _write_describe_log_dirs_partition(
    out: Writer, data: DescribeLogDirsPartition, version: int
) -> None:
    out += _IQQT.pack(
        data.partition_index, data.partition_size, data.offset_lag, data.is_future_key
    )
    if version >= 2:
        out.append(0)


def _write_describe_log_dirs_topic(out: Writer, data: DescribeLogDirsTopic, version: int) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for describe_log_dirs_partition in data.partitions:
        _write_describe_log_dirs_partition(out, describe_log_dirs_partition, version)
    if version >= 2:
        out.append(0)


def _write_describe_log_dirs_result(out: Writer, data: DescribeLogDirsResult, version: int) -> None:
    out += _H.pack(data.error_code)
    out.string(data.log_dir)
    out.length(len(data.topics))
    for describe_log_dirs_topic in data.topics:
        _write_describe_log_dirs_topic(out, describe_log_dirs_topic, version)
    if version >= 4:
        out += _QQ.pack(data.total_bytes, data.usable_bytes)
    if version >= 2:
        out.append(0)


def _write_describe_log_dirs_response(
    out: Writer, data: DescribeLogDirsResponse, version: int
) -> None:
    if version >= 3:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    else:
        out += _I.pack(data.throttle_time_ms)
    out.length(len(data.results))
    for describe_log_dirs_result in data.results:
        _write_describe_log_dirs_result(out, describe_log_dirs_result, version)
    if version >= 2:
        out.append(0)


def _error_response(request: DescribeLogDirsRequest, code: int) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        error_code=code, results=[DescribeLogDirsResult(error_code=code)]
    )


def _topics(request: DescribeLogDirsRequest) -> Iterator[NamedTopic]:
    for describable_log_dir_topic in request.topics or ():
        yield NamedTopic(
            describable_log_dir_topic.topic, None, describable_log_dir_topic.partitions
        )


DESCRIBE_LOG_DIRS_MESSAGES = ApiMessages(
    key=35,
    name="DescribeLogDirs",
    versions=(1, 4),
    flexible_since=2,
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    read_request=_read_describe_log_dirs_request,
    read_response=_read_describe_log_dirs_response,
    write_response=_write_describe_log_dirs_response,
    error_response=_error_response,
    fields={
        DescribeLogDirsResult: {"total_bytes": (4, 4), "usable_bytes": (4, 4)},
        DescribeLogDirsResponse: {"error_code": (3, 4)},
    },
    topics=_topics,
    names_partitions=True,
)
