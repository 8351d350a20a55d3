"""Test of the measured size of a pending operation."""

from __future__ import annotations

from purgatory_spark._spark.memory import bytes_per_pending_operation


def test_size_grows_with_the_number_of_keys() -> None:
    one = bytes_per_pending_operation(1, operations=3000)
    three = bytes_per_pending_operation(3, operations=3000)
    assert 100 < one < 2000
    assert 2 * 50 < three - one < 2 * 500
