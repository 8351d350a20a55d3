"""Charts of the report, as SVG text."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
)

from purgatory_spark._analysis.palette import light_color, themed
from purgatory_spark._analysis.small_tables import SummaryRow, WaitRow, WhatIfRow
from purgatory_spark._analysis.units import binary_unit, format_ms, format_share

COMPLETED_COLOR = light_color("completed")
EXPIRED_COLOR = light_color("expired")
LINE_COLOR = light_color("line")
INK_COLOR = light_color("ink")

#: The width of a chart in inches: on a page of a desktop's width, and on a phone.
WIDE = 9.0
NARROW = 4.4

#: Below this share, a curve on an axis from 0 to 1 can't be told from the axis.
_SMALL_SHARE = 0.01

#: Matplotlib settings of every chart in a report.
STYLE: Any = {
    # Text stays text: readers can search for it, and it has the page's font.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK_COLOR,
    "axes.edgecolor": light_color("muted"),
    "axes.labelcolor": light_color("soft"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": light_color("grid"),
    "xtick.color": light_color("soft"),
    "ytick.color": light_color("soft"),
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


@dataclass(frozen=True)
class PageChart:
    """A chart in the page's colors, as SVG of the widths `WIDE` and `NARROW`."""

    wide: Markup
    narrow: Markup


def page_chart(draw: Callable[[float], str]) -> PageChart:
    """Draw a chart, by its width in inches, for a desktop and for a phone."""
    # Markup is safe: these charts are our own, and matplotlib escapes the trace's names in them.
    wide, narrow = (Markup(themed(draw(width))) for width in (WIDE, NARROW))
    return PageChart(wide, narrow)


def new_figure(height: float = 2.9, width: float = WIDE) -> tuple[Figure, Axes]:
    with plt.rc_context(STYLE):
        # Not by pyplot: its backend, and the figures that it shows, are the user's.
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
    return figure, axes


def to_svg(figure: Figure, title: str) -> str:
    """Render a figure as an `<svg>` element without a size; the same figure gives the same text."""
    for each in figure.findobj(Text):
        # Those that are added outside of `STYLE`, such as a legend's.
        if isinstance(each, Text) and each.get_color() == "black":
            each.set_color(INK_COLOR)
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


def waiting_times(
    waits: Sequence[WaitRow], bins_per_decade: int, quantiles: dict[str, float], width: float = WIDE
) -> str:
    """Draw the histogram of the waiting times on a log scale.

    Completed and expired requests are stacked. An outline shows after what time the conditions of
    expired requests held, too late.
    """
    figure, axes = new_figure(3.2, width)
    left = [row["from_ms"] for row in waits]
    widths = [row["from_ms"] * (10 ** (1 / bins_per_decade) - 1) for row in waits]
    completed = [row["completed"] for row in waits]
    expired = [row["expired"] for row in waits]
    axes.bar(left, completed, widths, align="edge", color=COMPLETED_COLOR, label="completed")
    axes.bar(
        left, expired, widths, align="edge", bottom=completed, color=EXPIRED_COLOR, label="expired"
    )
    late = [row["satisfied_late"] for row in waits]
    if any(late):
        axes.bar(
            left,
            late,
            widths,
            align="edge",
            facecolor="none",
            edgecolor=EXPIRED_COLOR,
            linewidth=0.8,
            label="satisfied after the timeout",
        )
    axes.set_xscale("log")
    _log_ticks(axes)
    axes.set_xlabel("waiting time")
    axes.set_ylabel("requests")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ms(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _mark_quantiles(axes, quantiles)
    if width > NARROW:
        axes.legend(loc="upper left", frameon=False)
    else:
        # Below the bars, which leave no room.
        figure.legend(loc="outside lower left", frameon=False, ncols=2)
    return to_svg(figure, "Waiting times on a log scale")


def _log_ticks(axes: Axes) -> None:
    """Leave out powers of ten from the horizontal axis that have no room for labels."""
    if axes.figure.get_figwidth() <= NARROW:  # type: ignore[union-attr]
        axes.xaxis.set_major_locator(LogLocator(numticks=5))
        axes.xaxis.set_minor_formatter(NullFormatter())


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
            axes.axvline(value, color=INK_COLOR, linewidth=1, linestyle=(0, (2, 2)))
            axes.text(
                value,
                top * (1.02 + 0.085 * level),
                ", ".join(names),
                ha="center",
                va="bottom",
                fontsize=9,
            )


def expired_by_type(summary: Sequence[SummaryRow], max_types: int = 12, width: float = WIDE) -> str:
    """Draw the expired share by request type, the largest first; types without any are left out."""
    rows = [row for row in summary if row["expired"]]
    rows = sorted(rows, key=lambda row: (-row["expired_share"], -row["requests"], row["value"]))[
        :max_types
    ][::-1]
    figure, axes = new_figure(0.95 + 0.3 * len(rows), width)
    longest = 44 if width > NARROW else 18
    names = [_short(row["value"], longest) for row in rows]
    shares = [row["expired_share"] for row in rows]
    axes.barh(range(len(rows)), shares, color=EXPIRED_COLOR, height=0.62)
    axes.set_yticks(range(len(rows)), names, parse_math=False)  # or `$a$` is a formula
    # With room for the numbers at the bars' ends.
    axes.set_xlim(0, max(*shares, 1e-4) * (1.18 if width > NARROW else 1.7))
    axes.set_xlabel("expired share")
    axes.xaxis.set_major_locator(MaxNLocator(8 if width > NARROW else 4))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(axis="y", visible=False)
    for place, row in enumerate(rows):
        axes.text(
            row["expired_share"],
            place,
            f"  {row['expired']:,} of {row['requests']:,}",
            va="center",
            fontsize=9,
        )
    return to_svg(figure, "Share of requests that expired, by type")


def what_if_curve(
    rows: Sequence[WhatIfRow],
    in_use: Sequence[int],
    recommended: int | None = None,
    width: float = WIDE,
) -> str:
    """Draw the expired share and the peak memory against the timeout.

    The axis of the shares is logarithmic if one of them is small. A share of 0 is then an empty
    circle at the bottom.
    """
    figure, axes = new_figure(3.4, width)
    timeouts = [max(row["timeout_ms"], 0.5) for row in rows]
    shares = [row["expired_share"] for row in rows]
    axes.plot(timeouts, shares, "o-", color=EXPIRED_COLOR, markersize=4, label="expired")
    axes.set_xscale("log")
    _log_ticks(axes)
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
    axes.set_ylabel("expired share", color=EXPIRED_COLOR)
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
    lines: dict[int, tuple[str, Any, str]] = dict.fromkeys(
        in_use, ("in use", (0, (4, 3)), INK_COLOR)
    )
    if recommended is not None:
        name = "in use, recommended" if recommended in lines else "recommended"
        lines[recommended] = (name, "-", COMPLETED_COLOR)
    for number, (timeout, (name, style, shade)) in enumerate(sorted(lines.items())):
        at = max(timeout, 0.5)
        axes.axvline(at, color=shade, linewidth=1.2, linestyle=style)
        # One above the other, as they may be close.
        axes.annotate(
            f"{name}: {format_ms(timeout)}",
            (at, 1),
            (0, 3 + 11 * number),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=shade,
        )
    return to_svg(figure, "Effect of other timeouts")


def _short(name: str | None, longest: int) -> str:
    name = "(none)" if name is None else name
    return name if len(name) <= longest else "…" + name[1 - longest :]
