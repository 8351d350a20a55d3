"""A compacted log, its follower, and a list of all that was ever appended."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatory_broker.log import compaction as compaction_module
from purgatory_broker.log.batch import read_header
from purgatory_broker.log.compaction import Compaction, CompactionAbortedError
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.record import read_records
from tests.broker.log.batches import NOW, batch
from tests.broker.log.compactions import compact, compaction, put, table
from tests.broker.log.transactions import end, read_committed, stable_offset
from tests.support.profiles import examples

RETENTION_MS = 100
SETTINGS = LogSettings(
    segment_bytes=400, retention_ms=None, compacted=True, delete_retention_ms=RETENTION_MS
)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.sampled_from([b"value", b"value", None])
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3)
#: The last one bumps its epoch with each transaction.
PRODUCERS = st.sampled_from([5, 6, 7])
BUMPS = 7


@dataclass
class Appended:
    """A record as it was appended."""

    key: bytes
    value: bytes | None
    time: int
    producer: int = -1
    #: Whether its transaction has committed; None while it is open.
    is_committed: bool | None = True
    #: The time of the first complete pass that has met it.
    met_ms: int | None = None


class CompactedLog(RuleBasedStateMachine):
    """A log, and all records that were ever appended to it by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.all: dict[int, Appended] = {}
        self.now_ms = NOW
        self.epoch = 1
        self.running: tuple[Compaction, Generator[None, None, None]] | None = None
        self.killed: list[object] = []
        self.slice, compaction_module.RECORDS_PER_SLICE = compaction_module.RECORDS_PER_SLICE, 1

    @initialize(in_files=st.booleans())
    def begin(self, in_files: bool) -> None:
        """Create an empty log and a follower."""
        self.in_files = in_files
        self.log = self.open() if in_files else PartitionLog.in_memory("t-0", SETTINGS)
        self.follower = PartitionLog.in_memory("t-1", SETTINGS)

    def open(self) -> PartitionLog:
        """Open the log from its files."""
        return PartitionLog.open("t-0", self.folder / "t-0", SETTINGS)

    def note(self, base: int, pairs: list[tuple[bytes, bytes | None]], **fields: object) -> None:
        """Note a batch."""
        for index, (key, value) in enumerate(pairs):
            self.all[base + index] = Appended(key, value, self.now_ms, **fields)  # type: ignore[arg-type]
        self.now_ms += 1

    # -- appends

    @rule(pairs=PAIRS)
    def append(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        """Append a batch outside of any transaction."""
        self.note(put(self.log, *pairs, now_ms=self.now_ms, epoch=self.epoch), pairs)

    @rule(key=KEYS, values=st.lists(VALUES, min_size=1, max_size=3), codec=st.sampled_from([1, 4]))
    def append_compressed(self, key: bytes, values: list[bytes | None], codec: int) -> None:
        """Append a compressed batch, whose records may have later and later times."""
        times = [self.now_ms + index for index in range(len(values))]
        data = batch(*values, key=key, codec=codec, timestamps=times)
        base = self.log.append_as_leader(data, self.epoch, self.now_ms).base_offset
        for index, value in enumerate(values):
            self.note(base + index, [(key, value)])

    def next_of(self, producer: int) -> tuple[int, int, int]:
        """Return a producer's id, epoch and next sequence."""
        state = self.log.producers.get(producer)
        return (
            (producer, 0, 0) if state is None else (producer, state.epoch, state.last_sequence + 1)
        )

    @rule(
        producer=PRODUCERS,
        batches=st.lists(PAIRS, max_size=3),
        commits=st.sampled_from([True, False, None]),
    )
    def run_transaction(
        self,
        producer: int,
        batches: list[list[tuple[bytes, bytes | None]]],
        commits: bool | None,
    ) -> None:
        """Begin a transaction or go on with it, and end it unless `commits` is None."""
        for pairs in batches:
            base = put(
                self.log,
                *pairs,
                now_ms=self.now_ms,
                epoch=self.epoch,
                producer=self.next_of(producer),
                transactional=True,
            )
            self.note(base, pairs, producer=producer, is_committed=None)
        if commits is not None:
            epoch = self.next_of(producer)[1] + (producer == BUMPS)
            end(
                self.log,
                commit=commits,
                producer_id=producer,
                epoch=epoch,
                leader_epoch=self.epoch,
            )
            for record in self.all.values():
                if record.producer == producer and record.is_committed is None:
                    record.is_committed = commits

    @rule()
    def elect(self) -> None:
        """Begin a leader epoch, from the next batch on."""
        self.epoch += 1

    @rule(by_ms=st.sampled_from([RETENTION_MS // 2, RETENTION_MS]))
    def wait(self, by_ms: int) -> None:
        """Let time pass."""
        self.now_ms += by_ms

    # -- compaction

    @rule()
    def compact(self) -> None:
        """Compact all that is stable; each key has one record there then."""
        self.abandon()
        done = compact(self.log, now_ms=self.now_ms)
        self.note_met(done)
        keys = [each.key for each in self.log.records() if each.offset < done.end_offset]
        assert len(set(keys)) == len(keys), keys

    def note_met(self, done: Compaction) -> None:
        """Note the records that a pass meets."""
        for offset, record in self.all.items():
            if offset < done.end_offset and record.met_ms is None:
                record.met_ms = self.now_ms

    @rule()
    def begin_pass(self) -> None:
        """Begin a pass whose slices come between the other steps."""
        self.abandon()
        self.log.roll()
        begun = compaction(self.log, now_ms=self.now_ms)
        self.note_met(begun)
        self.running = begun, begun.run()

    @precondition(lambda self: self.running is not None)
    @rule(slices=st.integers(1, 40))
    def go_on(self, slices: int) -> None:
        """Do some slices of the pass."""
        assert self.running is not None
        try:
            for _ in range(slices):
                next(self.running[1])
        except (StopIteration, CompactionAbortedError):
            self.running = None

    def abandon(self) -> None:
        """End a pass in the middle."""
        if self.running is not None:
            self.running[1].close()
        self.running = None

    # -- other changes

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        """Delete records that are decided."""
        start = self.log.log_start_offset
        span = stable_offset(self.log, self.log.end_offset) - start
        self.log.advance_log_start_offset(start + int(max(span, 0) * share))

    @precondition(lambda self: self.in_files)
    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        """Open the log again: it knows as much of producers and epochs as before."""
        # A process that is killed does not end its pass.
        self.killed.append(self.running)
        self.running = None
        before = self.known()
        self.log.close(clean=clean)
        self.log = self.open()
        self.log.replicated(self.log.end_offset)
        assert self.known() == before

    def known(self) -> tuple[object, ...]:
        """Return what must not be lost with the records."""
        log = self.log
        first_offset = log._segments.first_offset
        producers = {
            producer_id: (
                state.epoch,
                [each for each in state.batches if each.base_offset >= first_offset],
                state.last_sequence,
                state.transaction_start,
            )
            for producer_id, state in log.producers.items()
            # Nothing in the log may be left of a producer whose records were deleted.
            if state.last_offset >= log.log_start_offset
        }
        epochs = [log.end_offset_for_epoch(epoch) for epoch in range(log.latest_epoch + 1)]
        return producers, epochs, log.end_offset, log.cleaned_offset, list(log.records())

    @rule()
    def follow(self) -> None:
        """Fetch what the follower lacks, which compacts it by itself."""
        log, follower = self.log, self.follower
        if follower.end_offset < log.log_start_offset:
            follower.truncate_fully_and_start_at(log.log_start_offset)
        while follower.end_offset < log.end_offset:
            data = log.read(follower.end_offset, 300, log.end_offset, at_least_one=True)
            follower.append_as_follower(data)
        follower.replicated(follower.end_offset)
        follower.check()
        compact(follower, now_ms=self.now_ms)
        assert follower.end_offset == log.end_offset
        assert self.committed_table(follower) == self.committed_table(log)

    # -- invariants

    def committed_table(self, log: PartitionLog) -> dict[bytes | None, bytes]:
        """Return the latest committed values that a consumer knows after it has read all."""
        offset = self.log.log_start_offset
        by_offset = {each.offset: each for each in log.records()}
        read = read_committed(log, log.end_offset, offset=offset, max_bytes=300)
        return table([(by_offset[at].key, value) for at, value in read])

    @invariant()
    def latest_values_are_kept(self) -> None:
        """Assert what a read_committed consumer gets that begins anew."""
        log = self.log
        log.replicated(log.end_offset)
        limit = stable_offset(log, log.end_offset)
        expected = table(
            [
                (each.key, each.value)
                for at, each in sorted(self.all.items())
                if log.log_start_offset <= at < limit and each.is_committed
            ]
        )
        assert self.committed_table(log) == expected

    @invariant()
    def nothing_is_invented_and_nothing_recent_is_lost(self) -> None:
        """Assert that records are as they were, and that no tombstone goes too early."""
        log = self.log
        records = {each.offset: each for each in log.records()}
        for offset, record in records.items():
            appended = self.all[offset]
            found = (record.key, record.value, record.timestamp)
            assert found == (appended.key, appended.value, appended.time)
        latest = {each.key: at for at, each in sorted(self.all.items()) if each.is_committed}
        for offset, appended in self.all.items():
            if offset < log.log_start_offset:
                continue
            is_kept_tombstone = (
                latest.get(appended.key) == offset
                and appended.value is None
                and (appended.met_ms is None or self.now_ms < appended.met_ms + RETENTION_MS)
            )
            if is_kept_tombstone or offset >= log.active_segment.base_offset:
                assert offset in records, (offset, appended)

    @invariant()
    def every_offset_can_be_read(self) -> None:
        """Assert reads, look-ups by time and counts, also at offsets that are gone."""
        log = self.log
        log.check()
        headers = [header for header, _ in log.batches()]
        offsets = [each.offset for each in log.records()]
        # Markers count here, as in Kafka.
        times = {
            each.offset: each.timestamp
            for header, data in log.batches()
            for each in read_records(header, data)
            if each.offset >= log.log_start_offset
        }
        for offset in range(max(log.log_start_offset, log.end_offset - 15), log.end_offset):
            first = next(header for header in headers if header.next_offset > offset)
            data = log.read(offset, 1, log.end_offset, at_least_one=True)
            assert read_header(data) == first
            following = min(
                (each.base_offset for each in headers if each.base_offset > first.base_offset),
                default=log.end_offset,
            )
            assert first.next_offset <= log.end_of_read(offset, len(data)) <= following
            assert log.bytes_between(offset, log.end_offset) == sum(
                header.size for header in headers if header.next_offset > offset
            )
            assert log.record_count(offset, log.end_offset) == sum(at >= offset for at in offsets)
        for time in (NOW, self.now_ms - 5, self.now_ms):
            at_time = next((at for at in times if times[at] >= time), None)
            found = log.offset_for_timestamp(time, log.end_offset)
            assert found == (None if at_time is None else (times[at_time], at_time))
        latest = max(times.values(), default=None)
        expected = (
            None if latest is None else (latest, min(at for at in times if times[at] == latest))
        )
        if log.log_start_offset == 0:
            assert log.max_timestamp_offset() == expected

    def teardown(self) -> None:
        """Remove the files."""
        self.abandon()
        compaction_module.RECORDS_PER_SLICE = self.slice
        self.log.close()
        shutil.rmtree(self.folder)


CompactedLog.TestCase.settings = examples(25, stateful_step_count=30)
test_compacted_log_agrees_with_a_list = CompactedLog.TestCase
