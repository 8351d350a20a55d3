"""The messages of CreateTopics.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_TBT = struct.Struct(">?b?")
_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IT = struct.Struct(">i?")
_IH = struct.Struct(">ih")


class CreatableReplicaAssignment(MessageStruct):
    """CreatableReplicaAssignment of Kafka."""

    __slots__ = ("partition_index", "broker_ids")
    partition_index: int
    broker_ids: list[int]

    def __init__(self, partition_index: int = 0, broker_ids: list[int] = NEW_LIST) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is NEW_LIST else broker_ids


class CreatableTopicConfig(MessageStruct):
    """CreatableTopicConfig of Kafka."""

    __slots__ = ("name", "value")
    name: str
    value: str | None

    def __init__(self, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class CreatableTopic(MessageStruct):
    """CreatableTopic of Kafka."""

    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    name: str
    num_partitions: int
    replication_factor: int
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = NEW_LIST,
        configs: list[CreatableTopicConfig] = NEW_LIST,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is NEW_LIST else assignments
        self.configs = [] if configs is NEW_LIST else configs


class CreateTopicsRequest(MessageStruct):
    """CreateTopicsRequest of Kafka."""

    __slots__ = ("topics", "timeout_ms", "validate_only")
    topics: list[CreatableTopic]
    timeout_ms: int
    validate_only: bool

    def __init__(
        self,
        topics: list[CreatableTopic] = NEW_LIST,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is NEW_LIST else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopicConfigs(MessageStruct):
    """CreatableTopicConfigs of Kafka."""

    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(MessageStruct):
    """CreatableTopicResult of Kafka."""

    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )
    name: str
    topic_id: UUID | None
    error_code: int
    error_message: str | None
    topic_config_error_code: int
    num_partitions: int
    replication_factor: int
    configs: list[CreatableTopicConfigs] | None

    def __init__(
        self,
        name: str = "",
        topic_id: UUID | None = None,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = NEW_LIST,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = [] if configs is NEW_LIST else configs


class CreateTopicsResponse(MessageStruct):
    """CreateTopicsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics")
    throttle_time_ms: int
    topics: list[CreatableTopicResult]

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[CreatableTopicResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics


def _read_creatable_replica_assignment(reader: Reader, version: int) -> CreatableReplicaAssignment:
    (partition_index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    broker_ids = reader.numbers("broker_ids", "i", 4)
    if version >= 5:
        reader.skip_tagged_fields()
    return CreatableReplicaAssignment(partition_index, broker_ids)


def _read_creatable_topic_config(reader: Reader, version: int) -> CreatableTopicConfig:
    name = reader.string("name")
    value_ = reader.nullable_string("value")
    if version >= 5:
        reader.skip_tagged_fields()
    return CreatableTopicConfig(name, value_)


def _read_creatable_topic(reader: Reader, version: int) -> CreatableTopic:
    name = reader.string("name")
    num_partitions, replication_factor = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    assignments: list[CreatableReplicaAssignment] = []
    for _ in range(reader.count("assignments", 6)):
        assignments.append(_read_creatable_replica_assignment(reader, version))
    configs: list[CreatableTopicConfig] = []
    for _ in range(reader.count("configs", 3)):
        configs.append(_read_creatable_topic_config(reader, version))
    if version >= 5:
        reader.skip_tagged_fields()
    return CreatableTopic(name, num_partitions, replication_factor, assignments, configs)


def _read_create_topics_request(reader: Reader, version: int) -> CreateTopicsRequest:
    topics: list[CreatableTopic] = []
    for _ in range(reader.count("topics", 10)):
        topics.append(_read_creatable_topic(reader, version))
    timeout_ms, validate_only = _IT.unpack_from(reader.frame, reader.position)
    reader.position += 5
    if version >= 5:
        reader.skip_tagged_fields()
    return CreateTopicsRequest(topics, timeout_ms, validate_only)


def _read_creatable_topic_configs(reader: Reader, version: int) -> CreatableTopicConfigs:
    name = reader.string("name")
    value_ = reader.nullable_string("value")
    read_only, config_source, is_sensitive = _TBT.unpack_from(reader.frame, reader.position)
    reader.position += 3
    reader.skip_tagged_fields()
    return CreatableTopicConfigs(name, value_, read_only, config_source, is_sensitive)


def _read_creatable_topic_result(reader: Reader, version: int) -> CreatableTopicResult:
    topic_id: UUID | None = None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreatableTopicConfigs] | None = []
    name = reader.string("name")
    if version >= 7:
        topic_id = reader.topic_id("topic_id")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    if version >= 5:
        num_partitions, replication_factor = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
        configs = (
            None
            if (count := reader.nullable_count("configs", 6)) < 0
            else [_read_creatable_topic_configs(reader, version) for _ in range(count)]
        )
        for _ in range(reader.tagged_fields()):
            tag = reader.tag()
            if tag == 0:
                topic_config_error_code = reader.unpack(_H)[0]
            else:
                reader.skip_value()
    return CreatableTopicResult(
        name,
        topic_id,
        error_code,
        error_message,
        topic_config_error_code,
        num_partitions,
        replication_factor,
        configs,
    )


def _read_create_topics_response(reader: Reader, version: int) -> CreateTopicsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    topics: list[CreatableTopicResult] = []
    for _ in range(reader.count("topics", 6)):
        topics.append(_read_creatable_topic_result(reader, version))
    if version >= 5:
        reader.skip_tagged_fields()
    return CreateTopicsResponse(throttle_time_ms, topics)


def _write_creatable_topic_configs(out: Writer, data: CreatableTopicConfigs, version: int) -> None:
    out.string(data.name)
    out.nullable_string(data.value)
    out += _TBT.pack(data.read_only, data.config_source, data.is_sensitive)
    out.append(0)


def _write_creatable_topic_result(out: Writer, data: CreatableTopicResult, version: int) -> None:
    out.string(data.name)
    if version >= 7:
        out.topic_id(data.topic_id)
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    if version >= 5:
        out += _IH.pack(data.num_partitions, data.replication_factor)
        if data.configs is None:
            out.length(-1)
        else:
            out.length(len(data.configs))
            for creatable_topic_configs in data.configs:
                _write_creatable_topic_configs(out, creatable_topic_configs, version)
        tagged: list[tuple[int, bytes | bytearray]] = []
        if data.topic_config_error_code != 0:
            value = out.value()
            value += _H.pack(data.topic_config_error_code)
            tagged.append((0, value))
        if tagged:
            out.tagged_fields(tagged)
        else:
            out.append(0)


def _write_create_topics_response(out: Writer, data: CreateTopicsResponse, version: int) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.topics))
    for creatable_topic_result in data.topics:
        _write_creatable_topic_result(out, creatable_topic_result, version)
    if version >= 5:
        out.append(0)


def _error_response(request: CreateTopicsRequest, code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=creatable_topic.name, error_code=code, error_message=None)
            for creatable_topic in request.topics
        ]
    )


def _topics(request: CreateTopicsRequest) -> Iterator[NamedTopic]:
    for creatable_topic in request.topics:
        yield NamedTopic(creatable_topic.name, None)


CREATE_TOPICS_MESSAGES = ApiMessages(
    key=19,
    name="CreateTopics",
    versions=(2, 7),
    flexible_since=5,
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    read_request=_read_create_topics_request,
    read_response=_read_create_topics_response,
    write_response=_write_create_topics_response,
    error_response=_error_response,
    fields={
        CreatableTopicResult: {
            "topic_id": (7, 7),
            "topic_config_error_code": (5, 7),
            "num_partitions": (5, 7),
            "replication_factor": (5, 7),
            "configs": (5, 7),
        }
    },
    topics=_topics,
)
