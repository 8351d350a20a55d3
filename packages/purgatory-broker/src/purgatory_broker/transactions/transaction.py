"""A transactional id: its producer, and the state of its transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from purgatory_broker.metadata.topics import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1
#: The largest epoch, Java's largest short.
MAX_EPOCH = 32_767
#: The version of the feature `transaction.version` from which each transaction has an epoch of its
#: own (KIP-890, part 2).
EPOCH_BUMP_SINCE = 2


class TransactionState(Enum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


#: The states in records, by Kafka's numbers.
STATES_BY_NUMBER = tuple(TransactionState)

_COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
#: The states between two transactions: there is nothing to commit or abort.
IDLE_STATES = (TransactionState.EMPTY, *_COMPLETE)
#: The states of a transaction whose end is decided, while its markers are written.
PREPARED_STATES = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

_VALID_PREVIOUS_STATES = {
    TransactionState.EMPTY: IDLE_STATES,
    TransactionState.ONGOING: (TransactionState.ONGOING, *IDLE_STATES),
    TransactionState.PREPARE_COMMIT: (TransactionState.ONGOING,),
    TransactionState.PREPARE_ABORT: (
        TransactionState.ONGOING,
        TransactionState.PREPARE_EPOCH_FENCE,
        *IDLE_STATES,
    ),
    TransactionState.COMPLETE_COMMIT: (TransactionState.PREPARE_COMMIT,),
    TransactionState.COMPLETE_ABORT: (TransactionState.PREPARE_ABORT,),
    TransactionState.DEAD: IDLE_STATES,
    TransactionState.PREPARE_EPOCH_FENCE: (TransactionState.ONGOING,),
}


class IllegalTransitionError(Exception):
    """A transition that the coordinator's own rules exclude."""


