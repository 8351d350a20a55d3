"""A leader's log and a follower's against lists, through any steps: elections, cuts, crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from request_purgatory.broker.log import LogSettings, PartitionLog, RecordError, split
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.log.batches import NOW, batch, contents
from tests.broker.log.naive_log import NaiveBatch, NaiveLog
from tests.support.profiles import examples

SETTINGS = LogSettings(segment_bytes=400, retention_ms=None)
PRODUCERS = st.sampled_from([5, 5, 6])


class TwoLogs(RuleBasedStateMachine):
    """Log 0 and log 1, one of which leads; the lists beside them say what must be in them."""

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
        """Two empty logs of a kind."""
        self.in_files = in_files
        self.logs = [
            self.open(number) if in_files else PartitionLog.in_memory(f"t-{number}", SETTINGS)
            for number in (0, 1)
        ]
        self.lead(0)

    def open(self, number: int) -> PartitionLog:
        """One of the logs as its files have it."""
        return PartitionLog.open(f"t-{number}", self.folder / str(number), SETTINGS)

    def lead(self, number: int) -> None:
        """A log's replica is elected."""
        self.leader = number
        self.epoch += 1
        self.logs[number].begin_epoch(self.epoch)
        self.models[number].begin(self.epoch)

    # -- the leader appends

    @rule(
        count=st.integers(1, 4),
        size=st.sampled_from([1, 30, 500]),
        back=st.sampled_from([0, 0, 0, 40]),
        codec=st.sampled_from([0, 1]),
    )
    def append(self, count: int, size: int, back: int, codec: int) -> None:
        """A batch, at a time that may be before the last one's."""
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
        """A producer's next batch, or one that it has sent, or one too far.

        By itself, one that replaced it, or one before.
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
    def produce_on(self, producer: int, count: int, followed: bool) -> None:
        """Several batches of one producer in a row, more than are remembered perhaps, as far as the follower too."""
        for _ in range(count):
            self.produce(producer, skip=0, count=1, newer=0)
        for _ in range(count if followed else 0):
            self.replicate(max_bytes=10_000, torn=0, limit=100)

    # -- the follower follows

    @rule(max_bytes=st.integers(0, 1_000), torn=st.integers(0, 90), limit=st.integers(0, 100))
    def replicate(self, max_bytes: int, torn: int, limit: int) -> None:
        """One fetch, of which the end is lost."""
        leader, follower = self.logs[self.leader], self.logs[1 - self.leader]
        if not self.reconcile():
            return
        limit = (
            leader.end_offset
            if limit > 10
            else min(leader.log_start_offset + limit, leader.end_offset)
        )
        data = leader.read(follower.end_offset, max_bytes, limit, at_least_one=True)
        whole = [header.base_offset for header, _ in split(data)]
        cut = data[: len(data) - torn] if torn < len(data) else data
        kept = [header.base_offset for header, _ in split(cut, torn_tail=True)]
        assert kept == whole[: len(kept)]
        if leader.log_start_offset == follower.end_offset:
            # As the fetcher does: nothing is left of what is here, and the leader's first batch may
            # begin before this end.
            follower.advance_start(leader.log_start_offset)
            self.models[1 - self.leader].advance(leader.log_start_offset)
        follower.append_as_follower(cut)
        for each in self.models[self.leader].batches:
            if each.base in kept:
                self.models[1 - self.leader].append(each)

    def reconcile(self) -> bool:
        """The follower cuts off what the leader does not have; False if it has to begin anew."""
        leader, follower, model = (
            self.logs[self.leader],
            self.logs[1 - self.leader],
            self.models[1 - self.leader],
        )
        while True:
            if not leader.log_start_offset <= follower.end_offset <= leader.end_offset:
                follower.truncate_fully(leader.log_start_offset)
                model.restart(leader.log_start_offset)
                return False
            last = follower.latest_epoch
            if last < 0:
                return True
            epoch, end = leader.epoch_end(last)
            if epoch == last and end >= follower.end_offset:
                return True
            if epoch < 0:
                follower.truncate_fully(leader.log_start_offset)
                model.restart(leader.log_start_offset)
                return False
            before = (follower.end_offset, follower.latest_epoch)
            target = (
                min(end, follower.epoch_end(epoch)[1]) if follower.epoch_end(epoch)[1] >= 0 else end
            )
            follower.truncate_to(target)
            model.truncate(target)
            assert (follower.end_offset, follower.latest_epoch) != before, "no progress"

    @rule()
    def elect(self) -> None:
        """The other one, whatever it has."""
        self.lead(1 - self.leader)

    # -- cuts

    @rule(number=st.sampled_from([0, 1]), share=st.floats(0, 1))
    def delete_records(self, number: int, share: float) -> None:
        """The start moves to anywhere, also into a batch."""
        log = self.logs[number]
        offset = log.log_start_offset + int((log.end_offset - log.log_start_offset) * share)
        log.advance_start(offset)
        self.models[number].advance(offset)

    @rule(back=st.integers(-1, 8))
    def truncate_follower(self, back: int) -> None:
        """The end moves back, also into a batch or before the start."""
        number = 1 - self.leader
        offset = max(self.logs[number].end_offset - back, 0)
        self.logs[number].truncate_to(offset)
        self.models[number].truncate(offset)

    @rule(number=st.sampled_from([0, 1]), keep=st.integers(0, 1_500))
    def retain(self, number: int, keep: int) -> None:
        """Whole segments go."""
        log, model = self.logs[number], self.models[number]
        log.delete_old(NOW, 0)  # What is before the start.
        assert log.log_start_offset == model.start
        log.settings = LogSettings(segment_bytes=400, retention_ms=None, retention_bytes=keep)
        size = log.size_bytes
        deleted = log.delete_old(NOW, log.end_offset)
        log.settings = SETTINGS
        assert (deleted > 0) == (log.size_bytes < size)
        assert log.size_bytes >= min(size, keep)
        model.advance(log.log_start_offset)

    # -- crashes

    @precondition(lambda self: self.in_files)
    @rule(number=st.sampled_from([0, 1]), close=st.booleans(), tail=st.binary(max_size=80))
    def reopen(self, number: int, close: bool, tail: bytes) -> None:
        """After a close, or after a crash in the middle of a write."""
        log, model = self.logs[number], self.models[number]
        if close:
            log.close()
        else:
            log._segments.close()
            last = max((self.folder / str(number)).glob("*.log"))
            with last.open("ab") as file:
                file.write(tail)
        self.logs[number] = self.open(number)
        # Epochs are those of the batches that are left.
        model.epochs = [(epoch, at) for epoch, at in model.epochs if at < model.end]
        if not model.batches:
            model.epochs = self.logs[number]._epochs.entries
        if number == self.leader:
            self.lead(number)

    # -- what must hold

    @invariant()
    def logs_are_as_the_lists_have_it(self) -> None:
        """Records, epochs and times; and every invariant of their own."""
        for log, model in zip(self.logs, self.models, strict=False):
            log.check()
            assert (log.log_start_offset, log.end_offset) == (model.start, model.end)
            assert contents(log) == model.records()
            asked = range(-1, self.epoch + 2)
            assert [log.epoch_end(epoch) for epoch in asked] == [
                model.epoch_end(epoch) for epoch in asked
            ], model.epochs
            for time in (0, self.time - 45, self.time - 15, self.time, self.time + 1):
                assert log.offset_at_time(time, 10**9) == model.at_time(time)

    @invariant()
    def producers_are_known_by_what_is_left_of_them(self) -> None:
        """The last batches of their last epoch, whatever was cut off.

        Of those that were deleted, some perhaps.
        """
        for log, model in zip(self.logs, self.models, strict=False):
            for producer in (5, 6):
                left = model.left_of(producer)
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
    def reads_give_what_they_should(self) -> None:
        """From offsets all over the log, for some sizes and limits."""
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
                    found = [header.base_offset for header, _ in split(data)]
                    wanted = model.read(offset, max_bytes, limit, sizes)
                    assert found == wanted[: len(found)]
                    assert bool(found) == bool(wanted)
                assert log.bytes_between(offset, model.end) == sum(
                    sizes[each.base] for each in model.batches if each.end > offset
                )

    def teardown(self) -> None:
        """Leave nothing behind."""
        for log in self.logs:
            log.close()
        shutil.rmtree(self.folder)


TwoLogs.TestCase.settings = examples(120, stateful_step_count=40)
test_two_logs_agree_with_lists = TwoLogs.TestCase


def test_follower_that_ends_where_the_leader_starts_inside_a_batch() -> None:
    """Found by an exploration.

    The two parted at once, and the leader's first record was deleted, of a batch of two.
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
    logs.logs_are_as_the_lists_have_it()
    logs.producers_are_known_by_what_is_left_of_them()
    logs.reads_give_what_they_should()
    logs.teardown()
