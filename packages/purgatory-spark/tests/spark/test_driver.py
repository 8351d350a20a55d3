"""Tests of the compiled parts of the replay: their build, key states, and the jumps of time."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import request_purgatory
from purgatory_spark._outcomes.replay import HostReplay, ReplaySettings
from purgatory_spark._rows.schema import AGGREGATES, MAX_TIMEOUT_MS
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.replay import end_recorder, replay_driver, trace_operation
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.trace_strategies import EVENTS, events_table, requests, requests_table
from tests.support.profiles import examples


@pytest.mark.parametrize("module", [end_recorder, replay_driver, trace_operation])
def test_driver_is_compiled_if_the_core_is(module: ModuleType) -> None:
    assert module.__file__ is not None
    assert module.__file__.endswith(".py") != request_purgatory.__compiled__


def test_value_and_baseline_of_a_key() -> None:
    key = trace_operation.KeyState()
    key.add(3.0, 10)
    key.add(2.0, 20)
    key.add(1.0, 20)
    expected = {"count": (3, 1, 3), "sum": (6, 3, 6), "max": (3, 0, 0)}
    for aggregate, name in enumerate(AGGREGATES):
        at_event, after_event = key.baseline(aggregate, 20), key.baseline(aggregate, 21)
        assert (key.value(aggregate), at_event, after_event) == expected[name]


class CountedReplay(HostReplay):
    """A replay that counts how often the clock is set."""

    clock_sets = 0

    def _set_time(self, now_us: int) -> None:
        self.clock_sets += 1
        super()._set_time(now_us)


class SteppedReplay(HostReplay):
    """A replay of the 0.8 design whose reaper wakes up every 200 ms, as its thread would."""

    last_wake_ms = 0
    origin_us: int | None = None

    def _run_reaper_before(self, instant_us: int) -> None:
        if self.origin_us is None:
            self.origin_us = self.ends.now_us
        while (wake_ms := self._wake_ms()) is not None:
            wake_us = self.origin_us + wake_ms * 1000
            if wake_us >= instant_us:
                break
            self._set_time(wake_us)
            self.purgatory.advance_clock(0)
            self.last_wake_ms = wake_ms

    def _wake_ms(self) -> int | None:
        due_ms = self.purgatory.timer.next_expiration_ms
        if due_ms is None:
            return None
        scheduled_ms = self.last_wake_ms + LegacyPurgatory.reap_interval_ms
        return min(due_ms, max(scheduled_ms, self.clock.ceil_ms))


# Spans of some intervals of the reaper, with times at and beside its steps.
LONG_TIMES_US = st.one_of(
    st.integers(0, 3_000_000),
    st.integers(0, 12).map(lambda steps: steps * 200_000),
    st.integers(0, 12).map(lambda steps: steps * 200_000 + 1),
)


@pytest.mark.parametrize("purge_interval", [0, 1, 2, 1000])
@examples(40)
@given(
    generated=requests(),
    events=st.lists(EVENTS, max_size=25),
    late_times=st.lists(LONG_TIMES_US, max_size=24),
)
def test_jumps_of_the_old_design_have_the_results_of_its_steps(
    purge_interval: int,
    generated: list[TraceRequest],
    events: list[TraceEvent],
    late_times: list[int],
) -> None:
    times = iter(late_times)
    generated = [
        TraceRequest(
            each.request_id,
            next(times, each.arrived_us),
            min(each.timeout_ms, 5000),
            each.watch_keys,
            each.aggregate,
            each.threshold,
            each.quantifier,
        )
        for each in generated
    ]
    events = [TraceEvent(each.key, next(times, each.occurred_us), each.amount) for each in events]
    settings = ReplaySettings(design="legacy", purge_interval=purge_interval)
    results = []
    for kind in (HostReplay, SteppedReplay):
        host = kind(requests_table(generated), events_table(events), settings)
        host.run()
        results.append((host.outcomes().to_pylist(), host.stats(1.0)))
    assert results[0] == results[1]


def test_old_design_jumps_over_times_at_which_nothing_is_due() -> None:
    timeouts = [MAX_TIMEOUT_MS, 60_000, 60_000]
    waiting = [
        TraceRequest(f"{number}", number, timeout_ms, ["never"], "count", 1.0, "all")
        for number, timeout_ms in enumerate(timeouts)
    ]
    host = CountedReplay(requests_table(waiting), events_table([]), ReplaySettings(design="legacy"))
    host.run()
    assert host.late_us.tolist() == [0, 999, 998]
    # Three arrivals, and two instants at which timeouts fire.
    assert host.clock_sets == 5


def test_old_design_still_purges_at_its_next_step() -> None:
    waiting = [
        TraceRequest(f"{number}", 0, MAX_TIMEOUT_MS, ["never"], "count", 1.0, "all")
        for number in range(2)
    ]
    host = CountedReplay(
        requests_table(waiting),
        events_table([]),
        ReplaySettings(design="legacy", purge_interval=2),
    )
    host.run()
    assert host.counts()["purges"] == 1
    # The arrivals' instant, the purge, and the timeouts.
    assert host.clock_sets == 3
