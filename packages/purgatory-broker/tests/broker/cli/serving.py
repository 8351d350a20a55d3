"""A cluster that `purgatory-broker serve` runs, and commands on it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from purgatory_broker_command import main
from purgatory_command_line.exit_codes import ExitCode

TIME_LIMIT = 60.0
SERVE = (
    *(sys.executable, "-m", "purgatory_broker", "serve"),
    *("--port", "0", "--control", "0"),
)


@contextmanager
def served_cluster(*options: str) -> Iterator[tuple[list[str], str]]:
    """Run `purgatory-broker serve`; return the nodes' addresses and the control address."""
    process = subprocess.Popen(
        [*SERVE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        addresses = process.stdout.readline().removeprefix("bootstrap servers: ").strip()
        control = re.search(r"control: (\S+);", process.stdout.readline())
        assert control is not None, addresses
        yield addresses.split(","), control.group(1)
    finally:
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=TIME_LIMIT)
    assert (process.returncode, errors) == (ExitCode.INTERRUPTED, "")
    assert "purgatories" in printed


def run_command(capsys: pytest.CaptureFixture[str], control: str, *arguments: str) -> Any:
    """Run a command on a served cluster, and return its result."""
    assert main([*arguments, "--control", control, "--json"]) == 0
    printed = capsys.readouterr().out
    return json.loads(printed) if printed else None
