"""Charts of benchmark results, as SVG text: the published benchmark's figures and others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.report.svg import NARROW, STYLE, WIDE, light_color, new_figure, to_svg

Row = dict[str, Any]

#: Our color is the strongest and our baseline's a lighter shade of it; other sides' are distinct.
_COLORS = {
    "request_purgatory": light_color("expired"),
    "request_purgatory (manual clock)": light_color("expired-light"),
    "request_purgatory (0.8 design)": light_color("expired-light"),
    "the loop without a purgatory": light_color("muted"),
    "kafka": light_color("line"),
    "kafka (list queue)": light_color("line-light"),
    "netty": light_color("completed"),
    "asyncio": light_color("brown"),
    "uvloop": light_color("amber"),
    "heapq": light_color("violet"),
    "trio": light_color("teal"),
    "sched": light_color("muted"),
    "threading.Timer": light_color("soft"),
}
#: Metrics that grow with the number of requests in a run.
_PER_RUN = ("gc_seconds",)

#: Parameters of the published benchmark's cases that its figures leave out.
_NOT_DRAWN = ("heap_mb=", "late_answers=")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def published_figure(
    rows: Sequence[Row], metric: str, label: str, title: str, width: float = WIDE
) -> str:
    """Draw a metric of the published benchmark against the target rate.

    Low and high latencies have a panel each.

    Args:
        rows: Rows of `results.summarize` of the question `published`. Their `size` is the rate;
            0, no limit, is drawn beyond the highest rate.
        metric: The metric.
        label: Label of the vertical axis.
        title: Text for readers who can't see the chart.
        width: Inches. On a `NARROW` chart the panels are one below the other.

    Returns:
        SVG text.
    """
    cases = [
        case for case in ("low", "high") if any(f"case={case} " in row["case"] for row in rows)
    ]
    with plt.rc_context(STYLE):
        rows_of_panels = len(cases) if width <= NARROW else 1
        figure = Figure(figsize=(width, 3.3 * rows_of_panels), layout="constrained")
        columns = len(cases) // rows_of_panels
        grid = figure.subplots(rows_of_panels, columns, sharey=True, squeeze=False)
    panels = list(grid.flat)
    for axes, case in zip(panels, cases, strict=True):
        chosen = [
            row
            for row in rows
            if row["metric"] == metric
            and f"case={case} " in row["case"]
            and not any(name in row["case"] for name in _NOT_DRAWN)
        ]
        rates = sorted({row["size"] for row in chosen if row["size"]})
        last = rates[-1] * 2 if rates else 1.0
        _lines(
            axes,
            [
                (_per_million(row) if metric in _PER_RUN else row) | {"size": row["size"] or last}
                for row in chosen
            ],
        )
        if metric == "enqueue_rate" and rates:
            axes.plot(
                rates, rates, color=light_color("muted"), linewidth=1, linestyle=":", label="target"
            )
            axes.set_yscale("log")
            axes.set_yticks([*rates, last])
            axes.minorticks_off()
        axes.set_xscale("log")
        axes.set_xticks([*rates, last], [f"{rate / 1000:g}k" for rate in rates] + ["no limit"])
        axes.minorticks_off()
        axes.set_xlabel(f"target rate, requests/s ({case} latencies)")
        axes.yaxis.set_major_formatter(FuncFormatter(_short_number))
    panels[0].set_ylabel(label)
    panels[-1].legend(frameon=False, fontsize=8.5)
    return to_svg(figure, title)


def _per_million(row: Row) -> Row:
    """Return a row with its sums over a run scaled to a million requests, as runs differ."""
    found = re.search(r"\bcount=(\d+)", row["case"])
    scale = 1e6 / int(found.group(1)) if found else 1.0
    return row | {name: row[name] * scale for name in ("median", "min", "max")}


def curve(rows: Sequence[Row], unit: str, title: str, label: str, width: float = WIDE) -> str:
    """Draw medians against the size, a line for each side, with logarithmic axes.

    Args:
        rows: Rows of `results.summarize` of one question and metric.
        unit: Label of the vertical axis.
        title: Text for readers who can't see the chart.
        label: Label of the horizontal axis.
        width: Inches. On a `NARROW` chart the legend is below it.

    Returns:
        SVG text.
    """
    is_narrow = width <= NARROW
    figure, axes = new_figure(4.4 if is_narrow else 3.4, width)
    _lines(axes, rows)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_short_number))
    axes.yaxis.set_major_formatter(FuncFormatter(_short_number))
    axes.set_xlabel(label)
    axes.set_ylabel(unit)
    if is_narrow:
        figure.legend(frameon=False, fontsize=8.5, loc="outside lower left", ncols=2)
    else:
        axes.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return to_svg(figure, title)


def _lines(axes: Axes, rows: Sequence[Row]) -> None:
    sides = list(
        dict.fromkeys(row["side"] for row in sorted(rows, key=lambda row: row["position"]))
    )
    for number, side in enumerate(sides):
        points = sorted(
            (row["size"], row["median"], row["min"], row["max"])
            for row in rows
            if row["side"] == side
        )
        sizes, medians, lowest, highest = zip(*points, strict=True)
        shade = _COLORS.get(side, light_color("muted"))
        axes.plot(
            sizes,
            medians,
            color=shade,
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4.5,
            linewidth=1.8,
            label=side,
        )
        axes.fill_between(sizes, lowest, highest, color=shade, alpha=0.12, linewidth=0)


def _short_number(value: float, _position: int) -> str:
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"