class FencedEpochError(Exception):
    """The epoch that a producer expects is neither the present one nor the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """What the record of a transactional id has; times are milliseconds since 1970.

    Attributes:
        previous_producer_id: The producer id before the last transition.
        next_producer_id: The id that the producer has from the end of this transaction on, because
            the epochs of the present one are used up; NO_PRODUCER_ID otherwise.
        last_producer_epoch: The epoch with which a producer repeats a request whose response was
            lost; not in the record.
        client_version: The `transaction.version` of the client that has ended the transaction, or
            has begun it.
    """

    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    update_ms: int = NO_TIMESTAMP
    client_version: int = 0

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMP_SINCE


def is_exhausted(epoch: int) -> bool:
    """Return whether a producer with this epoch needs a new producer id: the last is for fences."""
    return epoch >= MAX_EPOCH - 1


class Transaction:
    """The state of a transactional id, as its coordinator knows it.

    | state | meaning | next states |
    |---|---|---|
    | Empty | the producer has begun, without a transaction | Ongoing, PrepareAbort, Dead |
    | Ongoing | partitions were added | Ongoing, PrepareCommit, PrepareAbort, PrepareEpochFence |
    | PrepareCommit | the end is decided; markers are written | CompleteCommit |
    | PrepareAbort | the same for an abort | CompleteAbort |
    | CompleteCommit, CompleteAbort | all partitions have their marker | as Empty, and Empty |
    | PrepareEpochFence | pending only: the producer loses its epoch | PrepareAbort |
    | Dead | pending only: the id has expired | |

    A transition is prepared, appended to the log, and completed once the record is replicated.
    While one is pending, none other may begin. Kafka's TransactionMetadata has the same rules.

    Attributes:
        value: The state of the last completed transition; partitions whose marker is written go.
        pending_state: The state of the pending transition; None if there is none.
        has_failed_fence: The record of a fence was not written. The next fence does not raise the
            epoch again, which no producer has got.
    """

    def __init__(self, transactional_id: str, value: TransactionValue) -> None:
        self.transactional_id = transactional_id
        self.value = value
        self.pending_state: TransactionState | None = None
        self.has_failed_fence = False

    @property
    def state(self) -> TransactionState:
        return self.value.state

    @property
    def is_fencing(self) -> bool:
        return self.pending_state is TransactionState.PREPARE_EPOCH_FENCE

    @property
    def is_exhausted(self) -> bool:
        return is_exhausted(self.value.producer_epoch)

    # -- transitions

    def prepare_epoch(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TransactionValue:
        """Raise the epoch for a producer that begins, or that expects an epoch.

        A producer whose response was lost expects the last epoch, and gets the present one again.
        Raises FencedEpochError for every other one.
        """
        value = self.value
        epoch, last = value.producer_epoch + 1, NO_EPOCH
        if expected_epoch is not None:
            if value.producer_epoch in (NO_EPOCH, expected_epoch):
                last = value.producer_epoch
            elif expected_epoch == value.last_producer_epoch:
                epoch, last = value.producer_epoch, value.last_producer_epoch
            else:
                raise FencedEpochError
        return self._prepare(
            state=TransactionState.EMPTY,
            producer_epoch=epoch,
            last_producer_epoch=last,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            update_ms=now_ms,
        )

    def prepare_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
    ) -> TransactionValue:
        """Give the producer another id, because the epochs of its present one are used up."""
        return self._prepare(
            state=TransactionState.EMPTY,
            producer_id=producer_id,
            producer_epoch=0,
            last_producer_epoch=self.value.producer_epoch if keeps_last_epoch else NO_EPOCH,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            update_ms=now_ms,
        )

    def prepare_partitions(
        self, added: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> TransactionValue:
        return self._prepare(
            state=TransactionState.ONGOING,
            partitions=self.value.partitions | added,
            start_ms=now_ms if self.state in IDLE_STATES else self.value.start_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    def prepare_fence(self) -> TransactionValue:
        """Take the epoch from the producer; the transaction is then aborted in the new epoch.

        The largest epoch stays: no producer gets it.
        """
        epoch = self.value.producer_epoch
        return self._prepare(
            state=TransactionState.PREPARE_EPOCH_FENCE,
            producer_epoch=epoch if self.has_failed_fence else min(epoch + 1, MAX_EPOCH),
            last_producer_epoch=NO_EPOCH,
        )

    def clear_fence(self, epoch: int | None) -> None:
        """Make way for the abort of a fenced producer, in `epoch`; None leaves the epoch alone."""
        self.pending_state = None
        if epoch is not None:
            self.value = replace(self.value, producer_epoch=epoch, last_producer_epoch=NO_EPOCH)

    def prepare_end(
        self,
        state: TransactionState,
        client_version: int,
        next_producer_id: int,
        now_ms: int,
        *,
        is_empty: bool,
    ) -> TransactionValue:
        """Decide the end. `is_empty`: no partition was added, so that nothing has begun either."""
        epoch, last = self.value.producer_epoch, self.value.last_producer_epoch
        if client_version >= EPOCH_BUMP_SINCE:
            epoch, last = min(epoch + 1, MAX_EPOCH), epoch
        return self._prepare(
            state=state,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            start_ms=now_ms if is_empty else self.value.start_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    def prepare_complete(self, now_ms: int) -> TransactionValue:
        value = self.value
        is_commit = value.state is TransactionState.PREPARE_COMMIT
        complete = (
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        )
        # The record of the end was written, so the fence has not failed.
        self.has_failed_fence = False
        producer_id, epoch = value.producer_id, value.producer_epoch
        if value.bumps_epoch and value.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = value.next_producer_id, 0
        return self._prepare(
            state=complete,
            producer_id=producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=epoch,
            partitions=frozenset(),
            update_ms=now_ms,
        )

    def prepare_dead(self) -> TransactionValue:
        return self._prepare(state=TransactionState.DEAD, partitions=frozenset())

    def _prepare(self, *, state: TransactionState, **changes: object) -> TransactionValue:
        if self.pending_state is not None:
            raise IllegalTransitionError(f"{self} cannot change to {state.value} meanwhile")
        if self.state not in _VALID_PREVIOUS_STATES[state]:
            raise IllegalTransitionError(f"{self} cannot change to {state.value}")
        self.pending_state = state
        return replace(
            self.value,
            state=state,
            previous_producer_id=self.value.producer_id,
            **changes,  # type: ignore[arg-type]
        )

    def complete(self, value: TransactionValue) -> None:
        """Complete the pending transition, whose record is replicated."""
        if self.pending_state is not value.state:
            raise IllegalTransitionError(f"{self} has not prepared the change to {value}")
        self.pending_state = None
        self.value = value

    def cancel(self) -> None:
        """Give up the pending transition, whose record was not written."""
        self.pending_state = None

    def remove_partitions(self, written: frozenset[TopicPartition]) -> None:
        """Remove partitions that have their marker, or are gone."""
        assert self.state in PREPARED_STATES, f"{self} has no markers to write"
        self.value = replace(self.value, partitions=self.value.partitions - written)

    def __str__(self) -> str:
        pending = "" if self.pending_state is None else f", pending {self.pending_state.value}"
        return (
            f"transaction {self.transactional_id!r} ({self.state.value}{pending}, producer id "
            f"{self.value.producer_id}, epoch {self.value.producer_epoch})"
        )

    def check(self) -> None:
        value, shown = self.value, str(self)
        assert value.producer_id >= 0, shown
        assert -1 <= value.producer_epoch <= MAX_EPOCH, shown
        assert value.producer_epoch >= 0 or value.state is TransactionState.EMPTY, shown
        assert value.state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
        assert not value.partitions or value.state not in IDLE_STATES, shown
        assert (value.start_ms == NO_TIMESTAMP) == (value.state is TransactionState.EMPTY), shown
        assert self.pending_state is None or (
            value.state in _VALID_PREVIOUS_STATES[self.pending_state]
        ), shown
