"""The command `python -m benchmarks.soak`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TIME_LIMIT = 60.0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_interrupted_campaign_writes_its_result(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "1", "--seed", "5"]
    out, log = tmp_path / "out", tmp_path / "log"
    with (
        log.open("w") as file,
        subprocess.Popen(
            [*command, "--out", str(out)],
            stdout=file,
            stderr=file,
            # A shell ignores Ctrl-C in what it runs in the background, these tests perhaps.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process,
    ):
        try:
            began = time.monotonic()
            while " operations, " not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() - began < TIME_LIMIT
                time.sleep(0.05)  # Another process's output can't be awaited.
            process.send_signal(signal.SIGINT)
            code = process.wait(TIME_LIMIT)
        finally:
            process.kill()
    assert code == 0, log.read_text()
    assert "stopping after the present round" in log.read_text()
    (result,) = out.glob("*.json")
    written = json.loads(result.read_text())
    assert (written["seed"], written["problems"]) == (5, [])
