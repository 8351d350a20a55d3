"""Futures of `hold`: their limits, their ends in a child, and what the condition leaves."""

from __future__ import annotations

import gc
import os
import warnings

import pytest

from request_purgatory import DelayedOperationPurgatory, InvalidArgumentError
from request_purgatory.purgatory.hold import HoldOperation, timeout_to_ms, wrap_error
from request_purgatory.purgatory.hold_future import HoldFuture
from request_purgatory.timer.task import MAX_DELAY_MS
from tests.support.children import in_child
from tests.support.requests import Fault, fail


def test_longest_timeout_is_as_promised() -> None:
    longest = MAX_DELAY_MS // 1000
    assert timeout_to_ms(longest) == MAX_DELAY_MS
    with pytest.raises(InvalidArgumentError, match="10,000 years"):
        timeout_to_ms(longest + 1)


def test_future_is_cancelled_once(purgatory: DelayedOperationPurgatory) -> None:
    held = purgatory.hold(["a"], until=lambda: False, timeout=1)
    assert held.cancel() is True
    done = purgatory.hold(["a"], until=lambda: True, timeout=1)
    assert done.cancel() is False
    assert done.result() is True


def test_coroutine_that_a_condition_returns_is_closed(
    purgatory: DelayedOperationPurgatory,
) -> None:
    async def until() -> bool:
        return True

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held = purgatory.hold(["a"], until=until, timeout=1)
        assert isinstance(held.exception(0), InvalidArgumentError)
        del held
        gc.collect()
    assert caught == []


def test_wrapped_error_has_its_cause() -> None:
    error = StopIteration(3)
    wrapped = wrap_error(error)
    assert wrapped.__cause__ is error
    assert str(wrapped) == "the condition raised StopIteration(3)"


def test_error_of_a_callback_is_reported_to_the_purgatory_of_a_test(
    purgatory: DelayedOperationPurgatory,
) -> None:
    reported: list[BaseException] = []
    error = Fault()
    purgatory._errors.tell(error)
    purgatory._errors.listener = reported.append
    purgatory._errors.tell(error)
    assert reported == [error]


def test_error_of_a_callback_is_reported_nowhere_without_a_purgatory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    future: HoldFuture[int] = HoldFuture()
    HoldOperation(bool, 1_000, future)
    future.add_done_callback(lambda _: fail())
    future.answer(1, None)
    assert future.result(0) == 1
    assert "exception calling callback" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_future_in_a_child_is_cancelled_without_a_word(
    purgatory: DelayedOperationPurgatory,
) -> None:
    called: list[object] = []
    held = purgatory.hold(["a"], until=lambda: False, timeout=1)
    held.add_done_callback(called.append)

    def child() -> None:
        assert held.cancelled()
        assert called == []
        assert (purgatory.num_delayed, purgatory.watched, purgatory.timer.size) == (0, 0, 0)

    in_child(child)
    assert not held.done()
    held.cancel()
    assert called == [held]


def test_callback_that_is_none_is_refused(purgatory: DelayedOperationPurgatory) -> None:
    future = purgatory.hold(["a"], until=lambda: "value")
    with pytest.raises(InvalidArgumentError, match=r"fn must be callable, got 5"):
        future.add_done_callback(5)  # type: ignore[arg-type]
