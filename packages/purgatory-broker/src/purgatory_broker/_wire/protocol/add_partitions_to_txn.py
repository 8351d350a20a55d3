"""The messages of AddPartitionsToTxn.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_QH = struct.Struct(">qh")
_QHT = struct.Struct(">qh?")


class AddPartitionsToTxnTopic(MessageStruct):
    """AddPartitionsToTxnTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[int]

    def __init__(self, name: str = "", partitions: list[int] = NEW_LIST) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class AddPartitionsToTxnTransaction(MessageStruct):
    """AddPartitionsToTxnTransaction of Kafka."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: list[AddPartitionsToTxnTopic]

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = NEW_LIST,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is NEW_LIST else topics


class AddPartitionsToTxnRequest(MessageStruct):
    """AddPartitionsToTxnRequest of Kafka."""

    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
    )
    transactions: list[AddPartitionsToTxnTransaction]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: list[AddPartitionsToTxnTopic]

    def __init__(
        self,
        transactions: list[AddPartitionsToTxnTransaction] = NEW_LIST,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = NEW_LIST,
    ) -> None:
        self.transactions = [] if transactions is NEW_LIST else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is NEW_LIST else v3_and_below_topics


class AddPartitionsToTxnPartitionResult(MessageStruct):
    """AddPartitionsToTxnPartitionResult of Kafka."""

    __slots__ = ("partition_index", "partition_error_code")
    partition_index: int
    partition_error_code: int

    def __init__(self, partition_index: int = 0, partition_error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(MessageStruct):
    """AddPartitionsToTxnTopicResult of Kafka."""

    __slots__ = ("name", "results_by_partition")
    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]

    def __init__(
        self,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] = NEW_LIST,
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is NEW_LIST else results_by_partition


class AddPartitionsToTxnResult(MessageStruct):
    """AddPartitionsToTxnResult of Kafka."""

    __slots__ = ("transactional_id", "topic_results")
    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]

    def __init__(
        self,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] = NEW_LIST,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is NEW_LIST else topic_results


class AddPartitionsToTxnResponse(MessageStruct):
    """AddPartitionsToTxnResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "results_by_transaction",
        "results_by_topic_v3_and_below",
    )
    throttle_time_ms: int
    error_code: int
    results_by_transaction: list[AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = NEW_LIST,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = (
            [] if results_by_transaction is NEW_LIST else results_by_transaction
        )
        self.results_by_topic_v3_and_below = (
            [] if results_by_topic_v3_and_below is NEW_LIST else results_by_topic_v3_and_below
        )


def _read_add_partitions_to_txn_topic(reader: Reader, version: int) -> AddPartitionsToTxnTopic:
    name = reader.string("name")
    partitions = reader.numbers("partitions", "i", 4)
    if version >= 3:
        reader.skip_tagged_fields()
    return AddPartitionsToTxnTopic(name, partitions)


def _read_add_partitions_to_txn_transaction(
    reader: Reader, version: int
) -> AddPartitionsToTxnTransaction:
    transactional_id = reader.string("transactional_id")
    producer_id, producer_epoch, verify_only = _QHT.unpack_from(reader.frame, reader.position)
    reader.position += 11
    topics: list[AddPartitionsToTxnTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_add_partitions_to_txn_topic(reader, version))
    reader.skip_tagged_fields()
    return AddPartitionsToTxnTransaction(
        transactional_id, producer_id, producer_epoch, verify_only, topics
    )


def _read_add_partitions_to_txn_request(reader: Reader, version: int) -> AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = []
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = []
    if version >= 4:
        for _ in range(reader.count("transactions", 14)):
            transactions.append(_read_add_partitions_to_txn_transaction(reader, version))
    if version <= 3:
        v3_and_below_transactional_id = reader.string("v3_and_below_transactional_id")
    if version >= 4:
        pass
    else:
        v3_and_below_producer_id, v3_and_below_producer_epoch = _QH.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 10
    if version <= 3:
        for _ in range(reader.count("v3_and_below_topics", 3)):
            v3_and_below_topics.append(_read_add_partitions_to_txn_topic(reader, version))
    if version >= 3:
        reader.skip_tagged_fields()
    return AddPartitionsToTxnRequest(
        transactions,
        v3_and_below_transactional_id,
        v3_and_below_producer_id,
        v3_and_below_producer_epoch,
        v3_and_below_topics,
    )


def _read_add_partitions_to_txn_partition_result(
    reader: Reader, version: int
) -> AddPartitionsToTxnPartitionResult:
    partition_index, partition_error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    if version >= 3:
        reader.skip_tagged_fields()
    return AddPartitionsToTxnPartitionResult(partition_index, partition_error_code)


def _read_add_partitions_to_txn_topic_result(
    reader: Reader, version: int
) -> AddPartitionsToTxnTopicResult:
    name = reader.string("name")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []
    for _ in range(reader.count("results_by_partition", 6)):
        results_by_partition.append(_read_add_partitions_to_txn_partition_result(reader, version))
    if version >= 3:
        reader.skip_tagged_fields()
    return AddPartitionsToTxnTopicResult(name, results_by_partition)


def _read_add_partitions_to_txn_result(reader: Reader, version: int) -> AddPartitionsToTxnResult:
    transactional_id = reader.string("transactional_id")
    topic_results: list[AddPartitionsToTxnTopicResult] = []
    for _ in range(reader.count("topic_results", 3)):
        topic_results.append(_read_add_partitions_to_txn_topic_result(reader, version))
    reader.skip_tagged_fields()
    return AddPartitionsToTxnResult(transactional_id, topic_results)


def _read_add_partitions_to_txn_response(
    reader: Reader, version: int
) -> AddPartitionsToTxnResponse:
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnResult] = []
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = []
    if version >= 4:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    else:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version >= 4:
        for _ in range(reader.count("results_by_transaction", 3)):
            results_by_transaction.append(_read_add_partitions_to_txn_result(reader, version))
    if version <= 3:
        for _ in range(reader.count("results_by_topic_v3_and_below", 3)):
            results_by_topic_v3_and_below.append(
                _read_add_partitions_to_txn_topic_result(reader, version)
            )
    if version >= 3:
        reader.skip_tagged_fields()
    return AddPartitionsToTxnResponse(
        throttle_time_ms, error_code, results_by_transaction, results_by_topic_v3_and_below
    )


