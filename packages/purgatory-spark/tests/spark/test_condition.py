"""Tests of the vectorized condition, against a naive model and by examples."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_spark._outcomes import condition
from purgatory_spark._outcomes.condition import NEVER, KeyEvents, first_index, satisfied_us
from purgatory_spark._rows.packing import hash_watch_keys
from purgatory_spark._spark.arrays import Ints, one_chunk
from purgatory_spark._spark.hashes import hash_strings
from tests.spark.naive_trace import TraceEvent, TraceRequest, outcome
from tests.spark.trace_strategies import EVENTS, events_table, requests, requests_table
from tests.support.profiles import examples


def satisfied(request: TraceRequest, events: list[TraceEvent]) -> int:
    """Return when one request's condition is satisfied."""
    return int(satisfied_times([request], events)[0])


def satisfied_times(generated: list[TraceRequest], events: list[TraceEvent]) -> Ints:
    """Return when the conditions of requests are satisfied."""
    rows, seeds = requests_table(generated), np.zeros(len(generated), dtype=np.uint64)
    keys, _ = hash_watch_keys(one_chunk(rows.column("watch_keys")), seeds, hash_strings)
    rows = rows.set_column(rows.schema.get_field_index("watch_keys"), "watch_keys", keys)
    return satisfied_us(rows, hashed(events))


def hashed(events: list[TraceEvent]) -> pa.Table:
    """Return a table of events with hashes of their keys."""
    rows = events_table(events)
    keys = hash_strings(one_chunk(rows.column("key")), np.zeros(len(events), dtype=np.uint64))
    return rows.set_column(rows.schema.get_field_index("key"), "key", pa.array(keys))


@examples(100)
@given(requests(), st.lists(EVENTS, max_size=25))
def test_vectors_agree_with_the_naive_model(
    generated: list[TraceRequest], events: list[TraceEvent]
) -> None:
    times = satisfied_times(generated, events)
    for request, at in zip(generated, times.tolist(), strict=True):
        deadline_us = request.arrived_us + request.timeout_ms * 1000
        expected = ("completed", at) if at <= deadline_us else ("expired", deadline_us)
        assert outcome(request, events) == expected


@pytest.mark.parametrize("quantifier", ["all", "any"])
def test_condition_without_keys(quantifier: str) -> None:
    request = TraceRequest("r", 7, 100, [], "count", 1.0, quantifier)
    assert satisfied(request, [TraceEvent("a", 8, 1.0)]) == (7 if quantifier == "all" else NEVER)


def test_quorum_is_satisfied_by_its_last_key() -> None:
    events = [TraceEvent("c", 9, 1.0), TraceEvent("a", 20, 1.0), TraceEvent("b", 30, 1.0)]
    request = TraceRequest("r", 0, 100, ["c", "a", "c", "b"], "count", 1.0, "2")
    assert satisfied(request, events) == 20
    assert satisfied(replace(request, quantifier="1"), events) == 9
    assert satisfied(replace(request, quantifier="3"), events) == 30
    assert satisfied(replace(request, quantifier="3"), events[:2]) == NEVER


def test_max_counts_events_before_the_arrival() -> None:
    events = [TraceEvent("a", 1, 5.0), TraceEvent("a", 20, 1.0)]
    assert satisfied(TraceRequest("r", 10, 100, ["a"], "max", 5.0, "all"), events) == 10
    assert satisfied(TraceRequest("r", 10, 100, ["a"], "count", 1.0, "all"), events) == 20
    assert satisfied(TraceRequest("r", 10, 100, ["a"], "sum", 5.0, "all"), events) == NEVER


def test_running_totals_of_fractions_do_not_depend_on_other_keys() -> None:
    events = [TraceEvent("a", 1, 1e15), *[TraceEvent("b", at, 0.1) for at in range(2, 12)]]
    no_pairs = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    totals = KeyEvents(*no_pairs, hashed(events)).running_totals().tolist()
    totals.remove(1e15)
    assert totals == np.cumsum([0.1] * 10).tolist()


@given(st.lists(st.integers(0, 20), min_size=1), st.integers(-1, 22))
def test_first_index_agrees_with_a_linear_search(values: list[int], wanted: int) -> None:
    ordered = np.sort(np.array(values))
    low = np.arange(len(values) + 1)
    high = np.full(len(values) + 1, len(values))
    found = first_index(low, high, lambda _, index: ordered[index] >= wanted)
    for start, index in zip(low.tolist(), found.tolist(), strict=True):
        assert index == next(
            (place for place in range(start, len(values)) if ordered[place] >= wanted), len(values)
        )


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(condition)
    assert result.attempted > 10
    assert result.failed == 0
