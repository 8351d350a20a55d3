"""Counting the instructions of the core's operations."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

import pytest

from benchmarks import instructions
from benchmarks.instructions import LOOPS, RECORD, Counts, count, find_record, grown, main

COUNTS = {name: 1000.0 * (place + 1) for place, name in enumerate(LOOPS)}


@pytest.mark.parametrize("name", LOOPS)
def test_loop_leaves_nothing_undone(name: str) -> None:
    LOOPS[name](10)


def test_records_have_every_loop() -> None:
    for record in json.loads(RECORD.read_text()):
        assert set(record["counts"]) == set(LOOPS)


def test_growth_is_found_beyond_the_tolerance() -> None:
    recorded = dict(COUNTS)
    del recorded["pair"]
    counts = COUNTS | {"add": COUNTS["add"] * 1.04, "published": COUNTS["published"] * 1.02}
    counts |= {"cycle, 1 key": 1.0, "pair": 1e9}
    assert grown(counts, recorded) == ["add"]


@pytest.mark.parametrize(
    ("python", "share", "found"),
    [
        (platform.python_version(), 1.005, True),
        (platform.python_version(), 1.02, False),
        ("3.0.0", 1.0, False),
    ],
    ids=["the same", "another build", "another version"],
)
def test_record_of_the_interpreter_is_found(python: str, share: float, found: bool) -> None:
    record = {"python": python, "counts": {**COUNTS, "reference": COUNTS["reference"] * share}}
    assert (find_record([record], COUNTS) is not None) is found


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the command a record of its own, and counts that cost no time."""
    file = tmp_path / "recorded.json"
    monkeypatch.setattr(instructions, "RECORD", file)
    monkeypatch.setattr(instructions, "count_all", lambda _: dict(COUNTS))
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/valgrind")
    return file


def test_command_records_and_compares(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 0
    assert "no record to compare with" in capsys.readouterr().out
    assert main(["--record"]) == main(["--record"]) == 0
    assert len(json.loads(record.read_text())) == 1
    assert main([]) == 0
    larger: Counts = COUNTS | {"add": COUNTS["add"] * 2}
    monkeypatch.setattr(instructions, "count_all", lambda _: larger)
    assert main([]) == 1
    assert "more than 3% above the record: add" in capsys.readouterr().out


def test_missing_valgrind_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert main([]) == 2
    assert "apt-get install valgrind" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_counts_are_repeatable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    first, second = (count("pair", 1_000) for _ in range(2))
    assert first == pytest.approx(second, rel=1e-3)
    with pytest.raises(RuntimeError, match="invalid choice: 'nothing'"):
        count("nothing", 1)
