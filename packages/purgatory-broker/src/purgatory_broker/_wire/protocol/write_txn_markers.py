"""The messages of WriteTxnMarkers.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_Q = struct.Struct(">q")
_QHT = struct.Struct(">qh?")


class WritableTxnMarkerTopic(MessageStruct):
    """WritableTxnMarkerTopic of Kafka."""

    __slots__ = ("name", "partition_indexes")
    name: str
    partition_indexes: list[int]

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW_LIST) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW_LIST else partition_indexes


class WritableTxnMarker(MessageStruct):
    """WritableTxnMarker of Kafka."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
    )
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: int

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = NEW_LIST,
        coordinator_epoch: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is NEW_LIST else topics
        self.coordinator_epoch = coordinator_epoch


class WriteTxnMarkersRequest(MessageStruct):
    """WriteTxnMarkersRequest of Kafka."""

    __slots__ = ("markers",)
    markers: list[WritableTxnMarker]

    def __init__(self, markers: list[WritableTxnMarker] = NEW_LIST) -> None:
        self.markers = [] if markers is NEW_LIST else markers


class WritableTxnMarkerPartitionResult(MessageStruct):
    """WritableTxnMarkerPartitionResult of Kafka."""

    __slots__ = ("partition_index", "error_code")
    partition_index: int
    error_code: int

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(MessageStruct):
    """WritableTxnMarkerTopicResult of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[WritableTxnMarkerPartitionResult]

    def __init__(
        self, name: str = "", partitions: list[WritableTxnMarkerPartitionResult] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class WritableTxnMarkerResult(MessageStruct):
    """WritableTxnMarkerResult of Kafka."""

    __slots__ = ("producer_id", "topics")
    producer_id: int
    topics: list[WritableTxnMarkerTopicResult]

    def __init__(
        self, producer_id: int = 0, topics: list[WritableTxnMarkerTopicResult] = NEW_LIST
    ) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is NEW_LIST else topics


class WriteTxnMarkersResponse(MessageStruct):
    """WriteTxnMarkersResponse of Kafka."""

    __slots__ = ("markers",)
    markers: list[WritableTxnMarkerResult]

    def __init__(self, markers: list[WritableTxnMarkerResult] = NEW_LIST) -> None:
        self.markers = [] if markers is NEW_LIST else markers


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
