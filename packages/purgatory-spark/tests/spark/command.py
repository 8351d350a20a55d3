"""Runs the command in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from purgatory_command import main


class Ran(NamedTuple):
    """The exit code of a run of the command, and what it printed."""

    code: int
    out: str
    err: str


Purgatory = Callable[..., Ran]


def command_runner(capsys: pytest.CaptureFixture[str]) -> Purgatory:
    """Return a function that runs the command with its arguments."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run
