"""The counters of a purgatory."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    PurgatoryMetrics,
)
from request_purgatory._native import states
from request_purgatory.purgatory._counters import WAIT_BUCKETS, PurgatoryCounters
from request_purgatory.purgatory._metric_table import (
    Metric,
    TimerMetrics,
    add_up,
    bucket_index,
    bucket_start_ms,
)
from tests.conftest import MakePurgatory
from tests.support.requests import Request, fail
from tests.support.thread_group import ThreadGroup


def test_counters_have_kafkas_names(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory(purge_interval=0)
    requests = [Request(delay_ms) for delay_ms in (1_000, 1_000, 1_000, 10, 10, 500, 500)]
    requests[3].during["complete"] = fail
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a", "b"])
    requests[0].ready = True
    purgatory.check_and_complete("a")
    requests[1].force_complete()
    purgatory.try_complete_else_watch(Request(ready=True), ["a"])
    requests[2].cancel()
    clock.advance(10)
    purgatory.advance_clock(0)
    assert purgatory.metrics().by_kafka_name() == {
        "PurgatorySize": 4,
        "NumDelayedOperations": 2,
        "Expires": 2,
        "Completions": 3,
        "Cancellations": 1,
        "Purges": 1,
        "CallbackErrors": 1,
        "MaxExpirationLateMs": 0,
        "MaxExpirationCallbackMs": 0,
    }


def test_new_purgatory_has_counted_nothing(purgatory: DelayedOperationPurgatory) -> None:
    metrics = purgatory.metrics()
    assert set(metrics.by_kafka_name().values()) == {0}
    assert metrics.wait_histogram_ms == (0,) * WAIT_BUCKETS
    assert (metrics.estimated_operations, metrics.purged_entries) == (0, 0)


def test_reading_does_not_change_afterwards(purgatory: DelayedOperationPurgatory) -> None:
    before = purgatory.metrics()
    purgatory.try_complete_else_watch(Request(), ["a"])
    assert before.num_delayed_operations == 0
    with pytest.raises(FrozenInstanceError):
        before.purges = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("waited_ms", "bucket"),
    [
        *((0, 0), (1, 1), (127, 127), (128, 128), (129, 128), (130, 129), (255, 191), (256, 192)),
        *((1_000, 317), (2**31 - 1, WAIT_BUCKETS - 1), (10**12, WAIT_BUCKETS - 1)),
    ],
)
def test_waits_are_counted_by_their_leading_bits(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, waited_ms: int, bucket: int
) -> None:
    request = Request(10**13)
    clock.advance(3)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.advance(waited_ms)
    request.force_complete()
    histogram = purgatory.metrics().wait_histogram_ms
    assert (histogram[bucket], sum(histogram)) == (1, 1)
    assert purgatory.metrics().total_wait_ms == waited_ms


def test_wait_before_a_clock_went_back_is_none() -> None:
    counters = PurgatoryCounters()
    counters.count_ended(states.EXPIRED, -(2**40))
    assert counters.snapshot(0).wait_histogram_ms[0] == 1


@given(st.integers(0, 2**31 - 1))
def test_middle_of_a_bucket_is_within_1_percent_of_each_wait(waited_ms: int) -> None:
    counters = PurgatoryCounters()
    counters.count_ended(states.COMPLETED, waited_ms)
    reading = counters.snapshot(0)
    assert reading.wait_histogram_ms[bucket_index(waited_ms)] == 1
    assert bucket_start_ms(bucket_index(waited_ms)) <= waited_ms
    assert waited_ms < bucket_start_ms(bucket_index(waited_ms) + 1)
    for percent in (0, 50, 100):
        assert reading.wait_percentile_ms(percent) == pytest.approx(waited_ms, rel=0.01)


def test_percentiles_are_those_of_all_waits() -> None:
    counters = PurgatoryCounters()
    assert counters.snapshot(0).wait_percentile_ms(50) is None
    for waited_ms in range(1, 1_001):
        counters.count_ended(states.COMPLETED, 10 * waited_ms)
    reading = counters.snapshot(0)
    for percent in (0.1, 1, 25, 50, 90, 99, 99.9, 100):
        exact = 10 * math.ceil(percent * 10)
        assert reading.wait_percentile_ms(percent) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("percent", [-1, 100.1, math.nan, "50", True])
def test_percentage_is_checked(percent: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="percent must be a number from 0 to 100"):
        PurgatoryCounters().snapshot(0).wait_percentile_ms(percent)


def test_request_completed_at_once_is_in_the_first_bucket(
    purgatory: DelayedOperationPurgatory,
) -> None:
    purgatory.try_complete_else_watch(Request(ready=True), ["a"])
    assert purgatory.metrics().wait_histogram_ms[0] == 1


def test_purged_entries_are_counted(make_wheel_purgatory: MakePurgatory) -> None:
    purgatory = make_wheel_purgatory()
    for keys in (["a", "b", "c"], ["a"]):
        request = Request()
        purgatory.try_complete_else_watch(request, keys)
        request.cancel()
        assert purgatory.purge() == len(keys)
    assert (purgatory.metrics().purges, purgatory.metrics().purged_entries) == (2, 4)
    assert purgatory.metrics().estimated_operations == 0


def test_watched_counts_entries_and_num_delayed_operations(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory()
    request = Request()
    purgatory.try_complete_else_watch(request, ["a", "b", "b"])
    assert (purgatory.watched, purgatory.num_delayed) == (3, 1)
    request.cancel()
    assert (purgatory.watched, purgatory.num_delayed) == (3, 0)
    assert purgatory.metrics() == PurgatoryMetrics(
        purgatory_size=3,
        num_delayed_operations=0,
        estimated_operations=1,
        completions=0,
        expirations=0,
        cancellations=1,
        purges=0,
        purged_entries=0,
        callback_errors=0,
        max_late_ms=0,
        max_callback_ms=0,
        wait_histogram_ms=(1, *[0] * (WAIT_BUCKETS - 1)),
        total_wait_ms=0,
    )


def test_counters_are_exact_whatever_threads_count(
    thread_group: ThreadGroup, switching: None
) -> None:
    counters = PurgatoryCounters()

    def count(state: int) -> None:
        for _ in range(1_000):
            counters.count_entered()
            counters.count_ended(state, 1)
            counters.count_callback_error()
            reading = counters.snapshot(0)
            assert 0 <= reading.num_delayed_operations <= 3

    for state in (states.COMPLETED, states.EXPIRED, states.CANCELLED):
        thread_group.start(count, state)
    thread_group.join()
    reading = counters.snapshot(0)
    assert (reading.completions, reading.expirations, reading.cancellations) == (
        1_000,
        1_000,
        1_000,
    )
    assert (reading.callback_errors, reading.estimated_operations, counters.unpurged) == (
        3_000,
        3_000,
        3_000,
    )
    assert sum(reading.wait_histogram_ms) == 3_000


def test_thread_counts_what_another_one_has_entered(thread_group: ThreadGroup) -> None:
    counters = PurgatoryCounters()
    for _ in range(100):
        counters.count_entered()
    thread_group.start(lambda: [counters.count_ended(states.EXPIRED, 2) for _ in range(60)])
    thread_group.join()
    assert (counters.pending, counters.unpurged, counters.estimate) == (40, 60, 100)
    seen = [counters.count_ended(states.COMPLETED, 2) for _ in range(8)]
    assert seen[-1] == counters.unpurged == 68
    reading = counters.snapshot(0)
    assert (reading.expirations, reading.completions, reading.total_wait_ms) == (60, 8, 136)
    assert reading.wait_histogram_ms[2] == 68
    counters.begin_purge()
    assert (counters.pending, counters.unpurged, counters.estimate) == (32, 0, 32)
    assert counters.since_purge == 0
    assert counters.count_ended(states.COMPLETED, 2) == 1


def test_longest_waits_share_the_last_bucket() -> None:
    counters = PurgatoryCounters()
    for waited_ms in (2**29, 2**30, 2**31, 2**40):
        counters.count_ended(states.EXPIRED, waited_ms)
    assert counters.snapshot(0).wait_histogram_ms[-1] == 2


def test_exports_have_times_in_seconds_and_all_else_as_it_is() -> None:
    reading = TimerMetrics(pending=2_500, callback_errors=0)
    assert Metric("pending", "gauge", "Tasks.").exported(reading) == 2_500
    counters = PurgatoryCounters()
    counters.record_callback_times(1_500, 20)
    lateness = Metric("max_late_ms", "maximum", "A time.")
    assert lateness.exported(counters.snapshot(0)) == 1.5


def test_help_of_an_export_names_kafkas_metric_if_there_is_one() -> None:
    assert Metric("purges", "counter", "Purges.").help == "Purges."
    of_kafka = Metric("purges", "counter", "Purges of lists.", kafka="PurgesPerSec")
    assert of_kafka.help == "Purges of lists (Kafka: PurgesPerSec)."


def test_two_readings_are_added_up_but_for_their_maxima() -> None:
    table = (
        Metric("pending", "gauge", "Tasks."),
        Metric("callback_errors", "maximum", "Errors."),
    )
    one, other = TimerMetrics(3, 5), TimerMetrics(4, 2)
    assert add_up(table, one, other) == TimerMetrics(7, 5)
    histogram = Metric("waits", "histogram", "Waits.")
    assert histogram.added_up((1, 2, 0), (3, 4, 5)) == (4, 6, 5)
    with pytest.raises(ValueError, match="shorter"):
        histogram.added_up((1, 2, 0), (3, 4))
