"""Charts of the report, made from rows."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from purgatory_spark._analysis import units
from purgatory_spark._analysis.chart_files import chart_frame, chart_script, chart_styles
from purgatory_spark._analysis.charts import Chart, waiting_times, what_if_curve
from purgatory_spark._analysis.palette import PALETTE
from purgatory_spark._analysis.time_charts import TimeCharts, complete_bins
from purgatory_spark._analysis.wait_scale import BINS_PER_DECADE
from tests.browser.browser import open_browser

NOON = datetime(2022, 8, 22, 12)
MINUTE_MS = 60_000


def drawn(chart: Chart) -> dict[str, Any]:
    """Return what the page's script is told of a chart."""
    known: dict[str, Any] = json.loads(chart.json)
    return known


def values(chart: Chart) -> list[list[Any]]:
    return [line["values"] for line in drawn(chart)["lines"]]


def rows_at(count: int, **values: Any) -> list[dict[str, Any]]:
    """Bins of a minute."""
    row = {
        "arrived": 0,
        "ended": 0,
        "expired": 0,
        "pending": 0,
        "peak_pending": 0,
        "p50_ms": None,
        "p99_ms": None,
    }
    row |= values
    return [{"from_at": NOON + timedelta(minutes=number), **row} for number in range(count)]


def over_time(rows: list[Any], marks: Any = ()) -> TimeCharts:
    return TimeCharts(rows, float(MINUTE_MS), marks, "trace-1")


@pytest.mark.parametrize("count", [1, 2, 250])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"arrived": 1, "expired": 1, "peak_pending": 10**9, "p50_ms": 0.0, "p99_ms": 2e9},
        {"arrived": 10**9, "p50_ms": 0.0, "p99_ms": 0.0},
    ],
)
def test_timelines_of_any_length_have_a_value_for_each_bin(
    count: int, given: dict[str, float]
) -> None:
    rows = rows_at(count, **given)
    charts = over_time(rows, [{"at": NOON, "label": "deployment"}])
    made = [
        charts.arrivals(NOON, NOON),
        charts.pending(NOON),
        charts.expired(),
        charts.waits(),
    ]
    for chart in made:
        known = drawn(chart)
        # One axis, so that they are zoomed together.
        assert known["x"] == {
            "start": 1_661_169_600_000,
            "step": MINUTE_MS,
            "count": count,
        }
        assert known["group"] == "trace-1"
        assert known["verticals"][0]["label"] == "deployment"
        assert {len(line["values"]) for line in known["lines"]} == {count}
        assert len(chart.json) < 20_000


def test_gaps_have_no_value() -> None:
    rows = rows_at(2)
    rows[1] |= {"arrived": 4, "expired": 1, "p50_ms": 0.0, "p99_ms": 8.0}
    charts = over_time(rows)
    assert values(charts.expired()) == [[None, 0.25]]
    assert values(charts.waits()) == [[None, 8.0], [None, 0]]
    # 0 has a place on a logarithmic axis, and shares have one that is not.
    assert drawn(charts.waits())["y"] == {"unit": "ms", "log": True, "zero": 0.8}
    assert drawn(charts.expired())["y"]["log"] is False


def test_marks_of_a_moment_are_one_line() -> None:
    marks = [
        {"at": NOON + timedelta(seconds=1), "label": label, "side": side}
        for label in ("one", "other")
        for side in ("before", "after")
    ]
    verticals = drawn(over_time(rows_at(1), marks).expired())["verticals"]
    assert verticals == [{"at": 1_661_169_601_000, "label": "one, other", "color": "ink"}]


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
    rates = values(over_time(rows).arrivals(first, last))
    assert rates == [[None, 5.0, 5.0, 5.0, None, None, None]]


def test_pending_requests_are_the_peaks_and_the_last_arrival_is_marked() -> None:
    rows = rows_at(5, arrived=1, pending=0, peak_pending=3)
    charts = over_time(rows)
    assert values(charts.pending(NOON)) == [[3] * 5]
    for minutes, labels in ((3, ["last arrival"]), (5, [])):
        chart = charts.pending(NOON + timedelta(minutes=minutes))
        assert [line.label for line in chart.verticals] == labels


