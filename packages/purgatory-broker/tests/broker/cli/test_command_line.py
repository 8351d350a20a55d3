"""Help, usage errors, suggestions and exit codes of `purgatory-broker`."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from cyclopts import Parameter

from purgatory_broker._cli.control import control_commands
from purgatory_broker.cluster._commands.cluster_commands import COMMANDS as CLUSTER_COMMANDS
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.settings import ClusterSettings
from purgatory_broker_command import COMMANDS, main
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.settings_options import FieldsOf
from request_purgatory import __compiled__, __version__


def test_table_has_each_command_of_a_cluster_in_its_order() -> None:
    names = [name.replace("_", "-") for name in control_commands()]
    assert list(COMMANDS) == ["serve", *names]
    assert {*control_commands(), "bootstrap_servers"} == set(CLUSTER_COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_line_of_the_table_is_the_docstrings_first(name: str) -> None:
    module = importlib.import_module(
        f"purgatory_broker._cli.{'serve' if name == 'serve' else 'control'}"
    )
    docstring = inspect.getdoc(getattr(module, name.replace("-", "_")))
    assert docstring is not None
    assert docstring.splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_each_command(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([name, "--help"]) == ExitCode.OK
    printed, errors = capsys.readouterr()
    assert errors == ""
    assert f"Usage: purgatory-broker {name}" in printed
    assert COMMANDS[name].replace("`", "") in printed


@pytest.mark.parametrize("name", COMMANDS)
def test_help_on_80_columns_breaks_no_option_and_names_no_python_value(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = []
    for columns in ("400", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        main([name, "--help"])
        printed = capsys.readouterr().out
        options.append(set(re.findall(r"--[\w-]+", printed)))
        assert "None" not in printed
    assert options[0] == options[1]
    assert options[0]


def test_help_of_serve_has_headings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["serve", "--help"])
    panels = re.split(r"\n╭─ ", capsys.readouterr().out)
    (topics,) = [panel for panel in panels if panel.startswith("Topics and replication")]
    assert "--num-partitions" in topics
    assert "--ssl-client-auth" not in topics
    assert max(panel.count("│ --") for panel in panels) < 20


def test_help_of_a_command_is_its_whole_docstring(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["pause-replication", "--help"])
    assert "After replica_lag_time_max_ms it leaves" in capsys.readouterr().out


def test_list_of_commands_imports_neither_kafka_python_nor_the_cluster() -> None:
    script = (
        "import sys; from purgatory_broker_command import main; main(['--help']); main(['srve']); "
        "sys.exit('purgatory_broker' in sys.modules or 'kafka' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert ran.returncode == 0


def test_module_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "purgatory_broker", "srve"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == ExitCode.BAD_INPUT
    assert ran.stderr == "purgatory-broker: unknown command 'srve'; did you mean 'serve'?\n"


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version_names_the_build(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == ExitCode.OK
    build = "compiled" if __compiled__ else "interpreted"
    assert capsys.readouterr().out.startswith(f"purgatory-broker {__version__}, core {build}")


def test_exit_code_is_a_plain_number() -> None:
    assert isinstance(main(["--version"]), int)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pause"], "unknown command 'pause'; did you mean 'pause-replication'?"),
        (["zzz"], "unknown command 'zzz'; known: serve, create-topic, describe-topic"),
        (["serve", "--note", "3"], "Unknown option: --note. Did you mean --nodes?"),
        (["kill"], 'Command "kill" parameter NODE requires an argument.'),
    ],
)
def test_usage_errors_name_the_value(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == ExitCode.BAD_INPUT
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert errors.startswith("purgatory-broker: ")
    assert errors.count("\n") == 1
    assert message in errors


def test_missing_command_is_answered_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.BAD_INPUT
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert errors.startswith("Usage: purgatory-broker COMMAND")
    assert errors.endswith("purgatory-broker: a command is required\n")


def test_completion_is_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert main(["--install-completion", "--shell", "bash"]) == ExitCode.OK
    script = tmp_path / ".local/share/bash-completion/completions/purgatory-broker"
    text = script.read_text()
    assert "--min-insync-replicas" in text
    assert "pause-replication" in text


def test_client_has_each_command_as_a_method() -> None:
    for name in control_commands():
        method = getattr(ClusterClient, name)
        assert inspect.signature(method) == inspect.signature(CLUSTER_COMMANDS[name])
        assert method.__doc__ == CLUSTER_COMMANDS[name].__doc__


def test_every_field_of_the_settings_has_a_help_text() -> None:
    helps = {
        option.name: Parameter.combine(*option.annotation.__metadata__).help
        for option in FieldsOf(ClusterSettings).parameters(0)
    }
    assert [name for name, text in helps.items() if not text] == []
    assert set(helps) == {field.name for field in fields(ClusterSettings)}


def test_failure_of_the_surroundings_is_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--control", "127.0.0.1:1"]) == ExitCode.FAILED
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_unforeseen_failure_is_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purgatory_broker._cli.serve._serve", _raise(ZeroDivisionError("zero")))
    assert main(["serve"]) == ExitCode.FAILED
    errors = capsys.readouterr().err
    assert errors == "purgatory-broker: ZeroDivisionError: zero\n(-v shows the traceback)\n"


def test_ctrl_c_is_interrupted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purgatory_broker._cli.serve._serve", _raise(KeyboardInterrupt()))
    assert main(["serve"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "purgatory-broker: interrupted; no partial output is left\n"


def _raise(error: BaseException) -> Callable[..., object]:
    """Return a function that raises an error."""

    def fail(*_: object, **__: object) -> object:
        raise error

    return fail
