"""Logging of caught exceptions, also if logging itself fails."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from request_purgatory._native.failsafe import log_contained
from tests.support.requests import Fault

logger = logging.getLogger("tests.contained")


class Broken:
    """A stream that can't be written to."""

    def write(self, text: str) -> None:
        raise OSError


def refuse(error: type[BaseException]) -> logging.Filter:
    """Return a filter that raises."""

    class Refusing(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise error

    return Refusing()


@pytest.fixture
def refusing(request: pytest.FixtureRequest) -> Iterator[object]:
    """Make the application's filter raise the test's parameter."""
    chosen = refuse(request.param)
    logger.addFilter(chosen)
    yield request.param
    logger.removeFilter(chosen)


def test_caught_exception_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """As any logged exception."""
    log_contained(logger, Fault("reason"), "%s raised", "it")
    assert "it raised" in caplog.text
    assert "Fault: reason" in caplog.text


def test_value_whose_repr_raises_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """The record is written all the same."""

    class Unprintable:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    log_contained(logger, Fault("reason"), "%s and %r raised", Unprintable(), "it")
    assert "<Unprintable whose repr raises ZeroDivisionError> and 'it' raised" in caplog.text
    assert "Fault: reason" in caplog.text


@pytest.mark.parametrize(
    "refusing", [ZeroDivisionError, RecursionError, MemoryError], indirect=True
)
def test_logging_that_fails_leaves_one_line_on_stderr(
    refusing: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    """It raises no exception."""
    log_contained(logger, Fault(), "%s raised", "it")
    expected = f"raised Fault, and logging it raised {refusing.__name__}"
    assert capsys.readouterr().err == f"tests.contained: '%s raised': {expected}\n"


@pytest.mark.parametrize("refusing", [ZeroDivisionError], indirect=True)
def test_failing_stderr_is_ignored(
    refusing: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception is suppressed, and the caller continues."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Broken())
        log_contained(logger, Fault(), "%s raised", "it")


@pytest.mark.parametrize("refusing", [KeyboardInterrupt, SystemExit], indirect=True)
def test_exit_while_logging_propagates(refusing: type[BaseException]) -> None:
    """KeyboardInterrupt and SystemExit propagate."""
    with pytest.raises(refusing):
        log_contained(logger, Fault(), "%s raised", "it")
