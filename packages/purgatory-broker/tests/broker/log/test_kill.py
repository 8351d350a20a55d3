"""A process that is killed while it appends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, append, batch

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("appends", [1, 100, 1_500, 3_001])
def test_every_reported_append_survives_a_kill(tmp_path: Path, appends: int) -> None:
    command = [sys.executable, "-m", "tests.broker.log.appender", str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(appends + 1)]
        process.kill()
        rest = process.stdout.read()
    assert lines[0] == b"ready\n"
    reported = [int(line) for line in (b"".join(lines[1:]) + rest).split(b"\n")[:-1]]
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
