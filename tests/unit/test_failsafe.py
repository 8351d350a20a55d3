"""Logging of caught exceptions, also if logging itself fails."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from request_purgatory._native.failsafe import ErrorLog, log_contained
from tests.support.hostile_errors import HOSTILE_ERRORS
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


class Operation:
    """What an error is logged with."""

    def __repr__(self) -> str:
        return "<operation>"


def raised_by(error: Exception, code: str = "raise error") -> Exception:
    """Return an error that was raised by a line of code of its own."""
    try:
        exec(code, {"error": error})
    except Exception as caught:
        return caught
    raise AssertionError("the code raises")


def test_kind_that_repeats_is_logged_at_powers_of_ten(caplog: pytest.LogCaptureFixture) -> None:
    """The first with its traceback, the others as one line with the number."""
    errors = ErrorLog(logger)
    for number in range(1, 1101):
        errors.log(raised_by(Fault(f"reason {number}")), "%s raised", Operation())
    assert [record.getMessage() for record in caplog.records] == [
        "<operation> raised",
        *(
            f"<operation> raised: Fault('reason {number}') "
            f"(number {number} of its kind; the first one has a traceback)"
            for number in (10, 100, 1000)
        ),
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False, False]
    assert {record.levelname for record in caplog.records} == {"ERROR"}


def test_kind_is_the_event_the_exception_and_its_line(caplog: pytest.LogCaptureFixture) -> None:
    """What differs in one of them has a traceback of its own."""
    errors = ErrorLog(logger)
    for _ in range(3):
        errors.log(raised_by(Fault()), "%s raised", Operation())
        errors.log(raised_by(Fault()), "%s raised", object())
        errors.log(raised_by(Fault()), "%s failed", Operation())
        errors.log(raised_by(ValueError()), "%s raised", Operation())
        errors.log(raised_by(Fault(), "\nraise error"), "%s raised", Operation())
        errors.log(Fault(), "%s raised", Operation())
    assert len([record for record in caplog.records if record.exc_info]) == 6
    assert len(caplog.records) == 6


def test_kinds_beyond_the_limit_count_as_one(caplog: pytest.LogCaptureFixture) -> None:
    """So a program that raises from ever new lines does not fill the memory, or the log."""
    errors = ErrorLog(logger)
    for line in range(ErrorLog.MAX_KINDS + 100):
        errors.log(raised_by(Fault(), "\n" * line + "raise error"), "%s raised", Operation())
    full = [record for record in caplog.records if record.exc_info]
    assert len(full) == ErrorLog.MAX_KINDS + 1
    assert [record.getMessage() for record in caplog.records if not record.exc_info] == [
        f"<operation> raised: Fault() (number {number} of its kind; the first one has a traceback)"
        for number in (10, 100)
    ]


def test_known_kind_counts_by_itself_beyond_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    errors = ErrorLog(logger)
    errors.log(Fault(), "%s raised", Operation())
    for line in range(ErrorLog.MAX_KINDS):
        errors.log(raised_by(Fault(), "\n" * line + "raise error"), "%s raised", Operation())
    caplog.clear()
    for _ in range(9):
        errors.log(Fault(), "%s raised", Operation())
    assert [record.getMessage() for record in caplog.records] == [
        "<operation> raised: Fault() (number 10 of its kind; the first one has a traceback)"
    ]


class Uncountable(dict[Any, Any]):
    """Counts in which a look-up raises."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def setdefault(self, *args: object) -> object:
        raise self.error


def test_error_that_can_not_be_counted_is_logged_as_the_first_of_its_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = ErrorLog(logger)
    errors._counts = Uncountable(RecursionError)
    for _ in range(2):
        errors.log(Fault("reason"), "%s raised", Operation())
    assert len([record for record in caplog.records if record.exc_info]) == 2


def test_exit_while_an_error_is_counted_is_raised() -> None:
    errors = ErrorLog(logger)
    errors._counts = Uncountable(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        errors.log(Fault(), "%s raised", Operation())


def test_warning_that_repeats_is_logged_at_powers_of_ten(caplog: pytest.LogCaptureFixture) -> None:
    """As errors are."""
    errors = ErrorLog(logger)
    for _ in range(20):
        errors.warn("dropped %s", Operation())
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "dropped <operation>"),
        ("WARNING", "dropped <operation> (number 10 of its kind)"),
    ]


@pytest.mark.parametrize("refused", HOSTILE_ERRORS)
def test_error_that_refuses_every_look_is_logged_or_named_on_stderr(
    refused: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = ErrorLog(logger)
    for _ in range(10):
        errors.log(HOSTILE_ERRORS[refused](), "%s raised", Operation())
    if len(caplog.records) == 0:
        assert "raised Un" in capsys.readouterr().err
    else:
        first, tenth = caplog.records
        assert first.getMessage() == "<operation> raised"
        assert "(number 10 of its kind;" in tenth.getMessage()


def test_hostile_kinds_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(logging.Formatter("%(message)s"))
    errors = ErrorLog(logger)
    meta = type("Meta", (type,), {"__hash__": lambda kind: 1, "__eq__": lambda kind, other: True})
    first, second = (meta(name, (Exception,), {}) for name in ("First", "Second"))
    errors.log(first("one"), "it raised")
    errors.log(second("two"), "it raised")
    assert [record.getMessage() for record in caplog.records] == ["it raised", "it raised"]


def test_kind_is_not_taken_for_that_of_a_freed_class(caplog: pytest.LogCaptureFixture) -> None:
    errors = ErrorLog(logger)
    for number in range(20):
        errors.log(type("Passing", (Exception,), {})(number), "it raised")
    assert len(caplog.records) == 20
