"""The table of targets."""

from __future__ import annotations

import pytest

from benchmarks import peers, question
from benchmarks.targets import (
    MOONSHOT_MET,
    NOT_MEASURED,
    NOT_MET,
    PUBLISHED,
    TARGET_MET,
    TARGETS,
    Target,
    compare,
    targets_table,
)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (None, NOT_MEASURED),
        (61.0, NOT_MET),
        (60.0, TARGET_MET),
        (35.1, TARGET_MET),
        (35.0, MOONSHOT_MET),
    ],
)
def test_value_is_compared_with_target_and_moonshot(measured: float | None, verdict: str):
    assert Target("a", "q", "c", "m", 60, 35).verdict(measured) == verdict


@pytest.mark.parametrize(
    ("measured", "verdict"), [(99.0, NOT_MET), (100.0, TARGET_MET), (200.0, MOONSHOT_MET)]
)
def test_higher_is_better_for_rates(measured: float, verdict: str):
    assert Target("a", "q", "c", "m", 100, 200, higher_is_better=True).verdict(measured) == verdict


def test_best_peer_is_not_one_of_our_own_sides():
    target = Target("a", "q", "c", "m", 60, 35)
    rate = Target("b", "q", "c", "m", 60, 35, higher_is_better=True)
    values = {
        peers.OURS: 50.0,
        peers.OURS_MANUAL: 1.0,
        peers.LEGACY: 500.0,
        peers.NO_PURGATORY: 600.0,
        "heapq": 70.0,
        "uvloop": 80.0,
    }
    rows = compare({("q", side, "c", "m"): value for side, value in values.items()}, [target, rate])
    assert [(row["measured"], row["best_peer"], row["best_peer_value"]) for row in rows] == [
        (50.0, "heapq", 70.0),
        (50.0, "uvloop", 80.0),
    ]


def test_table_without_measurements_has_a_row_for_each_target():
    rows = compare({})
    assert [row["verdict"] for row in rows] == [NOT_MEASURED] * len(TARGETS)
    assert targets_table(rows).row_count == len(TARGETS)


def test_every_target_names_a_case_of_a_full_run():
    for target in TARGETS:
        asked = question.load(target.question)
        assert target.metric in asked.METRICS
        assert target.case in [case.label for case in asked.cases(quick=False)]


def test_target_can_be_the_value_of_another_side() -> None:
    rate = Target("a", "q", "c", "m", None, 1_000, higher_is_better=True, at_least_as=peers.KAFKA)
    ours, kafka = ("q", peers.OURS, "c", "m"), ("q", peers.KAFKA, "c", "m")
    verdicts = [
        compare(found, [rate])[0]["verdict"]
        for found in ({ours: 5.0, kafka: 5.0}, {ours: 4.0, kafka: 5.0}, {ours: 4.0})
    ]
    assert verdicts == [TARGET_MET, NOT_MET, NOT_MEASURED]
    assert compare({ours: 1_000.0, kafka: 5_000.0}, [rate])[0]["verdict"] == MOONSHOT_MET


def test_ratio_is_of_two_medians() -> None:
    found = {("q", peers.OURS, "c", "m"): 420.0, ("q", peers.LEGACY, "c", "m"): 100.0}
    ratio = Target("a", "q", "c", "m", None, 4.2, higher_is_better=True, times=peers.LEGACY)
    without_target = Target(
        "b", "q", "c", "m", None, None, higher_is_better=True, times=peers.LEGACY
    )
    rows = compare(found, [ratio, without_target])
    assert [(row["measured"], row["verdict"]) for row in rows] == [
        (4.2, MOONSHOT_MET),
        (4.2, PUBLISHED),
    ]
    assert compare({}, [ratio])[0]["verdict"] == NOT_MEASURED
