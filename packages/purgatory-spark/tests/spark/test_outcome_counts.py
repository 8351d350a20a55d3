"""Outcomes counted in one pass, compared with what NumPy finds in the rows themselves."""

from __future__ import annotations

import math

import numpy as np
from pyspark.sql import SparkSession

from purgatory_spark._analysis.aggregates import (
    QUANTILES,
    UNCUT_QUANTILES,
    count_answers,
    count_outcomes,
    summarize_outcomes,
    timeline,
)
from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.time_bins import TimeBins
from tests.spark.trace_folders import rows_of

_NEVER_US = 2**60
_BIN_US = 1_000_000


def exact(waits_us: list[int], share: float) -> float | None:
    """Return the least wait in ms such that `share` of all are at most as long; None: never."""
    wait_us = sorted(waits_us)[math.ceil(share * len(waits_us) - 1e-9) - 1]
    return None if wait_us == _NEVER_US else wait_us / 1000


def is_near(found: float | None, expected: float | None, error: float) -> bool:
    """Return whether a quantile is exact, or longer by at most `error`."""
    if found is None or expected is None:
        return found is expected
    return expected <= found <= expected * (1 + error)


def test_quantiles_are_those_of_the_rows(spark: SparkSession) -> None:
    random = np.random.default_rng(5)
    count = 3_000
    arrived = random.integers(0, 5 * _BIN_US, count)
    uncut = np.floor(10 ** random.uniform(-1, 8, count)).astype(np.int64)
    uncut[random.random(count) < 0.03] = _NEVER_US
    timeout = np.where(random.random(count) < 0.5, 1_000, 700_000)
    wait = np.minimum(uncut, timeout)
    hosts = [f"h{number}" for number in random.integers(0, 3, count)]
    kinds = [f"t{number}" for number in random.integers(0, 2, count)]
    rows = [
        (
            hosts[at],
            kinds[at],
            int(arrived[at]),
            int(arrived[at] + wait[at]),
            None if uncut[at] == _NEVER_US else int(arrived[at] + uncut[at]),
            "completed" if uncut[at] <= timeout[at] else "expired",
        )
        for at in range(count)
    ]
    outcomes = spark.createDataFrame(
        rows, "host string, request_type string, a long, e long, s long, outcome string"
    ).selectExpr(
        "host",
        "request_type",
        "timestamp_micros(a) AS arrived_at",
        "timestamp_micros(e) AS ended_at",
        "timestamp_micros(s) AS satisfied_at",
        "outcome",
    )
    bins = TimeBins(0, 5, _BIN_US)
    counts = count_outcomes(outcomes, bins, []).persist()

    groups = {"all": [""] * count, "host": hosts, "request_type": kinds}
    found = {(row["dimension"], row["value"]): row for row in rows_of(summarize_outcomes(counts))}
    assert len(found) == 1 + 3 + 2
    for (dimension, value), row in found.items():
        at = np.array([name == value for name in groups[dimension]])
        assert row["requests"] == at.sum()
        assert row["expired"] == np.sum(uncut[at] > timeout[at])
        assert math.isclose(row["mean_ms"], wait[at].mean() / 1000)
        assert row["max_ms"] == wait[at].max() / 1000
        for measured, names in ((wait, QUANTILES), (uncut, UNCUT_QUANTILES)):
            for name, share in names.items():
                assert is_near(row[name], exact(measured[at].tolist(), share), 0.0024)
    assert found["all", ""]["uncut_p99_ms"] is None

    over_time = timeline(counts, outcomes, bins).collect()
    assert sum(row["arrived"] for row in over_time) == count
    for number, row in enumerate(over_time):
        at = arrived // _BIN_US == number
        assert row["arrived"] == at.sum()
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
            expected = exact(wait[at].tolist(), share) if at.any() else None
            assert is_near(row[name], expected, 0.024)

    satisfied = uncut[uncut != _NEVER_US].tolist()
    answers = AnswerTimes.of(rows_of(count_answers(counts)))
    quantiles = answers.quantiles_ms([0.25, 0.9995])
    assert quantiles is not None
    for quantile, share in zip(quantiles, (0.25, 0.9995), strict=True):
        assert is_near(quantile, exact(satisfied, share), 0.0024)
    counts.unpersist()
