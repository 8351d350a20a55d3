"""The benchmarks' pictures, as SVG.

The published figures redrawn, and a curve for each question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from request_purgatory.pipeline.analysis.charts import _STYLE, _figure, _svg

Row = dict[str, Any]

#: Ours stands out, its baseline is the same colour lighter, the rest keep their distance from both.
_COLOURS = {
    "request_purgatory": "#d1495b",
    "request_purgatory (manual clock)": "#e79aa5",
    "request_purgatory (0.8 design)": "#e79aa5",
    "kafka": "#30507a",
    "kafka (tight heap)": "#7f97b8",
    "netty": "#2f7d6d",
    "asyncio": "#8a6d3b",
    "uvloop": "#c98a1b",
    "heapq": "#6b5b95",
    "trio": "#4aa3a2",
    "sched": "#8a94a3",
    "threading.Timer": "#5a6475",
}
#: Metrics that are sums over a run.
PER_RUN = ("gc_seconds",)

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def published_figure(rows: Sequence[Row], metric: str, label: str, title: str) -> str:
    """One metric of the published benchmark against the target rate, low and high latencies side by side.

    Args:
        rows: summary rows of the question `published`; size is the rate, 0 for unthrottled, which
            is drawn beside the axis' end.
    """
    cases = [
        case for case in ("low", "high") if any(f"case={case} " in row["case"] for row in rows)
    ]
    with plt.rc_context(_STYLE):
        figure, grid = plt.subplots(
            1, len(cases), sharey=True, squeeze=False, figsize=(9.0, 3.3), layout="constrained"
        )
    panels = list(grid[0])
    for axes, case in zip(panels, cases, strict=True):
        chosen = [
            row
            for row in rows
            if row["metric"] == metric
            and f"case={case} " in row["case"]
            and "heap_mb" not in row["case"]
        ]
        rates = sorted({row["size"] for row in chosen if row["size"]})
        last = rates[-1] * 2 if rates else 1.0
        _lines(
            axes,
            [
                (_per_million(row) if metric in PER_RUN else row) | {"size": row["size"] or last}
                for row in chosen
            ],
        )
        if metric == "enqueue_rate" and rates:
            axes.plot(rates, rates, color="#8a94a3", linewidth=1, linestyle=":", label="target")
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
    return _svg(figure, title)


def _per_million(row: Row) -> Row:
    """A sum over a run as one for a million requests.

    Runs at different rates have different lengths.
    """
    found = re.search(r"\bcount=(\d+)", row["case"])
    scale = 1e6 / int(found.group(1)) if found else 1.0
    return row | {name: row[name] * scale for name in ("median", "least", "most")}


def curve(rows: Sequence[Row], unit: str, title: str, label: str) -> str:
    """Medians against the size, a line for each side, both axes logarithmic."""
    figure, axes = _figure(3.4)
    _lines(axes, rows)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_short_number))
    axes.yaxis.set_major_formatter(FuncFormatter(_short_number))
    axes.set_xlabel(label)
    axes.set_ylabel(unit)
    axes.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _svg(figure, title)


def _lines(axes: Axes, rows: Sequence[Row]) -> None:
    sides = list(
        dict.fromkeys(row["side"] for row in sorted(rows, key=lambda row: row["position"]))
    )
    for number, side in enumerate(sides):
        points = sorted(
            (row["size"], row["median"], row["least"], row["most"])
            for row in rows
            if row["side"] == side
        )
        sizes, medians, least, most = zip(*points, strict=True)
        colour = _COLOURS.get(side, "#8a94a3")
        axes.plot(
            sizes,
            medians,
            color=colour,
            marker=_MARKS[number % len(_MARKS)],
            markersize=4.5,
            linewidth=1.8,
            label=side,
        )
        axes.fill_between(sizes, least, most, color=colour, alpha=0.12, linewidth=0)


def _short_number(value: float, _position: int) -> str:
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"
