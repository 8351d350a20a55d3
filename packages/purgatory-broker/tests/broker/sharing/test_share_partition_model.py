"""A model of a share partition: each record is acknowledged once or delivered again, never both."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from purgatory_broker.sharing.records import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquisitionLock,
    RecordState,
    ShareError,
)
from purgatory_broker.sharing.share_partition import SharePartition
from purgatory_broker.sharing.spans import Update
from purgatory_broker.sharing.state import ShareState
from tests.support.profiles import examples

MEMBERS = ("a", "b")
MAX_IN_FLIGHT, MAX_DELIVERIES = 8, 2
members = st.sampled_from(MEMBERS)
types = st.sampled_from(list(AcknowledgeType))
likely = st.sampled_from([True, True, False])


@dataclass
class Record:
    """What a test knows of a record: who has it, and how often it was delivered."""

    owner: str | None = None
    deliveries: int = 0
    #: It was acknowledged for good, and its member knows.
    is_done: bool = False


@dataclass
class Write:
    """An update on its way to the share coordinator, which may answer or not."""

    update: Update
    member: str
    outcome: dict[int, AcknowledgeType | None] = field(default_factory=dict)


class ShareMachine(RuleBasedStateMachine):
    """Members acquire, acknowledge and fail; writes fail or lose their answers; leaders restart."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[int, int]] = []
        self.records: list[Record] = []
        self.log_start = 0
        self.stored = ShareState(start_offset=0)
        self.writes: list[Write] = []
        self.locks: list[AcquisitionLock] = []
        self.partition = self.opened()
        for size in (3, 1, 2):
            self.append(size)

    def opened(self) -> SharePartition:
        """Return the share partition of a leader that begins with what is stored."""
        return SharePartition(
            max(self.stored.start_offset, self.log_start),
            self.stored.batches,
            max_in_flight=MAX_IN_FLIGHT,
            max_delivery_count=MAX_DELIVERIES,
            on_lock_end=self.locks.remove,
        )

    # -- what happens to the log and to the leader

    @rule(size=st.integers(1, 4))
    def append(self, size: int) -> None:
        """Append a batch of records."""
        first = len(self.records)
        self.batches.append((first, first + size - 1))
        self.records += [Record() for _ in range(size)]

    @precondition(lambda self: self.records)
    @rule(count=st.integers(1, 2))
    def delete(self, count: int) -> None:
        """Delete the first records from the log."""
        self.log_start = min(self.log_start + count, len(self.records))
        self.partition.move_start(self.log_start)

    @rule()
    def restart(self) -> None:
        """Let another leader take over: what was acquired is available again."""
        self.writes.clear()
        self.locks.clear()
        self.partition = self.opened()
        for record in self.records:
            record.owner = None
            record.deliveries = 0
        for batch in self.stored.batches:
            for offset in range(batch.first, batch.last + 1):
                self.records[offset].deliveries = batch.delivery_count

    # -- members

    @precondition(lambda self: self.partition.can_acquire)
    @rule(
        member=members,
        max_records=st.integers(1, 6),
        batch_size=st.integers(1, 4),
        is_exact=st.booleans(),
    )
    def acquire(self, member: str, max_records: int, batch_size: int, is_exact: bool) -> None:
        """Give a member what may be acquired: what nobody has, and what is not done."""
        offset = self.partition.next_fetch_offset
        fetched = [batch for batch in self.batches if batch[1] >= offset]
        lock, acquired = self.partition.acquire(
            member,
            offset,
            fetched,
            max_records=max_records,
            batch_size=batch_size,
            is_exact=is_exact,
        )
        assert (lock is not None) == bool(acquired)
        if is_exact:
            assert sum(last - first + 1 for first, last, _ in acquired) <= max_records
        if lock is not None:
            self.locks.append(lock)
        for first, last, count in acquired:
            for each in range(first, last + 1):
                record = self.records[each]
                assert record.owner is None, (each, record)
                assert not record.is_done, (each, record)
                record.deliveries += 1
                assert record.deliveries == count, (each, record)
                record.owner = member
        if fetched:
            assert acquired, "the next offset was not acquired"

    def owned(self, member: str) -> list[int]:
        """Return what a member has, and does not acknowledge yet."""
        pending, start = self.pending(), self.partition.start_offset
        return [
            offset
            for offset, record in enumerate(self.records)
            if record.owner == member and offset not in pending and offset >= start
        ]

    def pending(self) -> set[int]:
        """Return the records whose acknowledgement is on its way."""
        return {offset for write in self.writes for offset in write.outcome}

    @rule(member=members, data=st.data())
    def acknowledge(self, member: str, data: st.DataObject) -> None:
        """Acknowledge some neighbouring records; all of them must be the member's."""
        first = data.draw(
            st.sampled_from(self.owned(member) or [0]) | st.integers(0, len(self.records))
        )
        last = first + data.draw(st.integers(0, 2))
        kinds = data.draw(
            st.one_of(
                st.tuples(types), st.tuples(*[types] * (last - first + 1)),
            )
        )  # fmt: skip
        batch = AcknowledgementBatch(first, last, tuple(map(int, kinds)))
        offsets = range(max(first, self.partition.start_offset), last + 1)
        is_allowed = set(offsets) <= set(self.owned(member))
        before = [str(span) for span in self.partition]
        try:
            update = self.partition.acknowledge(member, [batch])
        except ShareError:
            assert not is_allowed, (batch, before)
            return
        assert is_allowed, (batch, before)
        outcome = {offset: batch.type_of(offset) for offset in offsets}
        renewed = [each for each in offsets if outcome[each] is AcknowledgeType.RENEW]
        assert (update.renewed.num_records if update.renewed else 0) == len(renewed)
        if update.renewed is not None:
            self.locks.append(update.renewed)
        for offset in renewed:
            # Nothing of it is written, and it is still the member's.
            del outcome[offset]
        if outcome:
            self.writes.append(Write(update, member, outcome))

    @rule(member=members)
    def leave(self, member: str) -> None:
        """End a member's session."""
        owned = self.owned(member)
        update = self.partition.release(member)
        assert bool(owned) == bool(update.batches)
        self.writes.append(Write(update, member, dict.fromkeys(owned)))

    @precondition(lambda self: self.locks)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        """End a lock by time; what is pending stays so."""
        lock = data.draw(st.sampled_from(self.locks))
        update = self.partition.expire(lock)
        self.released(update)
        self.store(update)

    def released(self, update: Update) -> None:
        for batch in update.batches:
            for offset in range(batch.first, batch.last + 1):
                record = self.records[offset]
                assert record.owner is not None
                record.owner = None
                expected = (
                    RecordState.ARCHIVED
                    if record.deliveries >= MAX_DELIVERIES
                    else RecordState.AVAILABLE
                )
                assert batch.state == expected
                record.is_done = expected is RecordState.ARCHIVED

    # -- writes

    def store(self, update: Update) -> None:
        self.stored = self.stored.updated(
            ShareState(start_offset=update.start_offset, batches=tuple(update.batches))
        )

    @precondition(lambda self: self.writes)
    @rule(data=st.data(), is_stored=likely, is_answered=likely)
    def end_write(self, data: st.DataObject, is_stored: bool, is_answered: bool) -> None:
        """End a write, in any order: it is stored or not, and the leader learns of it or not."""
        write = self.writes.pop(data.draw(st.integers(0, len(self.writes) - 1)))
        if is_stored:
            self.store(write.update)
        if not (is_stored and is_answered):
            for update in self.partition.roll_back(write.update):
                self.released(update)
                self.store(update)
            return
        self.partition.commit(write.update)
        for offset, kind in write.outcome.items():
            record = self.records[offset]
            record.owner = None
            if kind is None:
                record.deliveries -= 1
            elif kind is not AcknowledgeType.RELEASE or record.deliveries >= MAX_DELIVERIES:
                record.is_done = True

    # -- what always holds

    @invariant()
    def agrees(self) -> None:
        """Compare the owners, and see that nothing that is done is available."""
        self.partition.check()
        owners = {
            offset: span.lock.member_id
            for span in self.partition
            for offset in range(span.first, span.last + 1)
            if span.lock is not None
        }
        assert owners == {
            offset: record.owner
            for offset, record in enumerate(self.records)
            if record.owner is not None and offset >= self.partition.start_offset
        }
        for span in self.partition:
            for offset in range(span.first, span.last + 1):
                if span.state is RecordState.AVAILABLE and not span.is_pending:
                    assert not self.records[offset].is_done, offset


@pytest.mark.explore
def test_each_record_is_acknowledged_once_or_delivered_again() -> None:
    run_state_machine_as_test(ShareMachine, settings=examples(60, stateful_step_count=40))
