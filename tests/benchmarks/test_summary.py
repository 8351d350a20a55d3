"""Medians, ratios, and reasons for missing values."""

from __future__ import annotations

import pytest

from benchmarks import peers, timer_cycle
from benchmarks.measurement import Measurement, NotMeasured
from benchmarks.question import Case
from benchmarks.summary import medians, not_measured_lines, number, question_table, ratio


def measurement(side: str, value: float, round: int = 0) -> Measurement:
    """Return a value of timer_cycle with 10 pending timers."""
    return Measurement(
        "timer_cycle", side, "pending=10", 10.0, "ns_per_operation", "ns", round, value
    )


def test_medians_are_taken_over_the_rounds_of_one_side_and_case():
    found = medians(
        [measurement("heapq", value, round) for round, value in enumerate((3.0, 900.0, 4.0))]
    )
    assert found == {("timer_cycle", "heapq", "pending=10", "ns_per_operation"): 4.0}


def test_median_of_an_even_number_of_rounds_is_the_mean_of_the_middle_two():
    found = medians([measurement("heapq", 3.0), measurement("heapq", 5.0, 1)])
    assert list(found.values()) == [4.0]


def test_ratio_divides_a_value_by_ours():
    assert ratio(150.0, 50.0) == 3.0
    assert ratio(150.0, None) is None
    assert ratio(150.0, 0.0) is None
    assert ratio(-1.0, 50.0) is None


def test_table_shows_median_and_ratio_of_each_side():
    found = medians([measurement(peers.OURS, 50.0), measurement(peers.HEAPQ, 150.0)])
    sides = {peers.OURS, peers.HEAPQ, peers.ASYNCIO}
    table = question_table(timer_cycle, [Case({"pending": 10}, 10.0)], found, sides)
    cells = {str(column.header): list(column.cells) for column in table.columns}
    assert cells["heapq"] == ["150\n[dim]x 3.00[/]"]
    assert cells["asyncio"] == ["-"]


def test_reason_is_listed_once_with_all_its_sides_and_cases():
    skip_reason = [
        NotMeasured("timer_add", side, case, "no JVM", False)
        for side in ("kafka", "netty")
        for case in ("a=1", "a=2")
    ]
    failed = NotMeasured("timer_add", "heapq", "a=1", "MemoryError", True)
    assert not_measured_lines([*skip_reason, failed], failed=False) == [
        "no JVM\n    timer_add (a=1; a=2): kafka, netty"
    ]
    assert not_measured_lines([*skip_reason, failed], failed=True) == [
        "MemoryError\n    timer_add (a=1): heapq"
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (123456.7, "123,457"),
        (99.94, "99.9"),
        (1.2345, "1.23"),
        (0.00123, "0.00123"),
        (-0.97, "-0.97"),
    ],
)
def test_numbers_have_about_three_digits(value: float, written: str):
    assert number(value) == written
