"""Transactions of followers, and after a truncation or a recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.segment import Segment
from tests.broker.log.batches import NOW, append, batch, replicate
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import SMALL, refused
from tests.broker.log.transactions import (
    abort,
    aborted,
    commit,
    read_committed,
    transactional,
    write,
)

END = 10**6


def test_follower_has_the_leaders_transactions(make_log: MakeLog) -> None:
    log, follower = make_log(segment_bytes=SMALL), make_log(segment_bytes=1_000)
    write(log, b"a")
    abort(log, epoch=1, coordinator_epoch=3)
    write(log, b"b", producer_id=8)
    commit(log, producer_id=8)
    write(log, b"c", epoch=1)
    replicate(log, follower)
    assert follower.first_unstable_offset == 0
    follower.replicated(4)
    assert follower.first_unstable_offset == 4
    assert aborted(follower, 0, END) == [(7, 0)]
    state = follower.producers[7]
    assert (state.epoch, state.coordinator_epoch, state.transaction_start) == (1, 3, 4)


def test_follower_takes_no_verification(make_log: MakeLog) -> None:
    log, follower = make_log(), make_log()
    guard = follower.producers.start_verification(7, 0, 0, NOW, adds=False)
    write(log)
    commit(log)
    replicate(log, follower)
    with refused(ErrorCode.INVALID_TXN_STATE):
        follower.append_as_leader(transactional(sequence=1), 1, NOW, guard=guard)


def test_truncated_marker_opens_its_transaction_again(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    write(log, b"a")
    append(log, b"b")
    abort(log)
    log.replicated(3)
    assert log.first_unstable_offset is None
    log.truncate_to(2)
    assert log.first_unstable_offset == 0
    assert log.producers[7].transaction_start == 0
    assert aborted(log, 0, END) == []
    commit(log)
    log.replicated(3)
    assert log.first_unstable_offset is None
    assert read_committed(log, 3) == [(0, b"a"), (1, b"b")]


def test_truncated_beginning_leaves_no_open_transaction(make_log: MakeLog) -> None:
    log = make_log()
    write(log, producer_id=8)
    commit(log, producer_id=8, coordinator_epoch=4)
    write(log, producer_id=8, sequence=1)
    write(log)
    log.truncate_to(2)
    log.replicated(2)
    assert log.first_unstable_offset is None
    assert 7 not in log.producers
    state = log.producers[8]
    assert (state.transaction_start, state.coordinator_epoch, state.last_sequence) == (None, 4, 0)


def test_truncated_first_transaction_leaves_a_producer_without_one(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(batch(b"v", producer=(7, 0, 0)), 1, NOW)
    write(log, sequence=1)
    log.truncate_to(1)
    assert (log.first_unstable_offset, log.producers[7].transaction_start) == (None, None)


def test_truncation_keeps_a_transaction_that_began_before(make_log: MakeLog) -> None:
    log = make_log()
    write(log, producer_id=8)
    commit(log, producer_id=8, coordinator_epoch=4)
    write(log, producer_id=8, sequence=1)
    write(log, producer_id=8, sequence=2)
    log.truncate_to(3)
    state = log.producers[8]
    assert (state.transaction_start, state.coordinator_epoch, state.last_sequence) == (2, 4, 1)


@pytest.mark.parametrize("transactions", ["none", "open", "ended"])
def test_truncation_reads_no_more_of_the_log_than_it_needs(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch, transactions: str
) -> None:
    """Hypothesis would not notice: a look at the whole log gives the same states."""
    log = make_log(segment_bytes=SMALL)
    for sequence in range(40):
        if transactions == "none":
            log.append_as_leader(batch(b"v", producer=(7, 0, sequence)), 1, NOW)
        else:
            write(log, sequence=sequence)
        if transactions == "ended":
            commit(log)
    read: list[int] = []
    header = Segment.header
    monkeypatch.setattr(
        Segment, "header", lambda self, index: read.append(index) or header(self, index)
    )
    log.truncate_to(log.end_offset - 2)
    assert len(read) <= 11
    state = log.producers[7]
    assert (len(state.batches), state.last_timestamp) == (5, NOW)
    assert state.transaction_start == (0 if transactions == "open" else None)


def test_truncation_after_unreplicated_markers_keeps_them(make_log: MakeLog) -> None:
    log = make_log()
    write(log, producer_id=8)
    abort(log, producer_id=8)
    write(log, producer_id=7)
    abort(log, producer_id=7)
    log.truncate_to(2)
    assert log.first_unstable_offset == 0
    log.replicated(2)
    assert log.first_unstable_offset is None


def test_truncated_bump_of_the_epoch_restores_the_sequences(make_log: MakeLog) -> None:
    log = make_log()
    for sequence in range(3):
        write(log, sequence=sequence)
    commit(log, epoch=1)
    write(log, epoch=1)
    log.truncate_to(4)
    state = log.producers[7]
    assert (state.epoch, state.last_sequence, state.transaction_start) == (1, -1, None)
    log.truncate_to(3)
    state = log.producers[7]
    assert (state.epoch, state.last_sequence, state.transaction_start) == (0, 2, 0)


def test_empty_log_has_no_transactions(make_log: MakeLog) -> None:
    log = make_log()
    write(log)
    abort(log)
    write(log, sequence=1)
    log.producers.start_verification(8, 0, 0, NOW, adds=False)
    log.truncate_fully_and_start_at(1)
    assert log.first_unstable_offset is None
    assert len(log.producers.verifications) == 0
    log.check()


@pytest.mark.parametrize("clean", [True, False])
def test_recovery_reads_the_transactions(tmp_path: Path, clean: bool) -> None:
    settings = LogSettings(segment_bytes=SMALL)
    log = PartitionLog.open("t-0", tmp_path / "t-0", settings)
    write(log, b"a")
    abort(log, epoch=1, coordinator_epoch=5)
    write(log, b"b", epoch=1)
    write(log, b"c", producer_id=8)
    commit(log, producer_id=8)
    log.close(clean=clean)
    log = PartitionLog.open("t-0", tmp_path / "t-0", settings)
    log.check()
    assert aborted(log, 0, END) == [(7, 0)]
    assert log.first_unstable_offset == 0
    log.replicated(log.end_offset)
    assert log.first_unstable_offset == 2
    state = log.producers[7]
    assert (state.epoch, state.coordinator_epoch, state.transaction_start) == (1, 5, 2)
    assert log.record_count(0, log.end_offset) == 3
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        abort(log, epoch=1, coordinator_epoch=4)
    log.close()


def test_recovery_of_a_cut_marker_leaves_its_transaction_open(tmp_path: Path) -> None:
    log = PartitionLog.open("t-0", tmp_path / "t-0", LogSettings())
    write(log, b"a")
    abort(log)
    log.close()
    path = next((tmp_path / "t-0").glob("*.log"))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    log = PartitionLog.open("t-0", tmp_path / "t-0", LogSettings())
    log.replicated(log.end_offset)
    assert (log.end_offset, log.first_unstable_offset) == (1, 0)
    assert aborted(log, 0, END) == []
    log.close()


def test_damaged_marker_of_a_closed_log_ends_no_transaction(tmp_path: Path) -> None:
    log = PartitionLog.open("t-0", tmp_path / "t-0", LogSettings())
    write(log, b"a")
    size = log.size_bytes
    abort(log)
    append(log, b"b")
    log.close(clean=True)
    path = next((tmp_path / "t-0").glob("*.log"))
    with path.open("r+b") as file:
        file.seek(size + 77)
        file.write(b"\x01")
    log = PartitionLog.open("t-0", tmp_path / "t-0", LogSettings())
    log.replicated(log.end_offset)
    assert (log.end_offset, log.first_unstable_offset) == (3, 0)
    assert log.record_count(0, 3) == 2
    log.close()
