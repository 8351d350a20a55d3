"""From when on a slow callback and a late timeout are worth a line in the log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from request_purgatory import DelayedOperationPurgatory, SystemTimer
from tests.support.requests import Request
from tests.unit.purgatory.test_lateness import SteppedClock

WARN_AFTER_MS = 100
BEGIN_MS = 50_000


@pytest.fixture
def stepped() -> SteppedClock:
    clock = SteppedClock()
    clock.reads_ms = BEGIN_MS
    return clock


@pytest.fixture
def measured(stepped: SteppedClock) -> Iterator[DelayedOperationPurgatory]:
    """Return a purgatory on a clock that stood at 50 s before."""
    timer = SystemTimer("test", clock=stepped)
    with DelayedOperationPurgatory(
        "test", timer=timer, reaper=False, warn_after_ms=WARN_AFTER_MS
    ) as purgatory:
        yield purgatory


@pytest.mark.parametrize(("late_ms", "lines"), [(99, 0), (100, 1)])
def test_late_timeout_is_logged_from_the_threshold_on(
    measured: DelayedOperationPurgatory,
    stepped: SteppedClock,
    caplog: pytest.LogCaptureFixture,
    late_ms: int,
    lines: int,
) -> None:
    measured.try_complete_else_watch(Request(10), ["a"])
    stepped.reads_ms += 10 + late_ms
    measured.advance_clock(0)
    assert measured.metrics().max_late_ms == late_ms
    assert len(caplog.records) == lines


@pytest.mark.parametrize(("took_ms", "lines"), [(99, 0), (100, 1)])
def test_slow_callback_is_logged_from_the_threshold_on(
    measured: DelayedOperationPurgatory,
    stepped: SteppedClock,
    caplog: pytest.LogCaptureFixture,
    took_ms: int,
    lines: int,
) -> None:
    def complete() -> None:
        stepped.reads_ms += took_ms

    measured.try_complete_else_watch(Request(10, complete=complete), ["a"])
    stepped.reads_ms += 10
    measured.advance_clock(0)
    assert measured.metrics().max_callback_ms == took_ms
    assert len(caplog.records) == lines


@pytest.mark.parametrize(("after_ms", "lines"), [(999, 1), (1000, 2)])
def test_next_late_timeout_is_logged_a_second_after_the_last(
    measured: DelayedOperationPurgatory,
    stepped: SteppedClock,
    caplog: pytest.LogCaptureFixture,
    after_ms: int,
    lines: int,
) -> None:
    for delay_ms in (10, after_ms):
        measured.try_complete_else_watch(Request(delay_ms), ["a"])
    stepped.reads_ms += 110
    measured.advance_clock(0)
    stepped.reads_ms += after_ms
    measured.advance_clock(0)
    assert len(caplog.records) == lines
