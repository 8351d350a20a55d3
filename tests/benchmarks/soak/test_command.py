"""The command `python -m benchmarks.soak`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

TIME_LIMIT = 60.0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_interrupted_campaign_writes_its_result(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", "1", "--seed", "5"]
    out = tmp_path / "out"
    with subprocess.Popen(
        [*command, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell ignores Ctrl-C in what it runs in the background, these tests perhaps.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        late = threading.Timer(TIME_LIMIT, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            printed: list[str] = []
            for line in process.stdout:
                printed.append(line)
                if " operations, " in line:
                    break
            process.send_signal(signal.SIGINT)
            log = "".join([*printed, process.stdout.read()])
            code = process.wait(TIME_LIMIT)
        finally:
            late.cancel()
            process.kill()
    assert code == 0, log
    assert "stopping after the present round" in log
    (result,) = out.glob("*.json")
    written = json.loads(result.read_text())
    assert (written["seed"], written["problems"]) == (5, [])
