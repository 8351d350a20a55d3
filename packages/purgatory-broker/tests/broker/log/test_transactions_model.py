"""One log with several transactional producers, compared with a naive model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, append, batch, replicate
from tests.broker.log.log_checks import segments
from tests.broker.log.naive_transactions import Entry, NaiveTransactions
from tests.broker.log.transactions import aborted, end, read_committed, stable_offset, transactional
from tests.support.profiles import examples

SETTINGS = LogSettings(segment_bytes=500, retention_ms=None)
#: The last one bumps its epoch with each transaction.
PRODUCERS = st.sampled_from([5, 6, 7])
BUMPS = 7


T = TypeVar("T")


def attempt(action: Callable[[], T]) -> tuple[T | None, ErrorCode | None]:
    """Return the result of an action, or the error with which it is refused."""
    try:
        return action(), None
    except RecordError as error:
        return None, error.code


class TransactionalLog(RuleBasedStateMachine):
    """A log and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.model = NaiveTransactions()
        self.coordinator_epoch = 0
        #: What was verified, also what is over.
        self.guards: dict[int, object] = {}

    @initialize(in_files=st.booleans())
    def begin(self, in_files: bool) -> None:
        """Create an empty log."""
        self.in_files = in_files
        self.log = self.open() if in_files else PartitionLog.in_memory("t-0", SETTINGS)

    def open(self) -> PartitionLog:
        """Open the log from its files."""
        return PartitionLog.open("t-0", self.folder / "t-0", SETTINGS)

    def epoch_of(self, producer: int) -> int:
        """Return the epoch that a producer is in."""
        return self.model.epoch(producer) or 0

    # -- producers

    @rule(count=st.integers(1, 3))
    def append_without_producer(self, count: int) -> None:
        """Append outside of any transaction."""
        values = [b"x"] * count
        base = append(self.log, *values)
        self.model.append(Entry(base, tuple(values)))

    @rule(producer=PRODUCERS, skip=st.sampled_from([0, 0, 1]), newer=st.sampled_from([0, 0, 1, -1]))
    def verify(self, producer: int, skip: int, newer: int) -> None:
        """Ask the coordinator about a producer's next batch."""
        epoch = max(self.epoch_of(producer) + newer, 0)
        sequence = (self.model.next_sequence(producer) if newer == 0 else 0) + skip
        adds = producer == BUMPS
        expected = self.model.verify(producer, epoch, sequence, adds=adds)
        guard, error = attempt(
            lambda: self.log.producers.start_verification(producer, epoch, sequence, NOW, adds=adds)
        )
        if error is not None:
            assert error is expected
            return
        assert (guard is not None) is expected
        if guard is not None:
            entry = self.model.verifications[producer]
            assert entry.guard is None or entry.guard is guard
            assert guard is not self.guards.get(producer) or entry.guard is guard
            entry.guard = self.guards[producer] = guard

    @rule(
        producer=PRODUCERS,
        skip=st.sampled_from([0, 0, 0, 0, 1, -1, -2]),
        newer=st.sampled_from([0, 0, 0, 0, 1, -1]),
        count=st.sampled_from([1, 1, 2]),
        transactional_=st.sampled_from([True, True, True, True, False]),
        verified=st.sampled_from([True, True, True, False]),
    )
    def produce(
        self,
        producer: int,
        skip: int,
        newer: int,
        count: int,
        transactional_: bool,
        verified: bool,
    ) -> None:
        """Send a batch: the next one, a duplicate, or one that is refused."""
        epoch = max(self.epoch_of(producer) + newer, 0)
        is_same = epoch == self.model.epoch(producer)
        sequence = max((self.model.next_sequence(producer) if is_same else 0) + skip, 0)
        values = [b"%d" % self.model.end] * count
        guard = self.guards.get(producer) if verified else None
        if transactional_:
            data = transactional(*values, producer_id=producer, epoch=epoch, sequence=sequence)
        else:
            data = batch(*values, producer=(producer, epoch, sequence))
        known = [
            each.base
            for each in (self.model.batches(producer) if is_same else [])
            if each.sequence == sequence and len(each.values) == count
        ]
        appended, error = attempt(
            lambda: self.log.append_as_leader(data, 1, NOW, guard=cast("Any", guard))
        )
        if appended is None:
            expected = self.model.refusal(
                producer, epoch, sequence, guard, transactional=transactional_
            )
            assert (error, known) == (expected, [])
            return
        assert appended.duplicate == bool(known)
        if known:
            assert appended.base_offset == known[0]
            return
        assert (
            self.model.refusal(producer, epoch, sequence, guard, transactional=transactional_)
            is None
        )
        assert appended.base_offset == self.model.end
        self.model.append(
            Entry(appended.base_offset, tuple(values), producer, epoch, sequence, transactional_)
        )

    @rule(producer=PRODUCERS, count=st.integers(1, 6), commits=st.sampled_from([True, False, None]))
    def run_transaction(self, producer: int, count: int, commits: bool | None) -> None:
        """Begin a transaction or go on with it, and end it unless `commits` is None."""
        for _ in range(count):
            self.verify(producer, skip=0, newer=0)
            self.produce(producer, skip=0, newer=0, count=1, transactional_=True, verified=True)
        if commits is not None:
            self.write_marker(producer, commits=commits, newer=0)

    @rule(
        producer=PRODUCERS,
        commits=st.booleans(),
        newer=st.sampled_from([0, 0, 0, 1, -1]),
    )
    def write_marker(self, producer: int, commits: bool, newer: int) -> None:
        """End a transaction, maybe one that has nothing in this log."""
        self.coordinator_epoch += 1
        known = self.model.epoch(producer)
        epoch = max((known or 0) + newer + (producer == BUMPS), 0)
        offset, error = attempt(
            lambda: end(
                self.log,
                commit=commits,
                producer_id=producer,
                epoch=epoch,
                coordinator_epoch=self.coordinator_epoch,
            )
        )
        if offset is None:
            assert error is ErrorCode.INVALID_PRODUCER_EPOCH
            assert known is not None
            assert epoch < known
            return
        assert known is None or epoch >= known
        self.model.append(Entry(offset, (), producer, epoch, -1, True, commits))

    # -- replicas

    @rule(share=st.floats(0, 1))
    def replicated(self, share: float) -> None:
        """Raise the high watermark."""
        before = self.model.stable_offset()
        high_watermark = self.model.high_watermark
        ends = [entry.end for entry in self.model.entries if entry.end > high_watermark]
        self.model.high_watermark = [high_watermark, *ends][int(len(ends) * share)]
        self.log.replicated(self.model.high_watermark)
        assert stable_offset(self.log, self.model.high_watermark) >= before

    @rule(back=st.integers(0, 12), below=st.booleans())
    def truncate(self, back: int, below: bool) -> None:
        """Truncate, below the high watermark only if nothing was deleted."""
        offset = max(self.model.end - back, 0)
        if not below or self.model.start > 0:
            offset = max(offset, self.model.high_watermark)
        first_offset = self.log._segments.first_offset
        self.log.truncate_to(offset)
        self.model.truncate(offset, first_offset)
        self.log.replicated(self.model.high_watermark)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        """Delete records that are decided."""
        span = max(self.model.stable_offset() - self.model.start, 0)
        offset = self.model.start + int(span * share)
        self.log.advance_log_start_offset(offset)
        self.model.start = max(self.model.start, offset)

    @precondition(lambda self: self.in_files)
    @rule(how=st.sampled_from(["closed", "killed", "cut"]), cut=st.integers(1, 100))
    def reopen(self, how: str, cut: int) -> None:
        """Open the log again, maybe without the end of its last file."""
        first_offset = self.log._segments.first_offset
        self.log.close(clean=how == "closed")
        if how == "cut":
            last = max((self.folder / "t-0").glob("*.log"))
            size = last.stat().st_size
            with last.open("r+b") as file:
                file.truncate(max(size - cut, 0))
        self.log = self.open()
        assert self.log.log_start_offset == self.model.start or how == "cut"
        assert how == "cut" or self.log.end_offset == self.model.end
        if how == "cut":
            in_files = {
                segment.header(index).base_offset
                for segment in segments(self.log)
                for index in range(len(segment))
            }
            self.model.entries = [each for each in self.model.entries if each.base in in_files]
            self.model.start, self.model.end = self.log.log_start_offset, self.log.end_offset
        self.model.forget_before(first_offset)
        self.model.high_watermark = max(
            min(self.model.high_watermark, self.model.end), self.model.start
        )
        self.log.replicated(self.model.high_watermark)

    @precondition(lambda self: self.model.start == 0)
    @rule()
    def follow(self) -> None:
        """Compare with a follower that has read everything."""
        follower = PartitionLog.in_memory("t-1", LogSettings(segment_bytes=900))
        replicate(self.log, follower)
        follower.check()
        follower.replicated(self.model.high_watermark)
        assert follower.first_unstable_offset == self.log.first_unstable_offset
        leaders, followers = (
            [each for segment in segments(log) for each in segment.aborted]
            for log in (self.log, follower)
        )
        assert leaders == followers

    # -- invariants

    @invariant()
    def transactions_match_the_model(self) -> None:
        """Assert what is unstable, open, and known of each producer."""
        log, model = self.log, self.model
        log.check()
        assert (log.log_start_offset, log.end_offset) == (model.start, model.end)
        assert log.first_unstable_offset == model.first_unstable()
        for producer in (5, 6, 7):
            state = log.producers.get(producer)
            epoch = model.epoch(producer)
            assert (state is None) == (epoch is None), (state, model.of(producer))
            if state is not None:
                assert (state.epoch, state.transaction_start) == (
                    epoch,
                    model.open_since(producer),
                )
                assert [each.base_offset for each in state.batches] == [
                    each.base for each in model.batches(producer)
                ]

    @invariant()
    def reads_match_the_model(self) -> None:
        """Assert what a read_committed consumer reads, and the lists of aborted transactions."""
        log, model = self.log, self.model
        assert read_committed(log, model.high_watermark) == model.committed()
        assert log.record_count(0, model.high_watermark) == model.record_count()
        for entry in model.entries[-12:]:
            for offset in range(max(entry.base, model.start), entry.end):
                for max_bytes in (1, 200, 10**6):
                    data = log.read(offset, max_bytes, model.end, at_least_one=True)
                    limit = log.end_of_read(offset, len(data))
                    assert limit == self.end_of_read(offset, len(data))
                    found = aborted(log, offset, len(data))
                    assert len(set(found)) == len(found)
                    assert set(found) == model.aborted(offset, limit)

    def end_of_read(self, offset: int, size: int) -> int:
        """Return the offset after a read."""
        for header, _ in self.log.batches(offset):
            if size <= 0:
                return header.base_offset
            size -= header.size
        return self.model.end

    def teardown(self) -> None:
        """Delete the files."""
        self.log.close()
        shutil.rmtree(self.folder)


TransactionalLog.TestCase.settings = examples(60, stateful_step_count=40)
test_transactional_log_agrees_with_a_list = TransactionalLog.TestCase
