"""Logging what was contained, where logging fails as well."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from request_purgatory._native.failsafe import log_contained
from tests.support.requests import Fault

logger = logging.getLogger("tests.contained")


class Broken:
    """A stream that can't be written."""

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
    """Make the application's filter raise what the test is parametrized with."""
    chosen = refuse(request.param)
    logger.addFilter(chosen)
    yield request.param
    logger.removeFilter(chosen)


def test_what_was_contained_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """As every error."""
    log_contained(logger, Fault("reason"), "%s raised", "it")
    assert "it raised" in caplog.text
    assert "Fault: reason" in caplog.text


@pytest.mark.parametrize(
    "refusing", [ZeroDivisionError, RecursionError, MemoryError], indirect=True
)
def test_logging_that_fails_leaves_one_line_on_stderr(
    refusing: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    """And raises nothing."""
    log_contained(logger, Fault(), "%s raised", "it")
    assert (
        capsys.readouterr().err
        == f"tests.contained: '%s raised': raised Fault, and logging it raised {refusing.__name__}\n"
    )


@pytest.mark.parametrize("refusing", [ZeroDivisionError], indirect=True)
def test_stderr_that_fails_too_is_the_end_of_it(
    refusing: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No place is left; the work that was under way goes on."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Broken())
        log_contained(logger, Fault(), "%s raised", "it")


@pytest.mark.parametrize("refusing", [KeyboardInterrupt, SystemExit], indirect=True)
def test_exit_while_logging_is_not_contained(refusing: type[BaseException]) -> None:
    """The program is to end."""
    with pytest.raises(refusing):
        log_contained(logger, Fault(), "%s raised", "it")
