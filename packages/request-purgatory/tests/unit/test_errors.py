"""The exceptions: one hierarchy, with the values that caused each."""

from __future__ import annotations

import copy
import pickle

import pytest

from request_purgatory import (
    InterruptedUseError,
    InvalidArgumentError,
    NotCompletedError,
    NotificationLoopError,
    NotInitializedError,
    OperationCancelledError,
    PurgatoryClosedError,
    PurgatoryError,
    TaskInUseError,
    TimerClosedError,
)
from tests.support.requests import Request

EXAMPLES = [
    InvalidArgumentError("tick_ms", "at least 1", 0),
    TaskInUseError("in use"),
    TimerClosedError("orders"),
    PurgatoryClosedError("orders"),
    OperationCancelledError("orders", None),
    NotInitializedError("Request"),
    NotCompletedError("Request"),
    NotificationLoopError("Request.try_complete", 1000),
    InterruptedUseError(),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_error_is_a_purgatory_error(error: PurgatoryError) -> None:
    assert isinstance(error, PurgatoryError)


@pytest.mark.parametrize(
    ("error", "builtin"),
    list(zip(EXAMPLES, [ValueError, *[RuntimeError] * 8], strict=True)),
    ids=repr,
)
def test_errors_are_also_the_builtin_kind(error: PurgatoryError, builtin: type[Exception]) -> None:
    assert isinstance(error, builtin)


def test_invalid_argument_names_the_argument_and_the_value() -> None:
    error = InvalidArgumentError("tick_ms", "at least 1", 0)
    assert str(error) == "tick_ms must be at least 1, got 0"
    assert (error.name, error.requirement, error.value) == ("tick_ms", "at least 1", 0)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TimerClosedError("orders"), "timer 'orders' has been shut down"),
        (PurgatoryClosedError("orders"), "purgatory 'orders' is closed"),
    ],
    ids=repr,
)
def test_closed_errors_name_what_is_closed(
    error: TimerClosedError | PurgatoryClosedError, message: str
) -> None:
    assert str(error) == message
    assert error.name == "orders"


def test_cancelled_error_names_the_purgatory_and_the_operation() -> None:
    error = OperationCancelledError("orders", "an operation")
    assert str(error) == "purgatory 'orders': 'an operation' was cancelled"
    assert (error.name, error.operation) == ("orders", "an operation")


def test_cancelled_error_is_pickled_without_its_operation() -> None:
    error = OperationCancelledError("orders", Request())
    arrived = pickle.loads(pickle.dumps(error))
    assert str(arrived) == str(error)
    assert "<Request timeout_ms=1000 pending> was cancelled" in str(arrived)
    assert (arrived.name, arrived.operation) == ("orders", None)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copied", "pickled"]
)
def test_errors_can_be_copied_and_pickled(error: PurgatoryError, again: object) -> None:
    arrived = again(error)  # type: ignore[operator]
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert arrived.__dict__ == error.__dict__
