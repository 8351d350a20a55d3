"""What clients and brokers ask of the transaction coordinator, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from purgatory_broker._wire.error_code import CodedError, ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionValue,
)


class TransactionError(CodedError):
    def __init__(self, code: ErrorCode, transactional_id: str) -> None:
        super().__init__(code, f"transactional id {transactional_id!r}: {code.name}")
        self.transactional_id = transactional_id

    def __reduce__(self) -> tuple[type[TransactionError], tuple[ErrorCode, str]]:
        return type(self), (self.code, self.transactional_id)


_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(append_error: ErrorCode) -> ErrorCode:
    """Return what a client gets of an append error, as Kafka's TransactionStateManager does."""
    return _COORDINATOR_ERRORS.get(append_error, append_error)


@dataclass(frozen=True, slots=True)
class ProducerIdResult:
    """The id and epoch of a producer, or an error."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    transactional_id: str
    #: How long a transaction may last, in milliseconds.
    timeout_ms: int
    #: The id and epoch that the producer has; None for a producer that begins.
    expected: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    #: The client's `transaction.version`: 2 if a broker adds the partitions that a producer writes.
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    #: The client's `transaction.version`: with 2 the producer gets its next epoch.
    client_version: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    error: ErrorCode = ErrorCode.NONE
    value: TransactionValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """Which transactions are listed; an empty filter is any."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    #: Those that run for longer, in milliseconds; below 0 is any.
    duration_ms: int = -1
    #: A regular expression of the whole transactional id.
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    error: ErrorCode = ErrorCode.NONE
    unknown_states: tuple[str, ...] = ()
    #: The transactional ids with what is known of them.
    transactions: tuple[tuple[str, TransactionValue], ...] = ()


#: Each is called once, with the result for a client or broker that waits for it.
ProducerIdReply: TypeAlias = Callable[[ProducerIdResult], object]
ErrorReply: TypeAlias = Callable[[ErrorCode], object]
#: With the error of each partition of the request.
PartitionsReply: TypeAlias = Callable[[Mapping[TopicPartition, ErrorCode]], object]


def error_for_all(
    partitions: Iterable[TopicPartition], error: ErrorCode
) -> dict[TopicPartition, ErrorCode]:
    return dict.fromkeys(partitions, error)
