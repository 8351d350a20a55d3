"""The messages of ElectLeaders.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class TopicPartitions(MessageStruct):
    """TopicPartitions of Kafka."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ElectLeadersRequest(MessageStruct):
    """ElectLeadersRequest of Kafka."""

    election_type: int = 0
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: int = 60000


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class PartitionResult(MessageStruct):
    """PartitionResult of Kafka."""

    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ReplicaElectionResult(MessageStruct):
    """ReplicaElectionResult of Kafka."""

    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ElectLeadersResponse(MessageStruct):
    """ElectLeadersResponse of Kafka."""

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)


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
