"""Tests of what a failed test says of its child process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.spark.job import job


def test_missing_line_shows_the_first_cause(tmp_path: Path) -> None:
    """An exception in the output and another one early in a log are not hidden by what follows."""
    for name, text in (("0", "no space\n"), ("1", "")):
        folder = tmp_path / "spark" / "work" / "app-1" / name
        folder.mkdir(parents=True)
        (folder / "stderr").write_text(f"Spark Executor Command: java\n{'=' * 40}\n\n{text}")
    program = (
        "import sys; print('started'); print('first log line', file=sys.stderr); "
        "print('shutdown\\n' * 2_000, file=sys.stderr); print('ValueError'); sys.exit(7)"
    )
    with job([sys.executable, "-c", program], tmp_path / "log") as running:
        assert running.wait_for_line("start") == "started\n"
        with pytest.raises(pytest.fail.Exception) as failed:
            running.wait_for_line("found: ")
    said = str(failed.value)
    assert said.startswith("ended without a line 'found: ': exit code 7\n--- output:\nstarted\n")
    assert "ValueError\n--- log:\nfirst log line\nshutdown\n" in said
    assert "characters left out]" in said
    assert said.endswith("/app-1/0/stderr:\nno space")


def test_forked_child_is_not_found_by_its_parents_arguments(tmp_path: Path) -> None:
    program = (
        "import os, sys, time; child = os.fork(); child and print('forked', child, flush=True); "
        "time.sleep(300)"
    )
    with job([sys.executable, "-c", program, "a JVM"], tmp_path / "log") as running:
        child = int(running.wait_for_line("forked").split()[1])
        assert os.getpgid(child) == running.process.pid
        assert running.find_pids(b"a JVM") == [running.process.pid]
