"""A process that is killed at each step of a compaction that changes a file."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW
from tests.broker.log.compactions import compact, left, put, table
from tests.broker.log.transactions import abort, commit, read_committed

SETTINGS = LogSettings(segment_bytes=900, retention_ms=None, compacted=True, delete_retention_ms=0)
#: More than a compaction of the test's log takes.
MOST_STEPS = 200

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def open_log(folder: Path) -> PartitionLog:
    """Open the log, all of which is replicated."""
    log = PartitionLog.open("t-0", folder, SETTINGS)
    log.replicated(log.end_offset)
    log.check()
    return log


def write_log(folder: Path) -> None:
    """Write a log of some segments, with tombstones, a producer, transactions and two epochs."""
    log = open_log(folder)
    for number in range(20):
        epoch = 1 + number // 12
        value = None if number % 9 == 8 else (b"%d" % number).ljust(150)
        put(log, (b"k%d" % (number // 2), value), epoch=epoch)
        if number % 6 == 3:
            producer = 7, 0, number // 6
            put(log, (b"k1", b"t"), producer=producer, transactional=True, epoch=epoch)
            (commit if number % 12 == 3 else abort)(log, leader_epoch=epoch)
        put(log, (b"p%d" % (number % 3), b"%d" % number), producer=(5, 0, number), epoch=epoch)
    log.close(clean=True)


def tables(log: PartitionLog) -> list[dict[bytes | None, bytes]]:
    """Return the latest values for consumers of both kinds."""
    keys = {record.offset: record.key for record in log.records()}
    committed = [(keys[at], value) for at, value in read_committed(log, log.end_offset)]
    return [table(committed)]


def producers(log: PartitionLog) -> dict[int, tuple[Any, ...]]:
    """Return what is known of producers."""
    return {
        producer_id: (state.epoch, state.last_sequence, state.transaction_start, *state.batches)
        for producer_id, state in log.producers.items()
    }


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run some work in a process that dies before its n-th change of a file; False if it ends."""
    child = os.fork()
    if child == 0:
        steps = 0

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **keywords: Any) -> Any:
                nonlocal steps
                if steps == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                steps += 1
                return function(*arguments, **keywords)

            return call

        for name in ("pwrite", "fsync", "ftruncate", "rename", "replace", "unlink"):
            setattr(os, name, counted(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_nothing_is_lost_wherever_the_process_dies(tmp_path: Path, stride: int) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "t-0"
    write_log(whole)
    shutil.copytree(whole, folder)
    log = open_log(folder)
    expected, known, end = tables(log), producers(log), log.end_offset
    epochs = [log.end_offset_for_epoch(epoch) for epoch in range(4)]
    records = len(left(log))
    log.close()
    step = 0
    lengths = set()
    while killed_at(step, lambda: compact(open_log(folder), now_ms=NOW)):
        log = open_log(folder)
        assert not list(folder.glob("*.cleaned"))
        assert (tables(log), producers(log), log.end_offset) == (expected, known, end)
        assert [log.end_offset_for_epoch(epoch) for epoch in range(4)] == epochs
        lengths.add(len(left(log)))
        # What was left half done is no obstacle to the next pass.
        compact(log, now_ms=NOW + 1)
        assert tables(log) == expected
        assert len(left(log)) < records // 2
        log.close()
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        step += stride
        assert step < MOST_STEPS
    assert step > 10
    # It died before, between and after the segments' replacement.
    assert {records, min(lengths)} < lengths
