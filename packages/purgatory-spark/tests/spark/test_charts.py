"""Charts of the report, drawn from rows."""

from __future__ import annotations

import re
import runpy
import warnings
from datetime import datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import pytest

from purgatory_spark._analysis import charts
from purgatory_spark._analysis.charts import expired_by_type, waiting_times, what_if_curve
from purgatory_spark._analysis.palette import themed, variables
from purgatory_spark._analysis.time_charts import (
    arrivals_over_time,
    complete_bins,
    expired_over_time,
    pending_over_time,
    waits_over_time,
)
from purgatory_spark._analysis.wait_scale import BINS_PER_DECADE

NOON = datetime(2022, 8, 22, 12)


def by_type(*names: str) -> str:
    """Draw the chart of request types whose requests all expired."""
    return expired_by_type(
        [{"value": name, "requests": 2, "expired": 2, "expired_share": 1.0} for name in names]
    )


def texts(svg: str) -> list[str]:
    """Return the texts in a chart, which must be well-formed XML."""
    return [
        "".join(element.itertext())
        for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


@pytest.mark.parametrize(
    "name",
    [
        "$x$",
        "from $5 to $10",
        "$\\frac$",
        "<script>alert(1)</script>",
        "a & b",
        "--> ]]>",
        "",
        "名前",
    ],
)
def test_type_name_is_drawn_as_text(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = by_type(name, "other")
    assert "<script" not in svg
    assert name in [*texts(svg), ""]


def test_long_name_loses_its_beginning() -> None:
    assert "…" + "x" * 43 in texts(by_type("/very/long" + "x" * 100))


def test_most_expired_types_are_on_top() -> None:
    rows = [
        {"value": f"t{n}", "requests": 10, "expired": n, "expired_share": n / 10} for n in range(6)
    ]
    shown = texts(expired_by_type(rows, max_types=3))
    assert [text for text in shown if text.startswith("t")] == ["t3", "t4", "t5"]
    assert [text.strip() for text in shown if " of " in text] == ["3 of 10", "4 of 10", "5 of 10"]


def rows_at(count: int, **values: Any) -> list[dict[str, Any]]:
    """Bins of a minute."""
    row = {"arrived": 0, "ended": 0, "expired": 0, "pending": 0, "p50_ms": None, "p99_ms": None}
    row |= values
    return [{"from_at": NOON + timedelta(minutes=number), **row} for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 250])
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"arrived": 1, "expired": 1, "pending": 10**9, "p50_ms": 0.0, "p99_ms": 2e9},
        {"arrived": 10**9, "p50_ms": 0.0, "p99_ms": 0.0},
    ],
)
def test_timelines_of_any_length_are_drawn(count: int, values: dict[str, float]) -> None:
    rows = rows_at(count, **values)
    for draw in (
        lambda rows, marks: pending_over_time(rows, 60_000.0, NOON, marks),
        expired_over_time,
        waits_over_time,
        lambda rows, marks: arrivals_over_time(rows, 60_000.0, marks),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert draw(rows, [{"at": NOON}]).startswith('<svg role="img" aria-label="')


def test_bins_that_a_trace_covers_in_part_are_left_out() -> None:
    rows = rows_at(7, arrived=300)
    rows[0]["arrived"] = rows[4]["arrived"] = 150
    rows[5]["arrived"] = rows[6]["arrived"] = 0
    first, last = NOON + timedelta(seconds=30), NOON + timedelta(seconds=270)
    complete = complete_bins(rows, 60_000.0, first, last)
    assert complete == rows[1:4]
    assert complete_bins(rows, 60_000.0, NOON, last) == rows[:4]
    assert complete_bins(rows, 60_000.0, NOON, NOON + timedelta(minutes=5)) == rows[:5]
    # Too short a trace has no other bins.
    assert complete_bins(rows[:1], 60_000.0, first, first) == rows[:1]


def test_pending_requests_are_dotted_after_the_last_arrival() -> None:
    rows = rows_at(5, arrived=1, pending=3)
    ended = pending_over_time(rows, 60_000.0, NOON + timedelta(minutes=3), [])
    going_on = pending_over_time(rows, 60_000.0, NOON + timedelta(minutes=5), [])
    assert "stroke-dasharray" in ended
    assert "stroke-dasharray" not in going_on


def test_colors_follow_the_page() -> None:
    svg = themed(by_type("#d1495b", "other"))
    assert "var(--expired, #d1495b)" in svg
    assert "fill: var(--soft, currentColor)" in svg
    assert "#d1495b" in texts(svg)
    waits = {"from_ms": 5.0, "completed": 5, "expired": 1, "satisfied_late": 1}
    histogram = themed(waiting_times([waits], BINS_PER_DECADE, {"p50": 5.0}))
    for chart in (svg, histogram):
        styles = re.findall('<text style="([^"]*)"', chart)
        assert len(styles) > 5
        assert all("fill: var(--" in style for style in styles), "black on a dark page"
        assert "#ffffff" not in chart, "white on a dark page"
    for ground in (0, 1):
        declared = set(re.findall(r"--[a-z-]+(?=:)", variables(ground)))
        assert set(re.findall(r"var\((--[a-z-]+)", svg)) <= declared


@pytest.mark.parametrize(
    ("waits", "quantiles"),
    [
        ({"from_ms": 0.001, "completed": 5, "expired": 0}, {"p50": 0.0, "p99": 0.0}),
        ({"from_ms": 2e9, "completed": 0, "expired": 1}, {"p50": 2e9, "p99": 2e9}),
    ],
)
def test_waits_in_one_bin_are_drawn(waits: dict[str, Any], quantiles: dict[str, float]) -> None:
    late = waits | {"satisfied_late": waits["expired"]}
    shown = texts(waiting_times([late], BINS_PER_DECADE, quantiles))
    assert {"completed", "expired"} <= set(shown)
    assert ("satisfied after the timeout" in shown) == bool(waits["expired"])
    assert ("p50, p99" in shown) == (quantiles["p50"] > 0)


def test_curve_of_timeout_zero_is_drawn() -> None:
    row = {"timeout_ms": 0, "expired_share": 1.0, "peak_bytes": 0.0}
    assert "B at the peak, busiest host" in texts(what_if_curve([row], [0, 0]))


def test_small_shares_are_drawn_on_a_log_scale() -> None:
    rows = [
        {"timeout_ms": timeout, "expired_share": share, "peak_bytes": 1.0}
        for timeout, share in ((1, 0.5), (10, 1e-6), (100, 0.0))
    ]
    assert {"0.0001 %", "100.0 %"} <= set(texts(what_if_curve(rows, [])))
    shown = texts(what_if_curve(rows[:1], []))
    assert "50%" in shown
    assert "0.0001 %" not in shown


def test_chart_has_no_date_and_no_size() -> None:
    svg = by_type("one", "two")
    tag = re.match("<svg[^>]*>", svg)
    assert tag is not None
    assert not re.search(r" (width|height)=", tag[0])
    assert "<dc:date>" not in svg


def test_pyplot_stays_the_users() -> None:
    before = matplotlib.get_backend()
    matplotlib.use("template")
    try:
        drawn = runpy.run_path(charts.__file__)["what_if_curve"](
            [
                {"timeout_ms": timeout_ms, "expired_share": 0.5, "peak_bytes": 1.0}
                for timeout_ms in (1, 10)
            ],
            [10],
        )
        assert matplotlib.get_backend() == "template"
        assert plt.get_fignums() == []
    finally:
        matplotlib.use(before)
    assert "10 ms" in texts(drawn)
