"""A process that is killed while it appends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, append, batch
from tests.broker.log.transactions import end, read_committed

ROOT = Path(__file__).parents[3]


def killed_after(lines: int, folder: Path, kind: str) -> list[bytes]:
    """Return the lines of an appender that is killed once it has printed some."""
    command = [sys.executable, "-m", "tests.broker.log.appender", str(folder), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(lines + 1)]
        process.kill()
        rest = process.stdout.read()
    assert printed[0] == b"ready\n"
    return (b"".join(printed[1:]) + rest).split(b"\n")[:-1]


@pytest.mark.parametrize("appends", [1, 100, 1_500, 3_001])
def test_every_reported_append_survives_a_kill(tmp_path: Path, appends: int) -> None:
    reported = [int(line) for line in killed_after(appends, tmp_path / "log", "batches")]
    assert len(reported) >= appends
    log = PartitionLog.open("t-0", tmp_path / "log", LogSettings(segment_bytes=200_000))
    log.check()
    assert log.end_offset > reported[-1]
    ends = {header.last_offset for header, _ in log.batches()}
    assert ends.issuperset(reported)
    for record in log.records():
        assert record.value is not None
        assert record.offset >= int(record.value[: len(record.value) // 50])
    sequence = log.end_offset
    assert (
        log.append_as_leader(batch(b"more", producer=(3, 0, sequence)), 99, NOW).base_offset
        == sequence
    )
    assert append(log, epoch=99) == sequence + 1
    log.close()


@pytest.mark.parametrize("markers", [1, 40, 700])
def test_every_reported_marker_survives_a_kill(tmp_path: Path, markers: int) -> None:
    lines = killed_after(markers, tmp_path / "log", "transactions")
    reported = [tuple(map(int, line.split())) for line in lines]
    log = PartitionLog.open("t-0", tmp_path / "log", LogSettings(segment_bytes=20_000))
    log.check()
    # All of a transaction is committed or nothing, and what has no marker is not read.
    first_marker: dict[int, list[tuple[int, int]]] = {}
    for offset, producer_id, is_commit in reported:
        first_marker.setdefault(producer_id, []).append((offset, is_commit))
    log.replicated(log.end_offset)
    read = dict(read_committed(log, log.end_offset, max_bytes=10_000))
    unstable = log.first_unstable_offset
    stable = log.end_offset if unstable is None else unstable
    assert stable > reported[-1][0] - 200
    for header, batch_ in log.batches():
        if header.is_control or header.base_offset >= stable:
            continue
        markers_after = [
            is_commit
            for offset, is_commit in first_marker.get(header.producer_id, [])
            if offset > header.base_offset
        ]
        assert not markers_after or (header.base_offset in read) == bool(markers_after[0]), batch_
    for producer_id in (3, 4, 5):
        end(log, commit=False, producer_id=producer_id)
    log.replicated(log.end_offset)
    assert log.first_unstable_offset is None
    log.check()
    log.close()
