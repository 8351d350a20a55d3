"""A leader's and a follower's log compared with naive models, through elections and crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import split_batches
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, batch, contents
from tests.broker.log.naive_log import NaiveBatch, NaiveLog
from tests.support.profiles import examples

SETTINGS = LogSettings(segment_bytes=400, retention_ms=None)
PRODUCERS = st.sampled_from([5, 5, 6])


class TwoLogs(RuleBasedStateMachine):
    """A leader and a follower, and a naive model of each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.logs: list[PartitionLog] = []
        self.models = [NaiveLog(), NaiveLog()]
        self.leader = 0
        self.epoch = 0
        self.time = NOW

    @initialize(in_files=st.booleans())
    def begin(self, in_files: bool) -> None:
        """Create two empty logs."""
        self.in_files = in_files
        self.logs = [
            self.open(number) if in_files else PartitionLog.in_memory(f"t-{number}", SETTINGS)
            for number in (0, 1)
        ]
        self.lead(0)

    def open(self, number: int) -> PartitionLog:
        """Open one of the logs from its files."""
        return PartitionLog.open(f"t-{number}", self.folder / str(number), SETTINGS)

    def lead(self, number: int) -> None:
        """Make one of the logs the leader."""
        self.leader = number
        self.epoch += 1
        self.logs[number].begin_epoch(self.epoch)
        self.models[number].begin(self.epoch)

    # -- the leader

    @rule(
        count=st.integers(1, 4),
        size=st.sampled_from([1, 30, 500]),
        back=st.sampled_from([0, 0, 0, 40]),
        codec=st.sampled_from([0, 1]),
    )
    def append(self, count: int, size: int, back: int, codec: int) -> None:
        """Append a batch with a timestamp that may precede the last one's."""
        self.time += 10
        time = self.time - back
        values = [b"%d" % self.time * size] * count
        model = self.models[self.leader]
        data = batch(*values, timestamps=[time] * count, codec=codec)
        appended = self.logs[self.leader].append_as_leader(data, self.epoch, self.time)
        assert (appended.base_offset, appended.last_offset, appended.max_timestamp) == (
            model.end,
            model.end + count - 1,
            time,
        )
        model.append(NaiveBatch(model.end, self.epoch, values, time))

    @rule(
        producer=PRODUCERS,
        skip=st.sampled_from([0, 0, 0, 1, -1, -2, -6]),
        count=st.sampled_from([1, 1, 2]),
        newer=st.sampled_from([0, 0, 0, 0, 1, -1]),
    )
    def produce(self, producer: int, skip: int, count: int, newer: int) -> None:
        """Append a producer's next batch, a duplicate, or one that is refused.

        Its epoch may be the current one, the next one, or an old one.
        """
        model, log = self.models[self.leader], self.logs[self.leader]
        state = log.producers.get(producer)
        epoch = max(state.epoch + newer, 0) if state is not None else max(newer, 0)
        is_same = state is not None and epoch == state.epoch
        following = state.batches[-1].last_sequence + 1 if state is not None and is_same else 0
        sequence = max(following + skip, 0)
        data = batch(
            *[b"p"] * count, timestamps=[self.time] * count, producer=(producer, epoch, sequence)
        )
        known = {
            (each.first_sequence, each.last_sequence): each.base_offset
            for each in (state.batches if state is not None and is_same else [])
        }
        earlier = known.get((sequence, sequence + count - 1))
        refused = None
        if state is not None and epoch < state.epoch:
            refused = ErrorCode.INVALID_PRODUCER_EPOCH
        elif earlier is None and state is not None and sequence != following:
            refused = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if refused is not None:
            with pytest.raises(RecordError) as caught:
                log.append_as_leader(data, self.epoch, self.time)
            assert caught.value.code is refused
            return
        appended = log.append_as_leader(data, self.epoch, self.time)
        assert (appended.duplicate, appended.base_offset) == (
            earlier is not None,
            model.end if earlier is None else earlier,
        )
        if earlier is None:
            model.append(
                NaiveBatch(
                    model.end, self.epoch, [b"p"] * count, self.time, (producer, epoch, sequence)
                )
            )

    @rule(producer=PRODUCERS, count=st.integers(2, 7), followed=st.booleans())
    def produce_several(self, producer: int, count: int, followed: bool) -> None:
        """Append several batches of a producer, and replicate them if `followed`."""
        for _ in range(count):
            self.produce(producer, skip=0, count=1, newer=0)
        for _ in range(count if followed else 0):
            self.replicate(max_bytes=10_000, torn=0, limit=100)

    # -- the follower

    @rule(max_bytes=st.integers(0, 1_000), torn=st.integers(0, 90), limit=st.integers(0, 100))
    def replicate(self, max_bytes: int, torn: int, limit: int) -> None:
        """Fetch once; the end of the response is lost."""
        leader, follower = self.logs[self.leader], self.logs[1 - self.leader]
        if not self.reconcile():
            return
        limit = (
            leader.end_offset
            if limit > 10
            else min(leader.log_start_offset + limit, leader.end_offset)
        )
        data = leader.read(follower.end_offset, max_bytes, limit, at_least_one=True)
        whole = [header.base_offset for header, _ in split_batches(data)]
        cut = data[: len(data) - torn] if torn < len(data) else data
        kept = [header.base_offset for header, _ in split_batches(cut, torn_tail=True)]
        assert kept == whole[: len(kept)]
        if leader.log_start_offset == follower.end_offset:
            # As the fetcher does: the follower's records are all deleted at the leader, whose first
            # batch may begin before the follower's end.
            follower.advance_log_start_offset(leader.log_start_offset)
            self.models[1 - self.leader].advance(leader.log_start_offset)
        follower.append_as_follower(cut)
        for each in self.models[self.leader].batches:
            if each.base in kept:
                self.models[1 - self.leader].append(each)

    def reconcile(self) -> bool:
        """Truncate the follower where the logs diverge; return False if it starts anew."""
        leader, follower, model = (
            self.logs[self.leader],
            self.logs[1 - self.leader],
            self.models[1 - self.leader],
        )
        while True:
            if not leader.log_start_offset <= follower.end_offset <= leader.end_offset:
                follower.truncate_fully_and_start_at(leader.log_start_offset)
                model.restart(leader.log_start_offset)
                return False
            last = follower.latest_epoch
            if last < 0:
                return True
            epoch, end = leader.end_offset_for_epoch(last)
            if epoch == last and end >= follower.end_offset:
                return True
            if epoch < 0:
                follower.truncate_fully_and_start_at(leader.log_start_offset)
                model.restart(leader.log_start_offset)
                return False
            before = (follower.end_offset, follower.latest_epoch)
            target = (
                min(end, follower.end_offset_for_epoch(epoch)[1])
                if follower.end_offset_for_epoch(epoch)[1] >= 0
                else end
            )
            follower.truncate_to(target)
            model.truncate(target)
            assert (follower.end_offset, follower.latest_epoch) != before, "no progress"

    @rule()
    def elect(self) -> None:
        """Make the other log the leader."""
        self.lead(1 - self.leader)

    # -- truncation and deletion

    @rule(number=st.sampled_from([0, 1]), share=st.floats(0, 1))
    def delete_records(self, number: int, share: float) -> None:
        """Move the log start offset to any offset, also inside a batch."""
        log = self.logs[number]
        offset = log.log_start_offset + int((log.end_offset - log.log_start_offset) * share)
        log.advance_log_start_offset(offset)
        self.models[number].advance(offset)

    @rule(back=st.integers(-1, 8))
    def truncate_follower(self, back: int) -> None:
        """Truncate the follower, also inside a batch or before its start."""
        number = 1 - self.leader
        offset = max(self.logs[number].end_offset - back, 0)
        self.logs[number].truncate_to(offset)
        self.models[number].truncate(offset)

    @rule(number=st.sampled_from([0, 1]), keep=st.integers(0, 1_500))
    def retain(self, number: int, keep: int) -> None:
        """Delete whole segments by retention."""
        log, model = self.logs[number], self.models[number]
        log.delete_old_segments(NOW, 0)  # Segments before the log start offset.
        assert log.log_start_offset == model.start
        log.settings = LogSettings(segment_bytes=400, retention_ms=None, retention_bytes=keep)
        size = log.size_bytes
        deleted = log.delete_old_segments(NOW, log.end_offset)
        log.settings = SETTINGS
        assert (deleted > 0) == (log.size_bytes < size)
        assert log.size_bytes >= min(size, keep)
        model.advance(log.log_start_offset)

    # -- crashes

    @precondition(lambda self: self.in_files)
    @rule(number=st.sampled_from([0, 1]), close=st.booleans(), tail=st.binary(max_size=80))
    def reopen(self, number: int, close: bool, tail: bytes) -> None:
        """Open a log after it was closed, or after a crash during an append."""
        log, model = self.logs[number], self.models[number]
        if close:
            log.close()
        else:
            log._segments.close()
            last = max((self.folder / str(number)).glob("*.log"))
            with last.open("ab") as file:
                file.write(tail)
        self.logs[number] = self.open(number)
        # Epochs without batches are lost.
        model.epochs = [(epoch, at) for epoch, at in model.epochs if at < model.end]
        if not model.batches:
            model.epochs = self.logs[number]._epochs.entries
        if number == self.leader:
            self.lead(number)

    # -- invariants

    @invariant()
    def logs_match_the_models(self) -> None:
        """Assert that records, epochs and timestamps match."""
        for log, model in zip(self.logs, self.models, strict=False):
            log.check()
            assert (log.log_start_offset, log.end_offset) == (model.start, model.end)
            assert contents(log) == model.records()
            asked = range(-1, self.epoch + 2)
            assert [log.end_offset_for_epoch(epoch) for epoch in asked] == [
                model.epoch_end(epoch) for epoch in asked
            ], model.epochs
            for time in (0, self.time - 45, self.time - 15, self.time, self.time + 1):
                assert log.offset_for_timestamp(time, 10**9) == model.at_time(time)

    @invariant()
    def producer_states_match_the_models(self) -> None:
        """Assert that the last batches of each producer are known.

        Batches that were deleted from the log may be known too.
        """
        for log, model in zip(self.logs, self.models, strict=False):
            for producer in (5, 6):
                left = model.remaining_batches(producer)
                state = log.producers.get(producer)
                found = (
                    [] if state is None else [(state.epoch, *each[:3]) for each in state.batches]
                )
                assert found[len(found) - len(left) :] == left, (found, left)
                assert all(
                    base < min((each.base for each in model.batches), default=model.end)
                    for _, _, _, base in found[: len(found) - len(left)]
                )

    @invariant()
    def reads_match_the_models(self) -> None:
        """Assert that reads return the same batches, for several offsets, sizes and limits."""
        for log, model in zip(self.logs, self.models, strict=False):
            sizes = {header.base_offset: header.size for header, _ in log.batches()}
            for offset in range(model.start, model.end, max((model.end - model.start) // 7, 1)):
                for max_bytes, limit in (
                    (0, model.end),
                    (150, model.end),
                    (10**6, model.end),
                    (10**6, offset + 3),
                ):
                    data = log.read(offset, max_bytes, limit, at_least_one=True)
                    found = [header.base_offset for header, _ in split_batches(data)]
                    wanted = model.read(offset, max_bytes, limit, sizes)
                    assert found == wanted[: len(found)]
                    assert bool(found) == bool(wanted)
                assert log.bytes_between(offset, model.end) == sum(
                    sizes[each.base] for each in model.batches if each.end > offset
                )

    def teardown(self) -> None:
        """Delete the files."""
        for log in self.logs:
            log.close()
        shutil.rmtree(self.folder)


TwoLogs.TestCase.settings = examples(80, stateful_step_count=40)
test_two_logs_agree_with_lists = TwoLogs.TestCase


def test_follower_that_ends_where_the_leader_starts_inside_a_batch() -> None:
    """Hypothesis found this case.

    The logs diverge at once, and the first record of the leader's batch of two is deleted.
    """
    logs = TwoLogs()
    logs.begin(in_files=False)
    logs.elect()
    logs.append(count=1, size=1, back=0, codec=0)
    logs.append(count=1, size=1, back=0, codec=0)
    logs.elect()
    logs.append(count=2, size=1, back=0, codec=0)
    logs.delete_records(number=0, share=0.6)
    logs.replicate(max_bytes=0, torn=0, limit=50)
    assert logs.logs[1].end_offset == 2
    logs.logs_match_the_models()
    logs.producer_states_match_the_models()
    logs.reads_match_the_models()
    logs.teardown()
