"""Each exit code, where it needs no Spark session."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from purgatory_command import main
from purgatory_command_line.exit_codes import ExitCode
from tests.spark.command import Purgatory

CLI_PAGE = Path(__file__).parents[5] / "docs" / "reference" / "command.md"


def forget(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """Have modules imported anew."""
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        monkeypatch.delitem(sys.modules, name)


def test_page_on_the_command_lists_each_exit_code() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", CLI_PAGE.read_text(encoding="utf-8"), re.M)
    assert {(int(number), name) for number, name in rows} == {
        (code.value, code.name) for code in ExitCode
    }


def test_unforeseen_failure_is_failed(
    purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    purgatory("replay", "--help")
    monkeypatch.setattr(
        "purgatory_spark._cli.traces.TraceFolder", _raise(ZeroDivisionError("zero"))
    )
    ran = purgatory("replay", "x", "--out", "y")
    assert ran.code == ExitCode.FAILED
    assert ran.err == "purgatory: ZeroDivisionError: zero\n(-v shows the traceback)\n"


def test_ctrl_c_is_interrupted(purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch) -> None:
    purgatory("replay", "--help")
    monkeypatch.setattr("purgatory_spark._cli.traces.TraceFolder", _raise(KeyboardInterrupt()))
    ran = purgatory("replay", "x", "--out", "y")
    assert ran.code == ExitCode.INTERRUPTED
    assert ran.err == "purgatory: interrupted; no partial output is left\n"


def test_missing_package_is_named(purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    forget(monkeypatch, "purgatory_spark")
    ran = purgatory("report", "x", "--out", "y")
    assert ran.code == ExitCode.MISSING_DEPENDENCY
    assert "the Python package 'pyspark' is not installed" in ran.err
    assert purgatory("--help").code == ExitCode.OK


def test_exit_code_is_a_plain_number() -> None:
    assert main(["--version"]) == 0
    assert isinstance(main(["--version"]), int)


def _raise(error: BaseException) -> Callable[..., object]:
    """Return a function that raises an error."""

    def fail(*_: object, **__: object) -> object:
        raise error

    return fail
