"""The states of the records that a share group has in flight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from purgatory_broker._wire.error_code import CodedError, ErrorCode


class ShareError(CodedError):
    """A share group's request is refused; the message says why, in Kafka's words."""


class RecordState(IntEnum):
    """With Kafka's numbers, in requests between brokers and in the log."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    #: The member keeps the record, and its lock begins anew (KIP-1222).
    RENEW = 4


#: What becomes of an acquired record by an acknowledgement that gives it back.
STATES = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class StateBatch(NamedTuple):
    """A state that the records from `first` to `last` have."""

    first: int
    last: int
    state: int
    delivery_count: int


class AcquiredRange(NamedTuple):
    first: int
    last: int
    delivery_count: int


class AcknowledgementBatch(NamedTuple):
    """The types have one element for all records, or one for each."""

    first: int
    last: int
    types: tuple[int, ...]

    def type_of(self, offset: int) -> AcknowledgeType:
        number = self.types[0] if len(self.types) == 1 else self.types[offset - self.first]
        return AcknowledgeType(number)


def check_acknowledgements(batches: list[AcknowledgementBatch], *, may_renew: bool) -> None:
    """Raise ShareError unless the batches are in order, and have types that Kafka knows."""
    highest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    end = -1
    for batch in batches:
        count = batch.last - batch.first + 1
        if batch.first > batch.last:
            refused = "the first offset is greater than the last offset"
        elif batch.first < end:
            refused = "the batches overlap or are not in order"
        elif not batch.types:
            refused = "the acknowledge types are empty"
        elif len(batch.types) not in (1, count):
            refused = f"it has {len(batch.types)} acknowledge types for {count} records"
        elif not all(AcknowledgeType.GAP <= each <= highest for each in batch.types):
            refused = f"its acknowledge types are {list(batch.types)}"
        else:
            end = batch.last
            continue
        raise ShareError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid acknowledgement batch {batch.first} to {batch.last}: {refused}.",
        )


@dataclass(slots=True, eq=False)
class AcquisitionLock:
    """The time for which a member has the records of one fetch, or of a renewal, for itself."""

    member_id: str
    #: The records that are still acquired by it; at 0 nobody waits for its end.
    num_records: int = 0
    has_expired: bool = False


@dataclass(slots=True, eq=False)
class Span:
    """Neighbouring records in one state."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    #: The member that has acquired them, by its lock; None in every other state.
    lock: AcquisitionLock | None = None
    #: Whether the state is being stored: until then nothing else may change it.
    is_pending: bool = False

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_acquirable(self) -> bool:
        return self.state is RecordState.AVAILABLE and not self.is_pending

    def split(self, offset: int) -> Span:
        """Keep the records before `offset`, and return a span of the others."""
        assert self.first < offset <= self.last, (self, offset)
        assert not self.is_pending, self
        rest = Span(offset, self.last, self.state, self.delivery_count, self.lock)
        self.last = offset - 1
        return rest
