"""The table of all counters: it has every one, and says of each how it counts."""

from __future__ import annotations

import dataclasses

import pytest

from request_purgatory._native import states
from request_purgatory.purgatory._counters import WAIT_BUCKETS, PurgatoryCounters
from request_purgatory.purgatory._metric_table import (
    OF_PURGATORIES,
    OF_TIMERS,
    Metric,
    PurgatoryMetrics,
    TimerMetrics,
    add_up,
)

TABLES = [(PurgatoryMetrics, OF_PURGATORIES), (TimerMetrics, OF_TIMERS)]
ROWS = [(*table, metric) for table in TABLES for metric in table[1]]


def count_everything(counters: PurgatoryCounters, late_ms: int) -> None:
    for state in (states.COMPLETED, states.EXPIRED, states.CANCELLED):
        counters.count_entered()
        counters.count_ended(state, 5)
    counters.begin_purge()
    counters.end_purge(3)
    counters.count_entered()
    counters.count_callback_error()
    counters.record_callback_times(late_ms, late_ms)


@pytest.mark.parametrize(("reading", "table"), TABLES)
def test_table_has_every_field_once(reading: type, table: tuple[Metric, ...]) -> None:
    fields = [field.name for field in dataclasses.fields(reading)]
    assert sorted(metric.field for metric in table) == sorted(fields)


@pytest.mark.parametrize(("reading", "table", "metric"), ROWS)
def test_readings_are_not_added_up_by_a_table_that_lacks_a_field(
    reading: type, table: tuple[Metric, ...], metric: Metric
) -> None:
    fields = dataclasses.fields(reading)
    zero = reading(*((0,) if "histogram" in field.name else 0 for field in fields))
    assert add_up(table, zero, zero) == zero
    with pytest.raises(TypeError, match=metric.field):
        add_up([each for each in table if each is not metric], zero, zero)


def test_kinds_are_those_by_which_a_purgatory_counts() -> None:
    counters = PurgatoryCounters()
    count_everything(counters, 20)
    first = counters.snapshot(1)
    count_everything(counters, 10)
    second = counters.snapshot(1)
    unchanged = {
        metric.field
        for metric in OF_PURGATORIES
        if metric.kind != "gauge" and getattr(first, metric.field) == getattr(second, metric.field)
    }
    assert unchanged == {metric.field for metric in OF_PURGATORIES if metric.kind == "maximum"}
    assert unchanged == {"max_late_ms", "max_callback_ms"}


def test_maxima_of_two_readings_are_the_larger_ones_and_all_else_is_a_sum() -> None:
    counters = [PurgatoryCounters(), PurgatoryCounters()]
    for number, late_ms in enumerate((20, 30)):
        count_everything(counters[number], late_ms)
    one, other = (each.snapshot(4) for each in counters)
    assert add_up(OF_PURGATORIES, one, other) == PurgatoryMetrics(
        purgatory_size=8,
        num_delayed_operations=2,
        estimated_operations=2,
        completions=2,
        expirations=2,
        cancellations=2,
        purges=2,
        purged_entries=6,
        callback_errors=2,
        max_late_ms=30,
        max_callback_ms=30,
        wait_histogram_ms=(*[0] * 5, 6, *[0] * (WAIT_BUCKETS - 6)),
        total_wait_ms=30,
    )
    assert add_up(OF_TIMERS, TimerMetrics(1, 2), TimerMetrics(3, 4)) == TimerMetrics(4, 6)


def test_reset_sets_every_counter_to_0() -> None:
    counters = PurgatoryCounters()
    count_everything(counters, 20)
    used = dataclasses.asdict(counters.snapshot(1))
    assert [name for name, value in used.items() if not value] == []
    counters.reset()
    assert counters.snapshot(0) == PurgatoryCounters().snapshot(0)
    assert (counters.pending, counters.since_purge, counters.unpurged) == (0, 0, 0)


@pytest.mark.parametrize("metric", [*OF_PURGATORIES, *OF_TIMERS], ids=lambda metric: metric.field)
def test_meaning_is_a_sentence(metric: Metric) -> None:
    assert metric.meaning[0].isupper()
    assert metric.meaning.endswith(".")
