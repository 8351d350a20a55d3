"""The messages of WriteTxnMarkers.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_Q = struct.Struct(">q")
_QHT = struct.Struct(">qh?")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class WritableTxnMarkerTopic(MessageStruct):
    """WritableTxnMarkerTopic of Kafka."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class WritableTxnMarker(MessageStruct):
    """WritableTxnMarker of Kafka."""

    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class WriteTxnMarkersRequest(MessageStruct):
    """WriteTxnMarkersRequest of Kafka."""

    markers: list[WritableTxnMarker] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class WritableTxnMarkerPartitionResult(MessageStruct):
    """WritableTxnMarkerPartitionResult of Kafka."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class WritableTxnMarkerTopicResult(MessageStruct):
    """WritableTxnMarkerTopicResult of Kafka."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class WritableTxnMarkerResult(MessageStruct):
    """WritableTxnMarkerResult of Kafka."""

    producer_id: int = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class WriteTxnMarkersResponse(MessageStruct):
    """WriteTxnMarkersResponse of Kafka."""

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)


def _read_writable_txn_marker_topic(reader: Reader, version: int) -> WritableTxnMarkerTopic:
    name = reader.string("name")
    partition_indexes = reader.numbers("partition_indexes", "i", 4)
    reader.skip_tagged_fields()
    return WritableTxnMarkerTopic(name, partition_indexes)


def _read_writable_txn_marker(reader: Reader, version: int) -> WritableTxnMarker:
    producer_id, producer_epoch, transaction_result = _QHT.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 11
    topics: list[WritableTxnMarkerTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_writable_txn_marker_topic(reader, version))
    (coordinator_epoch,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return WritableTxnMarker(
        producer_id, producer_epoch, transaction_result, topics, coordinator_epoch
    )


def _read_write_txn_markers_request(reader: Reader, version: int) -> WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = []
    for _ in range(reader.count("markers", 17)):
        markers.append(_read_writable_txn_marker(reader, version))
    reader.skip_tagged_fields()
    return WriteTxnMarkersRequest(markers)


def _read_writable_txn_marker_partition_result(
    reader: Reader, version: int
) -> WritableTxnMarkerPartitionResult:
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    reader.skip_tagged_fields()
    return WritableTxnMarkerPartitionResult(partition_index, error_code)


def _read_writable_txn_marker_topic_result(
    reader: Reader, version: int
) -> WritableTxnMarkerTopicResult:
    name = reader.string("name")
    partitions: list[WritableTxnMarkerPartitionResult] = []
    for _ in range(reader.count("partitions", 7)):
        partitions.append(_read_writable_txn_marker_partition_result(reader, version))
    reader.skip_tagged_fields()
    return WritableTxnMarkerTopicResult(name, partitions)


def _read_writable_txn_marker_result(reader: Reader, version: int) -> WritableTxnMarkerResult:
    (producer_id,) = _Q.unpack_from(reader.frame, reader.position)
    reader.position += 8
    topics: list[WritableTxnMarkerTopicResult] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_writable_txn_marker_topic_result(reader, version))
    reader.skip_tagged_fields()
    return WritableTxnMarkerResult(producer_id, topics)


def _read_write_txn_markers_response(reader: Reader, version: int) -> WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = []
    for _ in range(reader.count("markers", 10)):
        markers.append(_read_writable_txn_marker_result(reader, version))
    reader.skip_tagged_fields()
    return WriteTxnMarkersResponse(markers)


def _write_writable_txn_marker_partition_result(
    out: Writer, data: WritableTxnMarkerPartitionResult, version: int
) -> None:
    out += _IH.pack(data.partition_index, data.error_code)
    out.append(0)


def _write_writable_txn_marker_topic_result(
    out: Writer, data: WritableTxnMarkerTopicResult, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for writable_txn_marker_partition_result in data.partitions:
        _write_writable_txn_marker_partition_result(
            out, writable_txn_marker_partition_result, version
        )
    out.append(0)


def _write_writable_txn_marker_result(
    out: Writer, data: WritableTxnMarkerResult, version: int
) -> None:
    out += _Q.pack(data.producer_id)
    out.length(len(data.topics))
    for writable_txn_marker_topic_result in data.topics:
        _write_writable_txn_marker_topic_result(out, writable_txn_marker_topic_result, version)
    out.append(0)


def _write_write_txn_markers_response(
    out: Writer, data: WriteTxnMarkersResponse, version: int
) -> None:
    out.length(len(data.markers))
    for writable_txn_marker_result in data.markers:
        _write_writable_txn_marker_result(out, writable_txn_marker_result, version)
    out.append(0)


def _error_response(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=writable_txn_marker_topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=value, error_code=code)
                            for value in writable_txn_marker_topic.partition_indexes
                        ],
                    )
                    for writable_txn_marker_topic in writable_txn_marker.topics
                ]
            )
            for writable_txn_marker in request.markers
        ]
    )


def _topics(request: WriteTxnMarkersRequest) -> Iterator[NamedTopic]:
    for writable_txn_marker in request.markers:
        for writable_txn_marker_topic in writable_txn_marker.topics:
            yield NamedTopic(
                writable_txn_marker_topic.name, None, writable_txn_marker_topic.partition_indexes
            )


WRITE_TXN_MARKERS_MESSAGES = ApiMessages(
    key=27,
    name="WriteTxnMarkers",
    versions=(1, 1),
    flexible_since=1,
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
    read_request=_read_write_txn_markers_request,
    read_response=_read_write_txn_markers_response,
    write_response=_write_write_txn_markers_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
)
