"""Help, usage errors and suggestions."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from purgatory_command import COMMANDS, make_app
from purgatory_command_line.exit_codes import ExitCode
from request_purgatory import __compiled__, __version__
from tests.spark.command import Purgatory

WORDS = [entry.name for entry in COMMANDS]


@pytest.mark.parametrize("entry", COMMANDS, ids=WORDS)
def test_help_describes_each_command(
    entry: object, purgatory: Purgatory, no_session: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ran = purgatory(entry.name, "--help")
    assert (ran.code, ran.err) == (ExitCode.OK, "")
    assert f"Usage: purgatory {entry.name}" in ran.out
    assert entry.help in ran.out
    if entry.example:
        assert f"Example: purgatory {entry.example}" in ran.out


@pytest.mark.parametrize("entry", COMMANDS, ids=WORDS)
def test_examples_in_the_help_have_known_options(entry: object) -> None:
    app = make_app()
    if entry.example:
        word, *arguments = entry.example.split()
        known = {name for each in app[word].assemble_argument_collection() for name in each.names}
        assert {each for each in arguments if each.startswith("--")} <= known


@pytest.mark.parametrize("entry", COMMANDS, ids=WORDS)
def test_help_in_the_table_is_the_docstrings_first_line(entry: object) -> None:
    module, name = entry.target.split(":")
    function = getattr(importlib.import_module(f"purgatory_spark._cli.{module}"), name)
    assert inspect.getdoc(function).splitlines()[0] == entry.help


def test_list_of_commands_imports_no_spark() -> None:
    script = (
        "import sys; from purgatory_command import main; main(['--help']); "
        "main(['repaly']); sys.exit('pyspark' in sys.modules or 'purgatory_spark' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert ran.returncode == 0


def test_module_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "purgatory_spark", "repaly"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == ExitCode.BAD_INPUT
    assert ran.stderr == "purgatory: unknown command 'repaly'; did you mean 'replay'?\n"


def test_version_names_the_build(purgatory: Purgatory) -> None:
    ran = purgatory("--version")
    assert ran.code == ExitCode.OK
    build = "compiled" if __compiled__ else "interpreted"
    assert ran.out.startswith(f"purgatory-spark {__version__}, core {build}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["repaly"], "unknown command 'repaly'; did you mean 'replay'?"),
        (["zzz"], "unknown command 'zzz'; known: run, quick, workload, import, replay, analyze"),
        (["replay", "x", "--ot", "y"], "Did you mean --out instead of --ot?"),
        (["replay", "--out", "y"], 'Command "replay" parameter TRACE requires an argument.'),
        (["replay", "x"], 'Command "replay" parameter --out requires an argument.'),
        (
            ["replay", "x", "--design", "heap", "--out", "y"],
            'Invalid value "heap" for --design. Choose from: "wheel", "legacy".',
        ),
        (["replay", "x", "--tick-ms", "1.5", "--out", "y"], "expected a whole number, got '1.5'"),
        (["workload", "--requests", "none", "--out", "x"], "expected a whole number, got 'none'"),
        (["workload", "--requests", "0", "--out", "x"], "requests must be at least 1, got 0"),
        (
            ["run", "--timeouts", "5,soon"],
            "expected whole numbers of milliseconds with commas between them, got '5,soon'",
        ),
        (["run", "--timeouts", "-1"], "each from 0 to 2,147,483,647, got '-1'"),
        (["run", "--timeouts", "1,2147483648"], "each from 0 to 2,147,483,647"),
        (["run", "--workload"], "--workload requires at least 1 element"),
        (["run", "--workload", "medium"], 'Invalid value "medium" for --workload'),
        (["run", "--max-worker-mb", "0"], "expected at least 1, got 0"),
        (
            ["import", "x", "--map", "arrived_at", "--out", "y"],
            "expected FIELD=COLUMN, got 'arrived_at'",
        ),
        (["import", "hdfs://x/y", "--out", "y"], "write FORMAT:hdfs://x/y with one of csv, json"),
        (["report", "s3://x", "--out", "y"], "expected a path of this machine's file system"),
    ],
)  # fmt: skip
def test_usage_errors_name_the_value(
    arguments: list[str], message: str, purgatory: Purgatory, no_session: None
) -> None:
    ran = purgatory(*arguments)
    assert (ran.code, ran.out) == (ExitCode.BAD_INPUT, "")
    assert ran.err.startswith("purgatory: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err


def test_missing_command_is_answered_with_the_help(purgatory: Purgatory) -> None:
    ran = purgatory()
    assert (ran.code, ran.out) == (ExitCode.BAD_INPUT, "")
    assert ran.err.startswith("Usage: purgatory COMMAND")
    assert ran.err.endswith("purgatory: a command is required\n")


def test_password_is_not_in_the_message(purgatory: Purgatory, no_session: None) -> None:
    ran = purgatory(
        "stream", "a", "b", "--out", "c", "--checkpoint", "d", "--kafka-option", "secret"
    )
    assert ran.code == ExitCode.BAD_INPUT
    assert "expected NAME=VALUE" in ran.err
    assert "secret" not in ran.err


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_is_respected(no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    if no_color:
        environment["NO_COLOR"] = "1"
    ran = subprocess.run(
        [sys.executable, "-m", "purgatory_spark", "--help"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    colors = [f"\x1b[{number}m" for number in range(30, 38)]
    assert any(color in ran.stdout for color in colors) is not no_color


def test_completion_is_installed(
    purgatory: Purgatory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    ran = purgatory("--install-completion", "--shell", "bash")
    assert ran.code == ExitCode.OK
    script = tmp_path / ".local/share/bash-completion/completions/purgatory"
    text = script.read_text()
    assert "--watermark-delay-ms" in text
    assert "stream-state" in text


def test_messages_are_written_by_one_function() -> None:
    folder = Path(importlib.import_module("purgatory_spark._cli").__file__).parent
    for file in [*folder.glob("*.py"), folder.parents[1] / "purgatory_command.py"]:
        writes = [
            node
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.keyword) and node.arg == "file"
        ]
        assert not writes, file.name
