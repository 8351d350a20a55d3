"""Fixtures for tests of the command."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tests.spark.command import Purgatory, command_runner


@pytest.fixture
def purgatory(capsys: pytest.CaptureFixture[str]) -> Purgatory:
    """Return a function that runs the command with its arguments."""
    return command_runner(capsys)


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test in which a command asks for a Spark session."""

    def refuse(*_: object, **__: object) -> NoReturn:
        pytest.fail("a Spark session was asked for")

    monkeypatch.setattr("purgatory_spark._cli.session.open_session", refuse)
