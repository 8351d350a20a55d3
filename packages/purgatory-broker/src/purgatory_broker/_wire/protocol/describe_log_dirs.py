"""The messages of DescribeLogDirs.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_IQQT = struct.Struct(">iqq?")
_QQ = struct.Struct(">qq")


class DescribableLogDirTopic(MessageStruct):
    """DescribableLogDirTopic of Kafka."""

    __slots__ = ("topic", "partitions")
    topic: str
    partitions: list[int]

    def __init__(self, topic: str = "", partitions: list[int] = NEW_LIST) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW_LIST else partitions


class DescribeLogDirsRequest(MessageStruct):
    """DescribeLogDirsRequest of Kafka."""

    __slots__ = ("topics",)
    topics: list[DescribableLogDirTopic] | None

    def __init__(self, topics: list[DescribableLogDirTopic] | None = NEW_LIST) -> None:
        self.topics = [] if topics is NEW_LIST else topics


class DescribeLogDirsPartition(MessageStruct):
    """DescribeLogDirsPartition of Kafka."""

    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool

    def __init__(
        self,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(MessageStruct):
    """DescribeLogDirsTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[DescribeLogDirsPartition]

    def __init__(
        self, name: str = "", partitions: list[DescribeLogDirsPartition] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class DescribeLogDirsResult(MessageStruct):
    """DescribeLogDirsResult of Kafka."""

    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes")
    error_code: int
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: int
    usable_bytes: int

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] = NEW_LIST,
        total_bytes: int = -1,
        usable_bytes: int = -1,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is NEW_LIST else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes


class DescribeLogDirsResponse(MessageStruct):
    """DescribeLogDirsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "results")
    throttle_time_ms: int
    error_code: int
    results: list[DescribeLogDirsResult]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is NEW_LIST else results


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
