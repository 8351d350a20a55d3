"""What an analysis found: hosts and types that contribute, and the sentences on them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from purgatory_spark._analysis.contributors import find_contributors, stands_out
from purgatory_spark._analysis.findings import describe_changes, describe_contributors
from tests.spark.trace_folders import rows_of

AT = datetime(2026, 3, 2, 9, 1, tzinfo=UTC)
MARK = {"label": "deployment", "at": AT}


def side(name: str, requests: int, expired: int, p50_ms: float, p99_ms: float) -> dict[str, Any]:
    """Return a row of the table `marks` of all requests."""
    return {
        **MARK,
        "side": name,
        "requests": requests,
        "expired": expired,
        "expired_share": expired / requests,
        "p50_ms": p50_ms,
        "p99_ms": p99_ms,
    }


def contributor(
    value: str | None, requests: int, expired: int, others: int, others_expired: int, **more: Any
) -> dict[str, Any]:
    """Return a row of the table `contributors`."""
    row: dict[str, Any] = {
        "label": None,
        "at": None,
        "dimension": "host",
        "value": value,
        "requests": requests,
        "expired": expired,
        "other_requests": others,
        "other_expired": others_expired,
        "extra": expired - requests * others_expired / others,
        "extra_of_all": 1.0,
    }
    return row | more


def test_contributors_are_ranked_by_what_they_add(spark: SparkSession) -> None:
    counts = "requests long, expired long, suspected long"
    summary = spark.createDataFrame(
        [("all", "", 1000, 100, 0)]
        # Less often than the others is not of interest, and comes last.
        + [("host", name, requests, expired - 1, 1) for name, requests, expired in (
            ("a", 600, 10), ("b", 200, 60), ("c", 100, 20), ("d", 100, 10)
        )]
        + [("request_type", None, 1000, 100, 0)],
        f"dimension string, value string, {counts}",
    )  # fmt: skip
    marks = spark.createDataFrame(
        [
            (label, AT, side_of, "host", name, requests, expired, 0)
            for label, sides in (("slow", ("before", "after")), ("quick", ("after", "before")))
            for name, before, after in (
                ("a", (300, 9), (300, 1)),
                ("b", (100, 10), (100, 50)),
                ("c", (100, 20), None),
                ("d", None, (100, 10)),
            )
            for side_of, counted in zip(sides, (before, after), strict=True)
            if counted is not None
            for requests, expired in [counted]
        ]
        + [("slow", AT, "after", "all", "", 500, 61, 0)],
        f"label string, at timestamp, side string, dimension string, value string, {counts}",
    )
    found = rows_of(find_contributors(summary, marks))
    of_trace = [row for row in found if row["at"] is None]
    ranked = [
        (row["dimension"], row["rank"], row["value"], row["other_requests"], row["other_expired"])
        for row in of_trace
    ]
    assert ranked == [
        ("host", 1, "b", 800, 40),
        ("host", 2, "c", 900, 80),
        ("host", 3, "d", 900, 90),
        ("request_type", 1, None, 0, 0),
    ]
    # 60 - 200 * 40 / 800.
    assert of_trace[0]["extra"] == pytest.approx(50)
    # a: 1 - 9; b: 50 - 10; c has no requests any more; d has none before.
    at_mark = {row["value"]: row for row in found if row["label"] == "slow"}
    assert [(value, row["extra"]) for value, row in at_mark.items()] == [
        ("b", pytest.approx(40)),
        ("d", pytest.approx(10)),
        ("c", 0),
    ]
    assert all(row["extra_of_all"] == pytest.approx(42) for row in at_mark.values())
    # Where fewer expired, what lost most is first.
    fewer = [row for row in found if row["label"] == "quick"]
    assert fewer[0]["value"] == "b"
    assert fewer[0]["extra"] == pytest.approx(-40)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1000, 40, 9000, 100), True),
        ((1000, 40, 9000, 190), False),  # less than twice
        ((20, 9, 9000, 9), False),  # nine expired
        ((100, 12, 200, 12), False),  # two times as often, but 1.8 standard errors
        ((1000, 0, 1000, 40), True),  # as at a mark that fixed it
        ((1000, 40, 1, 0), False),
        ((0, 0, 1000, 40), False),
    ],
)
def test_what_stands_out(counts: tuple[int, int, int, int], expected: bool) -> None:
    assert stands_out(contributor("a", *counts[:2], counts[2] or 1, counts[3])) is expected


def test_changes_are_described_with_their_hosts() -> None:
    marks = [side("before", 10_000, 20, 30.0, 180.0), side("after", 5_000, 250, 42.0, 500.0)]
    added = contributor("stock", 1_500, 230, 3_000, 10, **MARK) | {"extra_of_all": 240.0}
    noise = contributor("search", 3_500, 12, 7_000, 10, **MARK) | {"extra_of_all": 240.0}
    assert describe_changes(marks, [added, noise, contributor("other", 1, 1, 1, 1)]) == (
        "deployment (2026-03-02 09:01:00): the expired share rose from 0.20 % of 10,000 requests "
        "to 5.00 % of 5,000 requests; the median wait went from 30 ms to 42 ms, and p99 from 180 "
        "ms to 500 ms.",
        "Host stock accounts for 94 % of this change: of its requests 0.33 % expired before, and "
        "15.3 % after.",
    )
    same = [side("before", 100, 1, 30.0, 180.0), side("after", 100, 2, 30.0, 180.0)]
    (sentence,) = describe_changes(same, [added])
    assert "did not clearly change (1.00 % of 100 requests before, 2.00 % of 100" in sentence
    (sentence,) = describe_changes(same[1:], [])
    assert sentence == "All requests of the trace arrived after deployment (2026-03-02 09:01:00)."


def test_contributors_are_described() -> None:
    overall = {"requests": 10_000, "expired": 500}
    stock = contributor("stock", 3_000, 460, 7_000, 40)
    twin = stock | {"dimension": "request_type"}
    unnamed = contributor(None, 100, 50, 9_900, 450, dimension="request_type")
    assert describe_contributors(overall, [stock, twin, unnamed]) == (
        "Host stock has 30 % of the requests, and 92 % of those that expired.",
        "Request type without a name has 1 % of the requests, and 10 % of those that expired.",
    )
    even = contributor("a", 5_000, 260, 5_000, 240)
    assert describe_contributors(overall, [even]) == (
        "No host expires clearly more often than the others.",
    )
    assert describe_contributors(overall | {"expired": 0}, [even]) == ()
    alone = contributor("a", 10_000, 500, 1, 0) | {"other_requests": 0}
    assert describe_contributors(overall, [alone]) == ()
