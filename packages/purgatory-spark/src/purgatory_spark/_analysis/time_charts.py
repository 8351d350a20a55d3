"""Charts of a trace over time, as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
)

from purgatory_spark._analysis.charts import (
    EXPIRED_COLOR,
    INK_COLOR,
    LINE_COLOR,
    NARROW,
    WIDE,
    new_figure,
    to_svg,
)
from purgatory_spark._analysis.small_tables import MarkRow, TimelineRow
from purgatory_spark._analysis.units import format_ms, format_number

#: From the least to the largest value of an axis whose powers of ten are enough as labels.
_WIDE = 30


def _over_time(
    figure: Figure,
    axes: Axes,
    marks: Sequence[MarkRow],
    title: str,
    label: str = "time of arrival (UTC)",
) -> str:
    """Add the axis of time and a dashed line at each mark, and return the chart."""
    times: set[Any] = {mark["at"] for mark in marks}  # matplotlib's types know numbers only
    for at in times:
        axes.axvline(at, color=INK_COLOR, linewidth=1, linestyle=(0, (4, 3)))
    is_narrow = figure.get_figwidth() <= NARROW
    locator = AutoDateLocator(minticks=3, maxticks=5 if is_narrow else 12)  # type: ignore[no-untyped-call]
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    return to_svg(figure, title)


def complete_bins(
    timeline: list[TimelineRow], bin_ms: float, first: datetime, last: datetime
) -> list[TimelineRow]:
    """Return the bins that a trace covers as a whole; all if there is none.

    A trace begins and ends within a bin, whose counts are smaller for that alone.
    """
    width = timedelta(milliseconds=bin_ms)
    complete = [row for row in timeline if first <= row["from_at"] <= last - width]
    return complete or timeline


def _steps(
    rows: Sequence[TimelineRow], values: Sequence[float], bin_ms: float
) -> tuple[list[Any], list[float]]:
    """Return the points of steps that are as wide as the bins, the last one too."""
    end = rows[-1]["from_at"] + timedelta(milliseconds=bin_ms)
    return [*(row["from_at"] for row in rows), end], [*values, values[-1]]


def pending_over_time(
    timeline: list[TimelineRow],
    bin_ms: float,
    last_arrival: datetime,
    marks: Sequence[MarkRow],
    width: float = WIDE,
) -> str:
    """Draw the pending requests over time; the line is dotted after the last arrival."""
    figure, axes = new_figure(3.1, width)
    # The number is that at the end of a bin.
    covered = last_arrival - timedelta(milliseconds=bin_ms)
    known = [row for row in timeline if row["from_at"] <= covered] or timeline
    rest = timeline[len(known) :]
    times, pending = _steps(known, [row["pending"] for row in known], bin_ms)
    axes.fill_between(times, pending, step="post", color=LINE_COLOR, alpha=0.18, linewidth=0)
    axes.step(times, pending, where="post", color=LINE_COLOR, linewidth=1.3)
    if rest:
        times, pending = _steps(rest, [row["pending"] for row in rest], bin_ms)
        axes.step(times, pending, where="post", color=LINE_COLOR, linewidth=1.1, linestyle=":")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("pending requests")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return _over_time(figure, axes, marks, "Pending requests over time", "time (UTC)")


def expired_over_time(
    timeline: list[TimelineRow], marks: Sequence[MarkRow], width: float = WIDE
) -> str:
    """Draw the expired share by time of arrival, with a gap at each bin without arrivals."""
    figure, axes = new_figure(2.7, width)
    times: list[Any] = [row["from_at"] for row in timeline]
    share = [
        row["expired"] / row["arrived"] if row["arrived"] else float("nan") for row in timeline
    ]
    axes.step(times, share, where="post", color=EXPIRED_COLOR, linewidth=1.3)
    axes.plot(times, share, ".", color=EXPIRED_COLOR, markersize=2)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("expired share")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    return _over_time(figure, axes, marks, "Share of requests that expired, over time")


def arrivals_over_time(
    timeline: list[TimelineRow], bin_ms: float, marks: Sequence[MarkRow], width: float = WIDE
) -> str:
    """Draw how many requests arrived a second; the timeline is that of `complete_bins`."""
    figure, axes = new_figure(2.7, width)
    rates = [row["arrived"] / bin_ms * 1000 for row in timeline]
    times, rates = _steps(timeline, rates, bin_ms)
    axes.fill_between(times, rates, step="post", color=LINE_COLOR, alpha=0.18, linewidth=0)
    axes.step(times, rates, where="post", color=LINE_COLOR, linewidth=1.3)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("arrivals a second")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    return _over_time(figure, axes, marks, "Arrivals over time")


def waits_over_time(
    timeline: list[TimelineRow], marks: Sequence[MarkRow], width: float = WIDE
) -> str:
    """Draw p50 and p99 of the waits on a log scale, with gaps without arrivals and at 0."""
    figure, axes = new_figure(2.9, width)
    times: list[Any] = [row["from_at"] for row in timeline]
    lines = (
        ("p99", EXPIRED_COLOR, [row["p99_ms"] for row in timeline]),
        ("p50", LINE_COLOR, [row["p50_ms"] for row in timeline]),
    )
    for label, color, quantiles in lines:
        waits = [quantile or float("nan") for quantile in quantiles]
        axes.step(times, waits, where="post", color=color, linewidth=1.3, label=label)
        axes.plot(times, waits, ".", color=color, markersize=2)
    if any(row["p99_ms"] for row in timeline):
        axes.set_yscale("log")
    axes.set_ylabel("waiting time")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ms(value)))
    low, high = axes.get_ylim()
    if low > 0 and high / low > _WIDE:
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif low > 0:
        # There may be one power of ten on the axis, or none.
        axes.yaxis.set_minor_locator(LogLocator(subs=(1.5, 2, 3, 5, 7)))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: format_ms(value)))
    # Above the lines, as the 99th percentile is at the top.
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0, frameon=False)
    return _over_time(figure, axes, marks, "Waiting times over time")
