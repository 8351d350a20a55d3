"""The messages of ListTransactions.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_IH = struct.Struct(">ih")
_Q = struct.Struct(">q")


class ListTransactionsRequest(MessageStruct):
    """ListTransactionsRequest of Kafka."""

    __slots__ = (
        "state_filters",
        "producer_id_filters",
        "duration_filter",
        "transactional_id_pattern",
    )
    state_filters: list[str]
    producer_id_filters: list[int]
    duration_filter: int
    transactional_id_pattern: str | None

    def __init__(
        self,
        state_filters: list[str] = NEW_LIST,
        producer_id_filters: list[int] = NEW_LIST,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is NEW_LIST else state_filters
        self.producer_id_filters = [] if producer_id_filters is NEW_LIST else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class TransactionState(MessageStruct):
    """TransactionState of Kafka."""

    __slots__ = ("transactional_id", "producer_id", "transaction_state")
    transactional_id: str
    producer_id: int
    transaction_state: str

    def __init__(
        self, transactional_id: str = "", producer_id: int = 0, transaction_state: str = ""
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(MessageStruct):
    """ListTransactionsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")
    throttle_time_ms: int
    error_code: int
    unknown_state_filters: list[str]
    transaction_states: list[TransactionState]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = NEW_LIST,
        transaction_states: list[TransactionState] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = (
            [] if unknown_state_filters is NEW_LIST else unknown_state_filters
        )
        self.transaction_states = [] if transaction_states is NEW_LIST else transaction_states


def _read_list_transactions_request(reader: Reader, version: int) -> ListTransactionsRequest:
    duration_filter: int = -1
    transactional_id_pattern: str | None = None
    state_filters = reader.strings("state_filters")
    producer_id_filters = reader.numbers("producer_id_filters", "q", 8)
    if version >= 1:
        (duration_filter,) = _Q.unpack_from(reader.frame, reader.position)
        reader.position += 8
    if version >= 2:
        transactional_id_pattern = reader.nullable_string("transactional_id_pattern")
    reader.skip_tagged_fields()
    return ListTransactionsRequest(
        state_filters, producer_id_filters, duration_filter, transactional_id_pattern
    )


def _read_transaction_state(reader: Reader, version: int) -> TransactionState:
    transactional_id = reader.string("transactional_id")
    (producer_id,) = _Q.unpack_from(reader.frame, reader.position)
    reader.position += 8
    transaction_state = reader.string("transaction_state")
    reader.skip_tagged_fields()
    return TransactionState(transactional_id, producer_id, transaction_state)


def _read_list_transactions_response(reader: Reader, version: int) -> ListTransactionsResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    unknown_state_filters = reader.strings("unknown_state_filters")
    transaction_states: list[TransactionState] = []
    for _ in range(reader.count("transaction_states", 11)):
        transaction_states.append(_read_transaction_state(reader, version))
    reader.skip_tagged_fields()
    return ListTransactionsResponse(
        throttle_time_ms, error_code, unknown_state_filters, transaction_states
    )


def _write_transaction_state(out: Writer, data: TransactionState, version: int) -> None:
    out.string(data.transactional_id)
    out += _Q.pack(data.producer_id)
    out.string(data.transaction_state)
    out.append(0)


def _write_list_transactions_response(
    out: Writer, data: ListTransactionsResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.strings(data.unknown_state_filters)
    out.length(len(data.transaction_states))
    for transaction_state in data.transaction_states:
        _write_transaction_state(out, transaction_state, version)
    out.append(0)


def _error_response(request: ListTransactionsRequest, code: int) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code)


LIST_TRANSACTIONS_MESSAGES = ApiMessages(
    key=66,
    name="ListTransactions",
    versions=(0, 2),
    flexible_since=0,
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    read_request=_read_list_transactions_request,
    read_response=_read_list_transactions_response,
    write_response=_write_list_transactions_response,
    error_response=_error_response,
    fields={
        ListTransactionsRequest: {"duration_filter": (1, 2), "transactional_id_pattern": (2, 2)}
    },
)
