"""Names of held requests: in readings, in snapshots, and in what is printed."""

from __future__ import annotations

from typing import Any

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    InvalidArgumentError,
    PurgatoryClosedError,
)
from request_purgatory.purgatory.core import MAX_NAMES, OTHERS
from request_purgatory.purgatory.hold import HoldOperation
from request_purgatory.purgatory.hold_future import HoldFuture
from request_purgatory.testing import ManualPurgatory
from tests.support.children import in_child
from tests.support.requests import Fault


def counts(purgatory: DelayedOperationPurgatory, name: str) -> tuple[int, int, int, int]:
    """Return how many holds of a name are pending, completed, expired and cancelled."""
    found = purgatory.metrics_by_name()[name]
    return (
        found.num_delayed_operations,
        found.completions,
        found.expirations,
        found.cancellations,
    )


@pytest.fixture
def manual() -> Any:
    with ManualPurgatory("test") as purgatory:
        yield purgatory


def test_holds_are_counted_by_their_names(manual: ManualPurgatory) -> None:
    ready: list[int] = []
    held = [manual.hold(["a"], until=lambda: ready, timeout=5, name="poll") for _ in range(4)]
    manual.hold(["a"], until=lambda: 1, timeout=5, name="poll")
    manual.hold(["b"], until=lambda: 0, timeout=5, name="other")
    manual.hold(["b"], until=lambda: 0, timeout=5)
    assert counts(manual, "poll") == (4, 1, 0, 0)
    held[0].cancel()
    manual.advance(0.25)
    ready.append(1)
    manual.notify("a")
    assert counts(manual, "poll") == (0, 4, 0, 1)
    assert manual.metrics_by_name()["poll"].total_wait_ms == 3 * 250
    manual.advance(5)
    assert counts(manual, "other") == (0, 0, 1, 0)
    assert manual.metrics_by_name()["other"].total_wait_ms == 5_000
    assert list(manual.metrics_by_name()) == ["other", "poll"]


def test_hold_that_is_refused_is_not_pending(manual: ManualPurgatory) -> None:
    with pytest.raises(InvalidArgumentError):
        manual.hold([[]], until=lambda: 0, name="poll")  # type: ignore[list-item]
    assert counts(manual, "poll") == (0, 0, 0, 1)


def test_error_of_a_hook_after_the_end_is_counted_once() -> None:
    def fail(_: object) -> None:
        raise Fault

    with DelayedOperationPurgatory("test", reaper=False, on_end=fail) as purgatory:
        with pytest.raises(Fault):
            purgatory.hold(["a"], until=lambda: 1, name="poll")
        assert counts(purgatory, "poll") == (0, 1, 0, 0)


def test_closed_purgatory_takes_in_no_name(manual: ManualPurgatory) -> None:
    held = manual.hold(["a"], until=lambda: 0, name="poll")
    manual.close()
    assert isinstance(held.exception(0), PurgatoryClosedError)
    with pytest.raises(PurgatoryClosedError):
        manual.hold(["a"], until=lambda: 0, name="poll")
    assert counts(manual, "poll")[0] == 0


def test_names_beyond_the_limit_share_one(manual: ManualPurgatory) -> None:
    for number in range(MAX_NAMES + 2):
        manual.hold(["a"], until=lambda: 0, name=f"poll {number}")
    manual.hold(["a"], until=lambda: 0, name="poll 0")
    assert len(manual.metrics_by_name()) == MAX_NAMES + 1
    assert counts(manual, OTHERS)[0] == 2
    assert counts(manual, "poll 0")[0] == 2


def test_name_is_shown_in_place_of_the_condition(manual: ManualPurgatory) -> None:
    held = manual.hold(["a"], until=lambda: 0, timeout=1, name="poll")
    snapshot = manual.snapshot()
    assert (snapshot.by_type[0].name, snapshot.longest[0].name) == ("poll", "poll")
    assert isinstance(held, HoldFuture)
    assert repr(held.operation) == "<HoldOperation 'poll' timeout_ms=1000 pending>"
    assert repr(held).startswith("<HoldFuture 'poll' at 0x")
    assert repr(held).endswith(" state=pending>")


def test_future_says_how_it_ended(manual: ManualPurgatory) -> None:
    def never() -> bool:
        return False

    answered = manual.hold(["a"], until=lambda: 5, name="poll")
    assert repr(answered).endswith(" state=finished returned int>")
    expired = manual.hold(["a"], until=never, timeout=0, name="poll")
    assert repr(expired).endswith(" state=finished raised TimeoutError>")
    pending = manual.hold(["a"], until=never)
    assert "never)' at 0x" in repr(pending)
    pending.cancel()
    assert " state=cancelled" in repr(pending)
    assert repr(HoldFuture()).startswith("<HoldFuture at 0x")


def test_name_is_a_str(manual: ManualPurgatory) -> None:
    with pytest.raises(InvalidArgumentError, match="name must be a str, got 5"):
        manual.hold(["a"], until=lambda: 0, name=5)  # type: ignore[arg-type]
    assert manual.metrics_by_name() == {}
    assert manual.num_delayed == 0


def test_operation_that_is_not_initialized_has_no_name() -> None:
    assert repr(HoldOperation.__new__(HoldOperation)) == "<HoldOperation not initialized>"


def test_child_counts_anew(manual: ManualPurgatory) -> None:
    manual.hold(["a"], until=lambda: 0, name="poll")

    def child() -> None:
        assert manual.metrics_by_name() == {}
        manual.hold(["a"], until=lambda: 0, name="poll")
        assert counts(manual, "poll")[0] == 1

    in_child(child)
    assert counts(manual, "poll")[0] == 1


def test_renewed_hold_counts_from_its_renewal(manual: ManualPurgatory) -> None:
    held = manual.hold(["a"], until=lambda: 0, timeout=1, name="poll")
    assert isinstance(held, HoldFuture)
    manual.advance(0.5)
    operation: DelayedOperation = held.operation
    manual.renew(operation, 1)
    manual.advance(1)
    assert manual.metrics_by_name()["poll"].total_wait_ms == 1_000
