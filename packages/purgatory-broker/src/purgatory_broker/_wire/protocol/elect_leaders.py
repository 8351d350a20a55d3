"""The messages of ElectLeaders.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


class TopicPartitions(MessageStruct):
    """TopicPartitions of Kafka."""

    __slots__ = ("topic", "partitions")
    topic: str
    partitions: list[int]

    def __init__(self, topic: str = "", partitions: list[int] = NEW_LIST) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW_LIST else partitions


class ElectLeadersRequest(MessageStruct):
    """ElectLeadersRequest of Kafka."""

    __slots__ = ("election_type", "topic_partitions", "timeout_ms")
    election_type: int
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: int

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = NEW_LIST,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = [] if topic_partitions is NEW_LIST else topic_partitions
        self.timeout_ms = timeout_ms


class PartitionResult(MessageStruct):
    """PartitionResult of Kafka."""

    __slots__ = ("partition_id", "error_code", "error_message")
    partition_id: int
    error_code: int
    error_message: str | None

    def __init__(
        self, partition_id: int = 0, error_code: int = 0, error_message: str | None = ""
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(MessageStruct):
    """ReplicaElectionResult of Kafka."""

    __slots__ = ("topic", "partition_result")
    topic: str
    partition_result: list[PartitionResult]

    def __init__(self, topic: str = "", partition_result: list[PartitionResult] = NEW_LIST) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is NEW_LIST else partition_result


class ElectLeadersResponse(MessageStruct):
    """ElectLeadersResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")
    throttle_time_ms: int
    error_code: int
    replica_election_results: list[ReplicaElectionResult]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = (
            [] if replica_election_results is NEW_LIST else replica_election_results
        )


def _read_topic_partitions(reader: Reader, version: int) -> TopicPartitions:
    topic = reader.string("topic")
    partitions = reader.numbers("partitions", "i", 4)
    if version >= 2:
        reader.skip_tagged_fields()
    return TopicPartitions(topic, partitions)


def _read_elect_leaders_request(reader: Reader, version: int) -> ElectLeadersRequest:
    election_type: int = 0
    if version >= 1:
        (election_type,) = _B.unpack_from(reader.frame, reader.position)
        reader.position += 1
    topic_partitions = (
        None
        if (count := reader.nullable_count("topic_partitions", 3)) < 0
        else [_read_topic_partitions(reader, version) for _ in range(count)]
    )
    (timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    if version >= 2:
        reader.skip_tagged_fields()
    return ElectLeadersRequest(election_type, topic_partitions, timeout_ms)


def _read_partition_result(reader: Reader, version: int) -> PartitionResult:
    partition_id, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    if version >= 2:
        reader.skip_tagged_fields()
    return PartitionResult(partition_id, error_code, error_message)


def _read_replica_election_result(reader: Reader, version: int) -> ReplicaElectionResult:
    topic = reader.string("topic")
    partition_result: list[PartitionResult] = []
    for _ in range(reader.count("partition_result", 8)):
        partition_result.append(_read_partition_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return ReplicaElectionResult(topic, partition_result)


def _read_elect_leaders_response(reader: Reader, version: int) -> ElectLeadersResponse:
    error_code: int = 0
    if version >= 1:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    else:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    replica_election_results: list[ReplicaElectionResult] = []
    for _ in range(reader.count("replica_election_results", 3)):
        replica_election_results.append(_read_replica_election_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return ElectLeadersResponse(throttle_time_ms, error_code, replica_election_results)


def _write_partition_result(out: Writer, data: PartitionResult, version: int) -> None:
    out += _IH.pack(data.partition_id, data.error_code)
    out.nullable_string(data.error_message)
    if version >= 2:
        out.append(0)


def _write_replica_election_result(out: Writer, data: ReplicaElectionResult, version: int) -> None:
    out.string(data.topic)
    out.length(len(data.partition_result))
    for partition_result in data.partition_result:
        _write_partition_result(out, partition_result, version)
    if version >= 2:
        out.append(0)


def _write_elect_leaders_response(out: Writer, data: ElectLeadersResponse, version: int) -> None:
    if version >= 1:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    else:
        out += _I.pack(data.throttle_time_ms)
    out.length(len(data.replica_election_results))
    for replica_election_result in data.replica_election_results:
        _write_replica_election_result(out, replica_election_result, version)
    if version >= 2:
        out.append(0)


def _error_response(request: ElectLeadersRequest, code: int) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic_partitions.topic,
                partition_result=[
                    PartitionResult(partition_id=value, error_code=code, error_message=None)
                    for value in topic_partitions.partitions
                ],
            )
            for topic_partitions in (request.topic_partitions or ())
        ],
    )


def _topics(request: ElectLeadersRequest) -> Iterator[NamedTopic]:
    for topic_partitions in request.topic_partitions or ():
        yield NamedTopic(topic_partitions.topic, None, topic_partitions.partitions)


ELECT_LEADERS_MESSAGES = ApiMessages(
    key=43,
    name="ElectLeaders",
    versions=(0, 2),
    flexible_since=2,
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    read_request=_read_elect_leaders_request,
    read_response=_read_elect_leaders_response,
    write_response=_write_elect_leaders_response,
    error_response=_error_response,
    fields={
        ElectLeadersRequest: {"election_type": (1, 2)},
        ElectLeadersResponse: {"error_code": (1, 2)},
    },
    topics=_topics,
    names_partitions=True,
)
