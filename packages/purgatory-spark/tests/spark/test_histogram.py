"""The mergeable histogram, compared with a sorted list."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from purgatory_spark._analysis.histogram import (
    BUCKETS_PER_DOUBLING,
    RELATIVE_ERROR,
    Histogram,
    bounds_of,
    bucket_of,
)
from request_purgatory import InvalidArgumentError
from tests.support.profiles import examples

VALUES = st.one_of(
    st.integers(0, 300),
    st.integers(0, 52).flatmap(
        lambda bits: st.integers(max(0, 2**bits - 2), min(2**52 - 1, 2**bits + 2))
    ),
    st.integers(0, 2**52 - 1),
)
SHARES = (0.0, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0)


@given(st.lists(VALUES, min_size=1))
def test_every_value_is_inside_its_bucket(values: list[int]) -> None:
    given_values = np.array(values, dtype=np.int64)
    buckets = bucket_of(given_values)
    first, after = bounds_of(buckets)
    assert ((first <= given_values) & (given_values < after)).all()
    assert (bounds_of(buckets + 1)[0] == after).all()
    assert (after - first <= np.maximum(1, first / BUCKETS_PER_DOUBLING)).all()


class MergingHistograms(RuleBasedStateMachine):
    """Fills and merges two histograms, and keeps the same values in lists."""

    def __init__(self) -> None:
        super().__init__()
        self.histograms = [Histogram(), Histogram()]
        self.values: list[list[int]] = [[], []]

    @rule(which=st.integers(0, 1), values=st.lists(VALUES, max_size=8))
    def add(self, which: int, values: list[int]) -> None:
        self.histograms[which].add(np.array(values, dtype=np.int64))
        self.values[which] += values

    @rule(into=st.integers(0, 1))
    def merge(self, into: int) -> None:
        self.histograms[into].merge(self.histograms[1 - into])
        self.values[into] = self.values[into] + self.values[1 - into]

    @rule(which=st.integers(0, 1))
    def restore_from_counts(self, which: int) -> None:
        copy = Histogram()
        counts = self.histograms[which].counts
        copy.add_counts(np.arange(len(counts)), counts)
        self.histograms[which] = copy

    @invariant()
    def quantiles_have_a_bounded_error(self) -> None:
        for histogram, values in zip(self.histograms, self.values, strict=True):
            assert histogram.total == len(values)
            ordered = sorted(values)
            for share in SHARES:
                found = histogram.quantile(share)
                if found is None:
                    assert not values
                else:
                    exact = ordered[max(1, math.ceil(share * len(values))) - 1]
                    assert abs(found - exact) <= RELATIVE_ERROR * exact


TestMergingHistograms = MergingHistograms.TestCase
TestMergingHistograms.settings = examples(60, stateful_step_count=20)


@pytest.mark.parametrize("value", [-1, 2**52])
def test_value_out_of_range_is_refused(value: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"value must be from 0 to below .*got {value}"):
        Histogram().add(np.array([1, value], dtype=np.int64))


def test_share_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="share must be from 0 to 1, got 99"):
        Histogram().quantile(99)
