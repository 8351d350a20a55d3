"""Running a command line: exit codes, and one line on standard error for what fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

import pytest
from cyclopts import App, Parameter

from purgatory_command_line.command import command
from purgatory_command_line.converters import LocalPath, whole_number
from purgatory_command_line.entry_point import run
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.output import OutputOptions


def describe(error: Exception) -> tuple[ExitCode, str]:
    return ExitCode.BAD_INPUT, f"described: {error}"


def make_app(act: Callable[[], object] = lambda: None) -> App:
    app = App(name="some", version="1")

    @command(describe)
    def double(
        number: Annotated[int, Parameter(converter=whole_number)],
        *,
        into: LocalPath | None = None,
        output: OutputOptions,
    ) -> ExitCode:
        act()
        output.print_result({"doubled": 2 * number, "into": into})
        output.console.print(f"doubled: {2 * number}")
        return ExitCode.OK

    app.command(double)
    return app


def test_result_is_printed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(make_app(), ["double", "1_000"]) == ExitCode.OK
    assert capsys.readouterr() == ("doubled: 2000\n", "")


def test_result_as_json_is_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(make_app(), ["double", "2", "--into", "a", "--json"]) == ExitCode.OK
    printed, errors = capsys.readouterr()
    assert json.loads(printed) == {"doubled": 4, "into": "a"}
    assert errors == "doubled: 4\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dubble", "2"], "unknown command 'dubble'; did you mean 'double'?"),
        (["triple", "2"], "unknown command 'triple'; known: double"),
        (["double", "1.5"], "expected a whole number, got '1.5'"),
        (["double", "2", "--into", "s3://a/b"], "expected a path of this machine's file system"),
        ([], "a command is required"),
    ],
)
def test_wrong_command_line_is_bad_input(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(make_app(), arguments) == ExitCode.BAD_INPUT
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("three"), ExitCode.BAD_INPUT, "described: three"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted; no partial output is left"),
        (
            ModuleNotFoundError("none", name="spam.eggs"),
            ExitCode.MISSING_DEPENDENCY,
            "the Python package 'spam' is not installed",
        ),
    ],
)
def test_failure_is_one_line_and_an_exit_code(
    error: BaseException, code: ExitCode, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    assert run(make_app(fail), ["double", "2"]) == code
    assert capsys.readouterr().err == f"some: {message}\n"