def _write_add_partitions_to_txn_partition_result(
    out: Writer, data: AddPartitionsToTxnPartitionResult, version: int
) -> None:
    out += _IH.pack(data.partition_index, data.partition_error_code)
    if version >= 3:
        out.append(0)


def _write_add_partitions_to_txn_topic_result(
    out: Writer, data: AddPartitionsToTxnTopicResult, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.results_by_partition))
    for add_partitions_to_txn_partition_result in data.results_by_partition:
        _write_add_partitions_to_txn_partition_result(
            out, add_partitions_to_txn_partition_result, version
        )
    if version >= 3:
        out.append(0)


def _write_add_partitions_to_txn_result(
    out: Writer, data: AddPartitionsToTxnResult, version: int
) -> None:
    out.string(data.transactional_id)
    out.length(len(data.topic_results))
    for add_partitions_to_txn_topic_result in data.topic_results:
        _write_add_partitions_to_txn_topic_result(out, add_partitions_to_txn_topic_result, version)
    out.append(0)


def _write_add_partitions_to_txn_response(
    out: Writer, data: AddPartitionsToTxnResponse, version: int
) -> None:
    if version >= 4:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    else:
        out += _I.pack(data.throttle_time_ms)
    if version >= 4:
        out.length(len(data.results_by_transaction))
        for add_partitions_to_txn_result in data.results_by_transaction:
            _write_add_partitions_to_txn_result(out, add_partitions_to_txn_result, version)
    if version <= 3:
        out.length(len(data.results_by_topic_v3_and_below))
        for add_partitions_to_txn_topic_result in data.results_by_topic_v3_and_below:
            _write_add_partitions_to_txn_topic_result(
                out, add_partitions_to_txn_topic_result, version
            )
    if version >= 3:
        out.append(0)


def _error_response(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(error_code=code)


def _topics(request: AddPartitionsToTxnRequest) -> Iterator[NamedTopic]:
    for add_partitions_to_txn_transaction in request.transactions:
        for add_partitions_to_txn_topic in add_partitions_to_txn_transaction.topics:
            yield NamedTopic(
                add_partitions_to_txn_topic.name, None, add_partitions_to_txn_topic.partitions
            )
    for add_partitions_to_txn_topic in request.v3_and_below_topics:
        yield NamedTopic(
            add_partitions_to_txn_topic.name, None, add_partitions_to_txn_topic.partitions
        )


def _transactional_ids(request: AddPartitionsToTxnRequest) -> Iterable[str]:
    return [
        *[
            add_partitions_to_txn_transaction.transactional_id
            for add_partitions_to_txn_transaction in request.transactions
        ],
        *([request.v3_and_below_transactional_id] if request.v3_and_below_transactional_id else []),
    ]


ADD_PARTITIONS_TO_TXN_MESSAGES = ApiMessages(
    key=24,
    name="AddPartitionsToTxn",
    versions=(0, 5),
    flexible_since=3,
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    read_request=_read_add_partitions_to_txn_request,
    read_response=_read_add_partitions_to_txn_response,
    write_response=_write_add_partitions_to_txn_response,
    error_response=_error_response,
    fields={
        AddPartitionsToTxnRequest: {
            "transactions": (4, 5),
            "v3_and_below_transactional_id": (0, 3),
            "v3_and_below_producer_id": (0, 3),
            "v3_and_below_producer_epoch": (0, 3),
            "v3_and_below_topics": (0, 3),
        },
        AddPartitionsToTxnResponse: {
            "error_code": (4, 5),
            "results_by_transaction": (4, 5),
            "results_by_topic_v3_and_below": (0, 3),
        },
    },
    topics=_topics,
    names_partitions=True,
    transactional_ids=_transactional_ids,
)
