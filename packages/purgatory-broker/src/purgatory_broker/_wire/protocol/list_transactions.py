"""The messages of ListTransactions.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_IH = struct.Struct(">ih")
_Q = struct.Struct(">q")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ListTransactionsRequest(MessageStruct):
    """ListTransactionsRequest of Kafka."""

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class TransactionState(MessageStruct):
    """TransactionState of Kafka."""

    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ListTransactionsResponse(MessageStruct):
    """ListTransactionsResponse of Kafka."""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)


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
