"""Charts of the report, as SVG text."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, PercentFormatter

from request_purgatory.pipeline.analysis.units import binary_unit, format_ms, format_share

Row = dict[str, Any]

COMPLETED_COLOR = "#2f7d6d"
EXPIRED_COLOR = "#d1495b"
LINE_COLOR = "#30507a"
MUTED_COLOR = "#8a94a3"
GRID_COLOR = "#e6e9ee"

#: Below this share, a curve on an axis from 0 to 1 can't be told from the axis.
_SMALL_SHARE = 0.01

#: Matplotlib settings of every chart in a report.
STYLE: Any = {
    # Text stays text: readers can search for it, and it has the page's font.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": MUTED_COLOR,
    "axes.labelcolor": "#3c4655",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID_COLOR,
    "xtick.color": "#5a6475",
    "ytick.color": "#5a6475",
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def new_figure(height: float = 2.9, width: float = 9.0) -> tuple[Figure, Axes]:
    """Create a figure in the report's `STYLE`.

    Args:
        height: Inches.
        width: Inches.

    Returns:
        The figure and its only axes.
    """
    with plt.rc_context(STYLE):
        # Not by pyplot: its backend, and the figures that it shows, are the user's.
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
    return figure, axes


def to_svg(figure: Figure, title: str) -> str:
    """Render a figure for embedding in a page.

    Args:
        figure: A figure in the report's `STYLE`.
        title: Text for readers who can't see the chart.

    Returns:
        An `<svg>` element without a size of its own: the page sets the width. The same figure
        always gives the same text.
    """
    text = io.StringIO()
    with plt.rc_context(STYLE), warnings.catch_warnings():
        # The reader's browser draws the text, so glyphs that this machine's fonts lack do not
        # matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(text, format="svg", metadata={"Date": None, "Title": title})
    svg = text.getvalue()
    # An element inside a page has no XML prolog.
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def waiting_times(waits: list[Row], bins_per_decade: int, quantiles: dict[str, float]) -> str:
    """Draw the histogram of the waiting times on a log scale.

    Completed and expired requests are stacked. An outline shows after what time the conditions of
    expired requests held, too late.

    Args:
        waits: Rows of the table `waits`, ascending.
        bins_per_decade: Bins of these rows in each factor of ten.
        quantiles: Labels and waits in ms: a dashed line for each wait above 0.

    Returns:
        SVG text.
    """
    figure, axes = new_figure(3.2)
    left = [row["from_ms"] for row in waits]
    width = [row["from_ms"] * (10 ** (1 / bins_per_decade) - 1) for row in waits]
    completed = [row["completed"] for row in waits]
    expired = [row["expired"] for row in waits]
    axes.bar(left, completed, width, align="edge", color=COMPLETED_COLOR, label="completed")
    axes.bar(
        left, expired, width, align="edge", bottom=completed, color=EXPIRED_COLOR, label="expired"
    )
    late = [row["satisfied_late"] for row in waits]
    if any(late):
        axes.bar(
            left,
            late,
            width,
            align="edge",
            facecolor="none",
            edgecolor=EXPIRED_COLOR,
            linewidth=0.8,
            label="satisfied after the timeout",
        )
    axes.set_xscale("log")
    axes.set_xlabel("waiting time")
    axes.set_ylabel("requests")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ms(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _mark_quantiles(axes, quantiles)
    axes.legend(loc="upper left")
    return to_svg(figure, "Waiting times on a log scale")


def _mark_quantiles(axes: Axes, quantiles: dict[str, float]) -> None:
    _, top = axes.get_ylim()
    placed: dict[float, list[str]] = {}
    for name, value in quantiles.items():
        placed.setdefault(value, []).append(name)
    level = 0
    last = 0.0
    for value, names in sorted(placed.items()):
        if value > 0:
            # Labels of close quantiles would overlap at the same height.
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


def expired_by_type(summary: list[Row], max_types: int = 12) -> str:
    """Draw the expired share by request type, the largest first.

    Args:
        summary: Rows of the table `summary` whose dimension is `request_type`. Types without
            expired requests are left out.
        max_types: Maximum number of types.

    Returns:
        SVG text.
    """
    rows = [row for row in summary if row["expired"]]
    rows = sorted(rows, key=lambda row: (-row["expired_share"], -row["requests"], row["value"]))[
        :max_types
    ][::-1]
    figure, axes = new_figure(0.75 + 0.3 * len(rows))
    names = [_short(row["value"]) for row in rows]
    shares = [row["expired_share"] for row in rows]
    axes.barh(range(len(rows)), shares, color=EXPIRED_COLOR, height=0.62)
    axes.set_yticks(range(len(rows)), names, parse_math=False)  # or `$a$` is a formula
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
    return to_svg(figure, "Share of requests that expired, by type")


def what_if_curve(rows: list[Row], in_use: Sequence[int]) -> str:
    """Draw the expired share and the peak memory against the timeout.

    The axis of the shares is logarithmic if one of them is small. A share of 0 is then an empty
    circle at the bottom.

    Args:
        rows: Rows of the table `what_if`, in order of the timeouts.
        in_use: The trace's own timeouts in ms: a dashed line for each.

    Returns:
        SVG text.
    """
    figure, axes = new_figure(3.2)
    timeouts = [max(row["timeout_ms"], 0.5) for row in rows]
    shares = [row["expired_share"] for row in rows]
    axes.plot(timeouts, shares, "o-", color=EXPIRED_COLOR, markersize=4, label="expired")
    axes.set_xscale("log")
    least = min((share for share in shares if share > 0), default=1.0)
    if least < _SMALL_SHARE:
        bottom = 10 ** math.floor(math.log10(least) - 0.3)
        axes.set_yscale("log")
        axes.set_ylim(bottom, 1.5)
        none = [timeout for timeout, share in zip(timeouts, shares, strict=True) if not share]
        axes.plot(
            none,
            [bottom] * len(none),
            "o",
            color=EXPIRED_COLOR,
            markersize=4,
            fillstyle="none",
            clip_on=False,
        )
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_share(value)))
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("timeout")
    axes.set_ylabel("expired", color=EXPIRED_COLOR)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ms(value)))
    with plt.rc_context(STYLE):
        memory = axes.twinx()
    memory.grid(visible=False)
    peak = [row["peak_bytes"] for row in rows]
    unit, scale = binary_unit(max(peak))
    memory.plot(
        timeouts,
        [value / scale for value in peak],
        "s--",
        color=LINE_COLOR,
        markersize=3.5,
        linewidth=1.2,
    )
    memory.set_ylim(bottom=0)
    memory.set_ylabel(f"{unit} at the peak, busiest host", color=LINE_COLOR)
    for timeout in set(in_use):
        axes.axvline(max(timeout, 0.5), color="#222", linewidth=1, linestyle=(0, (4, 3)))
    return to_svg(figure, "Effect of other timeouts")


def _short(name: str, longest: int = 44) -> str:
    return name if len(name) <= longest else "…" + name[1 - longest :]
