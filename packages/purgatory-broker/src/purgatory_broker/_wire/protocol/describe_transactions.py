"""The messages of DescribeTransactions.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IQQH = struct.Struct(">iqqh")


class DescribeTransactionsRequest(MessageStruct):
    """DescribeTransactionsRequest of Kafka."""

    __slots__ = ("transactional_ids",)
    transactional_ids: list[str]

    def __init__(self, transactional_ids: list[str] = NEW_LIST) -> None:
        self.transactional_ids = [] if transactional_ids is NEW_LIST else transactional_ids


class TopicData(MessageStruct):
    """TopicData of Kafka."""

    __slots__ = ("topic", "partitions")
    topic: str
    partitions: list[int]

    def __init__(self, topic: str = "", partitions: list[int] = NEW_LIST) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW_LIST else partitions


class TransactionState(MessageStruct):
    """TransactionState of Kafka."""

    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )
    error_code: int
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    producer_id: int
    producer_epoch: int
    topics: list[TopicData]

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] = NEW_LIST,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is NEW_LIST else topics


class DescribeTransactionsResponse(MessageStruct):
    """DescribeTransactionsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "transaction_states")
    throttle_time_ms: int
    transaction_states: list[TransactionState]

    def __init__(
        self, throttle_time_ms: int = 0, transaction_states: list[TransactionState] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is NEW_LIST else transaction_states


def _read_describe_transactions_request(
    reader: Reader, version: int
) -> DescribeTransactionsRequest:
    transactional_ids = reader.strings("transactional_ids")
    reader.skip_tagged_fields()
    return DescribeTransactionsRequest(transactional_ids)


def _read_topic_data(reader: Reader, version: int) -> TopicData:
    topic = reader.string("topic")
    partitions = reader.numbers("partitions", "i", 4)
    reader.skip_tagged_fields()
    return TopicData(topic, partitions)


def _read_transaction_state(reader: Reader, version: int) -> TransactionState:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    transactional_id = reader.string("transactional_id")
    transaction_state = reader.string("transaction_state")
    transaction_timeout_ms, transaction_start_time_ms, producer_id, producer_epoch = (
        _IQQH.unpack_from(reader.frame, reader.position)
    )
    reader.position += 22
    topics: list[TopicData] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_topic_data(reader, version))
    reader.skip_tagged_fields()
    return TransactionState(
        error_code,
        transactional_id,
        transaction_state,
        transaction_timeout_ms,
        transaction_start_time_ms,
        producer_id,
        producer_epoch,
        topics,
    )


def _read_describe_transactions_response(
    reader: Reader, version: int
) -> DescribeTransactionsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    transaction_states: list[TransactionState] = []
    for _ in range(reader.count("transaction_states", 28)):
        transaction_states.append(_read_transaction_state(reader, version))
    reader.skip_tagged_fields()
    return DescribeTransactionsResponse(throttle_time_ms, transaction_states)


def _write_topic_data(out: Writer, data: TopicData, version: int) -> None:
    out.string(data.topic)
    out.numbers(data.partitions, "i")
    out.append(0)


def _write_transaction_state(out: Writer, data: TransactionState, version: int) -> None:
    out += _H.pack(data.error_code)
    out.string(data.transactional_id)
    out.string(data.transaction_state)
    out += _IQQH.pack(
        data.transaction_timeout_ms,
        data.transaction_start_time_ms,
        data.producer_id,
        data.producer_epoch,
    )
    out.length(len(data.topics))
    for topic_data in data.topics:
        _write_topic_data(out, topic_data, version)
    out.append(0)


def _write_describe_transactions_response(
    out: Writer, data: DescribeTransactionsResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.transaction_states))
    for transaction_state in data.transaction_states:
        _write_transaction_state(out, transaction_state, version)
    out.append(0)


def _error_response(
    request: DescribeTransactionsRequest, code: int
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error_code=code) for _ in request.transactional_ids]
    )


def _transactional_ids(request: DescribeTransactionsRequest) -> Iterable[str]:
    return request.transactional_ids


DESCRIBE_TRANSACTIONS_MESSAGES = ApiMessages(
    key=65,
    name="DescribeTransactions",
    versions=(0, 0),
    flexible_since=0,
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
    read_request=_read_describe_transactions_request,
    read_response=_read_describe_transactions_response,
    write_response=_write_describe_transactions_response,
    error_response=_error_response,
    fields={},
    transactional_ids=_transactional_ids,
)
