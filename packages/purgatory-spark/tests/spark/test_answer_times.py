"""The share of requests that a timeout leaves unanswered, where some were given up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.cut_off import CutOff, censoring_of, find_cut_off, timeouts_in_use
from purgatory_spark._analysis.wait_scale import bucket_number

#: Times in ms, the requests answered and those given up then, and what lifelines 0.30.3 has for
#: each time: `KaplanMeierFitter().fit(times, is_answered)`, its estimate and interval of 95 %.
LIFELINES = [
    (1, 5, 0, 0.991666666667, 0.980095732214, 0.996522969566),
    (2, 40, 1, 0.925, 0.900842855157, 0.943456727347),
    (5, 120, 7, 0.72463898917, 0.686997741764, 0.758571397513),
    (10, 200, 0, 0.385229626561, 0.345990773325, 0.424279921702),
    (20, 90, 30, 0.232495413387, 0.199277034597, 0.267283306186),
    (50, 30, 2, 0.167309783465, 0.137172991609, 0.200055654953),
    (100, 0, 12, 0.167309783465, 0.137172991609, 0.200055654953),
    (200, 11, 4, 0.13809696413, 0.109437449782, 0.170051967426),
    (500, 2, 1, 0.132342923958, 0.103999595294, 0.164143753846),
    (1000, 1, 9, 0.129401970092, 0.101224689392, 0.161123802037),
    (2000, 0, 35, 0.129401970092, 0.101224689392, 0.161123802037),
]


def times_of(
    counts: dict[float, int], given_up: dict[float, int] | None = None, **more: Any
) -> AnswerTimes:
    """Count requests by their times in ms."""
    buckets: dict[int, dict[str, Any]] = {}
    for name, numbers in (("answered", counts), ("given_up", given_up or {})):
        for ms, number in numbers.items():
            row = buckets.setdefault(
                bucket_number(ms),
                {"bucket": bucket_number(ms), "up_to_ms": ms, "answered": 0, "given_up": 0},
            )
            row[name] += number
            row["up_to_ms"] = max(row["up_to_ms"], ms)
    return AnswerTimes.of(list(buckets.values()))


def test_estimates_and_intervals_are_those_of_lifelines() -> None:
    answered = {ms: count for ms, count, *_ in LIFELINES}
    times = times_of(answered, {ms: count for ms, _, count, *_ in LIFELINES})
    so_far = 0
    for ms, count, _, *expected in LIFELINES:
        so_far += count
        found = times.unanswered_after(ms, so_far)
        assert found is not None
        assert [found.share, found.low, found.high] == pytest.approx(expected, abs=1e-11)
    # Between two times nothing happens, and nothing is known beyond the last.
    assert times.unanswered_after(30, 455) == times.unanswered_after(20, 455)
    assert times.unanswered_after(5000, so_far) is None


def test_without_requests_given_up_the_share_is_that_of_the_trace() -> None:
    # 1,000 and 1,001 ms are in one bucket; how many were answered by then tells them apart.
    times = times_of({10: 600, 1000: 300, 1001: 99, 4000: 1})
    assert bucket_number(1000) == bucket_number(1001)
    shares = [times.unanswered_after(ms, done) for ms, done in ((5, 0), (1000, 900), (1001, 999))]
    assert [each and each.share for each in shares] == pytest.approx([1.0, 0.1, 0.001])
    # The last one was answered, so none is left: up to 3 of 1,000, by the rule of three.
    last = times.unanswered_after(9000, 1000)
    assert last is not None
    assert (last.share, last.low, last.high) == (0.0, 0.0, 0.003)


def test_interval_covers_the_share_of_a_long_log() -> None:
    random = np.random.default_rng(3)
    size, covered = 400, 0
    for _ in range(200):
        takes, patience = random.exponential(100, size), random.exponential(150, size)
        ms = np.ceil(np.minimum(takes, patience))
        done = [dict(zip(*np.unique(ms[is_answered], return_counts=True), strict=True))
                for is_answered in (takes <= patience, takes > patience)]  # fmt: skip
        found = times_of(*done).unanswered_after(150, int((ms[takes <= patience] <= 150).sum()))
        assert found is not None
        covered += found.low <= np.exp(-1.5) <= found.high
    assert 180 <= covered <= 199


@pytest.mark.parametrize("share", [0.25, 0.5, 0.99, 1.0])
def test_quantiles_are_of_the_answers_alone(share: float) -> None:
    times = times_of({1: 25, 20: 25, 300: 49, 4000: 1}, {9000: 50})
    assert times.quantiles_ms([share]) == [{0.25: 1, 0.5: 20, 0.99: 300, 1.0: 4000}[share]]
    assert times_of({}, {5: 3}).quantiles_ms([share]) is None
    assert AnswerTimes.of([]).quantiles_ms([share]) is None


def smooth(seed: int, size: int = 20_000, digits: int = 3) -> dict[float, int]:
    took = np.maximum(np.random.default_rng(seed).lognormal(3.5, 1, size), 0.001).round(digits)
    values, counts = np.unique(took[took > 0], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


@given(st.integers(0, 2**32), st.sampled_from([0, 3]), st.sampled_from([20, 100, 500, 2000]))
def test_smooth_distributions_raise_no_doubt(seed: int, digits: int, timeout_ms: int) -> None:
    assert find_cut_off(times_of(smooth(seed, 2000, digits)), [timeout_ms]) is None


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(60, 500), st.sampled_from([[2000], [1000], []]))
def test_answers_at_one_long_time_raise_doubt(seed: int, size: int, in_use: list[int]) -> None:
    took = {ms: count for ms, count in smooth(seed).items() if ms < 2000}
    # As logs of whole milliseconds have them.
    cut = {2000.0: size // 2, 2001.0: size // 3, 2004.0: size - size // 2 - size // 3}
    assert find_cut_off(times_of(took | cut), in_use) == CutOff(
        2000, size, (bucket_number(2000), bucket_number(2000) + 5)
    )


def test_timeout_in_use_raises_doubt_below_later_answers() -> None:
    took = smooth(5) | {1000.0: 300} | {1100.0 + 40 * n: 3 for n in range(200)}
    found = find_cut_off(times_of(took), [1000])
    assert found is not None
    assert found.at_ms == 1000
    # Of another value in the middle, it is not known what it means.
    assert find_cut_off(times_of(took), [500]) is None


def test_times_of_few_digits_raise_no_doubt() -> None:
    seconds = {1000.0: 900, 2000.0: 100}
    assert find_cut_off(times_of(seconds), [5000]) is None
    assert find_cut_off(times_of({10.0: 5000}), [1000]) is None
    assert find_cut_off(times_of({10.0: 500, 2000.0: 9}), [2000]) is None
    assert find_cut_off(times_of({}), [2000]) is None


def test_requests_with_a_status_are_censored() -> None:
    times = times_of(smooth(1), {300.0: 20, 2000.0: 90})
    assert censoring_of(times, [2000], {}) is None
    found = censoring_of(times, [2000], {"unanswered": ["504"]})
    assert found is not None
    assert (found.requests, found.cut_off, found.times) == (110, None, times)
    # Both at once: 504 was named, and another status was not.
    both = censoring_of(
        times_of({**smooth(1), 5000.0: 200}, {2000.0: 90}), [2000], {"unanswered": ["504"]}
    )
    assert both is not None
    assert both.cut_off is not None
    assert (both.requests, both.cut_off.at_ms) == (290, 5000)


def test_timeout_in_use_is_not_when_requests_were_given_up() -> None:
    assert timeouts_in_use({}, [3, 2000]) == [3, 2000]
    log: dict[str, Any] = {"unanswered": ["499"], "columns": {"arrived_at": "at"}}
    assert timeouts_in_use(log, [3, 2000]) == [1000, 1000]
    assert timeouts_in_use(log | {"timeout_ms": 2000}, [3, 2000]) == [2000, 2000]
    log["columns"]["timeout_ms"] = "limit"
    assert timeouts_in_use(log, [3, 2000]) == [3, 2000]
