"""Each exit code, where it needs no Spark session."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from request_purgatory.extras import install_command
from tests.spark.command import Purgatory

from purgatory_spark.cli import app
from purgatory_spark.cli.main import main
from request_purgatory.command_line.exit_codes import ExitCode

CLI_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command.md"


def forget(monkeypatch: pytest.MonkeyPatch, prefix: str, but: tuple[str, ...] = ()) -> None:
    """Have modules imported anew."""
    for name in [name for name in sys.modules if name.startswith(prefix) and name not in but]:
        monkeypatch.delitem(sys.modules, name)


def test_page_on_the_command_lists_each_exit_code() -> None:
    """With the number and the name's meaning."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", CLI_PAGE.read_text(encoding="utf-8"), re.M)
    assert {(int(number), name) for number, name in rows} == {
        (code.value, code.name) for code in ExitCode
    }


def test_failure_of_the_surroundings_is_failed(purgatory: Purgatory) -> None:
    """Here no cluster listens."""
    ran = purgatory("broker", "metrics", "--address", "127.0.0.1:1")
    assert ran.code == ExitCode.FAILED
    assert "127.0.0.1:1" in ran.err


@pytest.mark.parametrize("arguments", [("replay", "x", "--out", "y"), ("broker", "serve")])
def test_unforeseen_failure_is_failed(
    arguments: tuple[str, ...], purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line with the error's type; -v shows where."""
    purgatory(arguments[0], "--help")
    monkeypatch.setattr("purgatory_spark.cli.traces.TraceFolder", _raise(ZeroDivisionError("zero")))
    monkeypatch.setattr("purgatory_broker.cli.app._serve", _raise(ZeroDivisionError("zero")))
    ran = purgatory(*arguments)
    assert ran.code == ExitCode.FAILED
    assert ran.err == "purgatory: ZeroDivisionError: zero\n(-v shows the traceback)\n"


@pytest.mark.parametrize("arguments", [("replay", "x", "--out", "y"), ("broker", "serve")])
def test_ctrl_c_is_interrupted(
    arguments: tuple[str, ...], purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any command."""
    purgatory(arguments[0], "--help")
    monkeypatch.setattr("purgatory_spark.cli.traces.TraceFolder", _raise(KeyboardInterrupt()))
    monkeypatch.setattr("purgatory_broker.cli.app._serve", _raise(KeyboardInterrupt()))
    ran = purgatory(*arguments)
    assert ran.code == ExitCode.INTERRUPTED
    assert ran.err == "purgatory: interrupted; no partial output is left\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["run"], ["broker", "serve"]])
def test_core_alone_says_which_extra_to_install(
    arguments: list[str], purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, whatever the arguments."""
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    forget(monkeypatch, "purgatory_spark.cli.", ("purgatory_spark.cli.main",))
    ran = purgatory(*arguments)
    assert (ran.code, ran.out) == (ExitCode.MISSING_DEPENDENCY, "")
    assert ran.err.count("\n") == 1
    assert install_command("spark") in ran.err
    assert "or [broker]" in ran.err


@pytest.mark.parametrize(
    ("package", "extra", "arguments", "other"),
    [
        ("pyspark", "spark", ["run", "--requests", "5"], ["broker", "--help"]),
        ("kafka", "broker", ["broker", "serve", "--nodes", "3"], ["replay", "--help"]),
    ],
)
def test_missing_extra_is_named(
    package: str,
    extra: str,
    arguments: list[str],
    other: list[str],
    purgatory: Purgatory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the other extra's commands work without it."""
    purgatory(*other)
    monkeypatch.setitem(sys.modules, package, None)
    ran = purgatory(*arguments)
    assert ran.code == ExitCode.MISSING_DEPENDENCY
    assert install_command(extra) in ran.err
    assert purgatory(*other).code == ExitCode.OK
    assert purgatory("--help").code == ExitCode.OK


def test_package_that_is_missing_later_is_named(
    purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an extra is installed in part."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    forget(monkeypatch, "benchmarks.published_runs.command")
    forget(monkeypatch, "purgatory_spark.analysis.report")
    ran = purgatory("bench", "--out", "x")
    assert ran.code == ExitCode.MISSING_DEPENDENCY
    assert f"'jinja2' is not installed: {install_command('spark')}" in ran.err


def test_recording_without_pyarrow_is_a_missing_dependency(
    purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The broker's own extra does not have it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(app, "_is_installed", lambda _extra: True)
    ran = purgatory("broker", "serve", "--record", tmp_path / "record")
    assert ran.code == ExitCode.MISSING_DEPENDENCY
    assert "pyarrow" in ran.err


def test_exit_code_is_a_plain_number() -> None:
    """So `sys.exit` takes it."""
    assert main(["--version"]) == 0
    assert isinstance(main(["--version"]), int)


def _raise(error: BaseException) -> Callable[..., object]:
    """Return a function that raises an error."""

    def fail(*_: object, **__: object) -> object:
        raise error

    return fail
