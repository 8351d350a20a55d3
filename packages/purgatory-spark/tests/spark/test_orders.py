"""Tests of the orders of numbers, against NumPy's."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_spark._spark import orders
from purgatory_spark._spark.arrays import Ints, Words
from purgatory_spark._spark.orders import group_hashes, stable_order

LEAST, MOST = -(2**63), 2**63 - 1
#: Numbers far from each other, of which some are equal.
NUMBERS = st.lists(st.sampled_from([LEAST, -5, 0, 1, 7, 2**40, MOST]) | st.integers(-3, 3))


@given(NUMBERS)
def test_order_is_that_of_a_stable_sort(numbers: list[int]) -> None:
    given_numbers: Ints = np.array(numbers, dtype=np.int64)
    expected = np.argsort(given_numbers, kind="stable")
    assert stable_order(given_numbers).tolist() == expected.tolist()


@given(st.lists(st.integers(0, 3).flatmap(lambda low: st.sampled_from([low, low + 2**63]))))
def test_hashes_that_differ_in_high_bits_are_several_groups(numbers: list[int]) -> None:
    hashes: Words = np.array(numbers, dtype=np.uint64)
    order, is_first = group_hashes(hashes)
    in_order = hashes[order].tolist()
    assert sorted(order.tolist()) == list(range(len(numbers)))
    assert is_first.sum() == len(set(numbers))
    assert [in_order[at] for at in np.flatnonzero(is_first)] == list(dict.fromkeys(in_order))
    for number in set(numbers):
        at = order[hashes[order] == np.uint64(number)]
        assert (np.diff(at) > 0).all()


@pytest.mark.parametrize("count", [0, 1])
def test_few_numbers(count: int) -> None:
    hashes: Words = np.zeros(count, dtype=np.uint64)
    order, is_first = group_hashes(hashes)
    assert order.tolist() == [0] * count
    assert is_first.tolist() == [True] * count


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(orders)
    assert result.attempted >= 3
    assert result.failed == 0
