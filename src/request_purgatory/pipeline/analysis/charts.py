"""The report's pictures, as SVG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from request_purgatory.pipeline.analysis.units import bytes_unit, ms_text

Row = dict[str, Any]

COMPLETED = "#2f7d6d"
EXPIRED = "#d1495b"
LINE = "#30507a"
MUTED = "#8a94a3"
GRID = "#e6e9ee"

_STYLE: Any = {
    # Text stays text: it is searchable, and drawn in the page's own font.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": "#3c4655",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": "#5a6475",
    "ytick.color": "#5a6475",
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def _figure(height: float = 2.9, width: float = 9.0) -> tuple[Figure, Axes]:
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    return figure, axes


def _svg(figure: Figure, title: str) -> str:
    text = io.StringIO()
    with plt.rc_context(_STYLE), warnings.catch_warnings():
        # The reader's browser draws the text, with fonts of its own for what this machine's have no
        # glyphs for.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(text, format="svg", metadata={"Date": None, "Title": title})
    plt.close(figure)
    svg = text.getvalue()
    # Inside a page there is no place for a prolog, and the page gives the width.
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def _mark_lines(axes: Axes, marks: Sequence[Row]) -> None:
    for at in {mark["at"] for mark in marks}:
        axes.axvline(at, color="#222", linewidth=1, linestyle=(0, (4, 3)))


def _dates(axes: Axes) -> None:
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def pending_over_time(timeline: list[Row], marks: Sequence[Row]) -> str:
    """Requests pending at the end of each bin of time."""
    figure, axes = _figure()
    times = [row["from_at"] for row in timeline]
    pending = [row["pending"] for row in timeline]
    axes.fill_between(times, pending, step="post", color=LINE, alpha=0.18, linewidth=0)
    axes.step(times, pending, where="post", color=LINE, linewidth=1.3)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("pending requests")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _mark_lines(axes, marks)
    _dates(axes)
    return _svg(figure, "Pending requests over time")


def expired_over_time(timeline: list[Row], marks: Sequence[Row]) -> str:
    """The share of the requests that arrived in each bin and expired.

    Gaps where nothing arrived.
    """
    figure, axes = _figure(2.5)
    times = [row["from_at"] for row in timeline]
    share = [
        row["expired"] / row["arrived"] if row["arrived"] else float("nan") for row in timeline
    ]
    axes.step(times, share, where="post", color=EXPIRED, linewidth=1.3)
    axes.plot(times, share, ".", color=EXPIRED, markersize=2)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("expired, by arrival")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    _mark_lines(axes, marks)
    _dates(axes)
    return _svg(figure, "Share of requests that expired, over time")


def waiting_times(waits: list[Row], bins_per_decade: int, quantiles: dict[str, float]) -> str:
    """Histogram of the waiting times on a log scale, completed and expired stacked, with quantiles marked."""
    figure, axes = _figure(3.2)
    left = [row["from_ms"] for row in waits]
    width = [row["from_ms"] * (10 ** (1 / bins_per_decade) - 1) for row in waits]
    completed = [row["completed"] for row in waits]
    expired = [row["expired"] for row in waits]
    axes.bar(left, completed, width, align="edge", color=COMPLETED, label="completed")
    axes.bar(left, expired, width, align="edge", bottom=completed, color=EXPIRED, label="expired")
    axes.set_xscale("log")
    axes.set_xlabel("waiting time")
    axes.set_ylabel("requests")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: ms_text(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _, top = axes.get_ylim()
    placed: dict[float, list[str]] = {}
    for name, value in quantiles.items():
        placed.setdefault(value, []).append(name)
    level = 0
    last = 0.0
    for value, names in sorted(placed.items()):
        if value > 0:
            # Labels that would run into one another stand on steps.
            level = level + 1 if value < last * 2.5 else 0
            last = value
            axes.axvline(value, color="#222", linewidth=1, linestyle=(0, (2, 2)))
            axes.text(
                value,
                top * (1.02 + 0.085 * level),
                ", ".join(names),
                ha="center",
                va="bottom",
                fontsize=9,
            )
    axes.legend(loc="upper left")
    return _svg(figure, "Waiting times on a log scale")


def expired_by_type(summary: list[Row], most: int = 12) -> str:
    """The expired share of the request types that had any expired, the largest first."""
    rows = [row for row in summary if row["expired"]]
    rows = sorted(rows, key=lambda row: (-row["expired_share"], -row["requests"], row["value"]))[
        :most
    ][::-1]
    figure, axes = _figure(0.75 + 0.3 * len(rows))
    names = [_short(row["value"]) for row in rows]
    shares = [row["expired_share"] for row in rows]
    axes.barh(range(len(rows)), shares, color=EXPIRED, height=0.62)
    axes.set_yticks(range(len(rows)), names, parse_math=False)  # a name with two $ is no formula
    axes.set_xlim(0, max(*shares, 1e-4) * 1.18)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(axis="y", visible=False)
    for place, row in enumerate(rows):
        axes.text(
            row["expired_share"],
            place,
            f"  {row['expired']:,} of {row['requests']:,}",
            va="center",
            fontsize=9,
            color="#3c4655",
        )
    return _svg(figure, "Share of requests that expired, by type")


def what_if_curve(rows: list[Row], in_use: Sequence[int]) -> str:
    """Expired share, and memory at the peak, against the timeout."""
    figure, axes = _figure(3.2)
    timeouts = [max(row["timeout_ms"], 0.5) for row in rows]
    axes.plot(
        timeouts,
        [row["expired_share"] for row in rows],
        "o-",
        color=EXPIRED,
        markersize=4,
        label="expired",
    )
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("timeout")
    axes.set_ylabel("expired", color=EXPIRED)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: ms_text(value)))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    with plt.rc_context(_STYLE):
        memory = axes.twinx()
    memory.grid(visible=False)
    peak = [row["peak_bytes"] for row in rows]
    unit, scale = bytes_unit(max(peak))
    memory.plot(
        timeouts,
        [value / scale for value in peak],
        "s--",
        color=LINE,
        markersize=3.5,
        linewidth=1.2,
    )
    memory.set_ylim(bottom=0)
    memory.set_ylabel(f"{unit} at the peak, busiest host", color=LINE)
    for timeout in set(in_use):
        axes.axvline(max(timeout, 0.5), color="#222", linewidth=1, linestyle=(0, (4, 3)))
    return _svg(figure, "What other timeouts would have done")


def _short(name: str, longest: int = 44) -> str:
    return name if len(name) <= longest else "…" + name[1 - longest :]