@pytest.mark.parametrize(
    ("waits", "quantiles"),
    [
        ({"from_ms": 0.001, "completed": 5, "expired": 0}, {"p50": 0.0, "p99": 0.0}),
        ({"from_ms": 2e9, "completed": 0, "expired": 1}, {"p50": 2e9, "p99": 2e9}),
    ],
)
def test_waits_in_one_bin_are_drawn(waits: dict[str, Any], quantiles: dict[str, float]) -> None:
    chart = waiting_times(
        [waits | {"bin": 7, "satisfied_late": waits["expired"]}], BINS_PER_DECADE, quantiles
    )
    late = [[1, None]] if waits["expired"] else []
    assert values(chart) == [[waits["completed"], 0], [waits["expired"], 0], *late]
    assert [line.label for line in chart.verticals] == (
        ["p50, p99"] if quantiles["p50"] > 0 else []
    )


def test_waits_have_all_bins_between_the_first_and_the_last() -> None:
    waits = [
        {"bin": number, "from_ms": 0.0, "completed": number, "expired": 1, "satisfied_late": 0}
        for number in (20, 22)
    ]
    chart = waiting_times(waits, BINS_PER_DECADE, {})
    assert values(chart) == [[20, 0, 22, 0], [1, 0, 1, 0]]
    assert drawn(chart)["x"]["names"][0] == "10 ms to 11.2 ms"
    assert drawn(chart)["x"]["values"][0] == 10


def test_curve_of_timeout_zero_has_a_place_on_the_axis() -> None:
    row = {"timeout_ms": 0, "expired_share": 1.0, "peak_bytes": 0.0}
    chart = what_if_curve([row], [0, 0], 0)
    assert drawn(chart)["x"] == {"values": [0.5], "names": ["0"]}
    assert [line.label for line in chart.verticals] == ["in use, recommended: 0"]


def test_small_shares_are_on_a_log_scale() -> None:
    rows = [
        {"timeout_ms": timeout, "expired_share": share, "peak_bytes": 1.0}
        for timeout, share in ((1, 0.5), (10, 1e-6), (100, 0.0))
    ]
    chart = what_if_curve(rows, [100], 10)
    assert drawn(chart)["y"] == {"unit": "share", "log": True, "zero": 1e-07}
    assert [(line.at, line.label) for line in chart.verticals] == [
        (10, "recommended: 10 ms"),
        (100, "in use: 100 ms"),
    ]
    assert drawn(what_if_curve(rows[:1], []))["y"]["log"] is False


def test_frame_of_a_chart_loads_nothing_and_escapes_names() -> None:
    mark = {"at": NOON, "label": "</script><script>alert(1)</script>\"'", "side": "before"}
    frame = chart_frame(over_time(rows_at(1), [mark]).expired())
    assert "<script" not in frame
    assert re.findall(r"<(\w+)", frame) == ["iframe"]
    assert "alert(1)" in frame
    assert len(frame) < 100_000


def test_page_has_the_charts_colors_and_licence() -> None:
    for name in PALETTE:
        assert chart_styles().count(f"--{name}:") == 2, "on a light and on a dark ground"
    assert "Permission is hereby granted" in chart_script()
    assert "</script" not in chart_script()
    assert "<!--" not in chart_script()


@pytest.mark.slow
def test_charts_show_numbers_as_tables_do() -> None:
    given = [
        (unit, value)
        for unit in ("ms", "share", "bytes", "number")
        for value in (0, 1e-4, 0.0021, 0.1234, 0.999, 1, 9.87, 12.34, 999, 1500, 9e4, 1.5e6, 3e10)
    ]
    formats: dict[str, Any] = {
        "ms": units.format_ms,
        "share": units.format_share,
        "bytes": units.format_bytes,
        "number": units.format_number,
    }
    expected = [formats[unit](value) for unit, value in given]
    with open_browser() as browser:
        page = browser.new_page()
        page.set_content(f"<body></body><script>{chart_script()}</script>")
        found = page.evaluate(
            "(given) => given.map(([unit, value]) => FORMATS[unit](value))",
            [list(pair) for pair in given],
        )
    assert [text.replace("\u00a0", " ") for text in found] == expected
