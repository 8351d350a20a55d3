"""Charts of the report: what `charts.js` draws, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Literal

from purgatory_spark._analysis.small_tables import WaitRow, WhatIfRow
from purgatory_spark._analysis.units import format_ms

Unit = Literal["integer", "number", "ms", "share", "bytes"]

#: Below this share, a curve on an axis from 0 to 1 can't be told from the axis.
_SMALL_SHARE = 0.01


@dataclass(frozen=True)
class Steps:
    """A horizontal axis of time with a step for each bin, in ms since the epoch."""

    start: int
    step: int
    count: int


@dataclass(frozen=True)
class Points:
    """A logarithmic horizontal axis, and the names of its values where a reader points at one."""

    values: Sequence[float]
    names: Sequence[str]


@dataclass(frozen=True)
class Axis:
    """A vertical axis, logarithmic if `log`; `zero` is the place on it that stands for 0."""

    unit: Unit
    log: bool = False
    zero: float | None = None


@dataclass(frozen=True)
class Line:
    """Values along the horizontal axis, by a color of the `PALETTE`; None is a gap.

    `steps` hold until the next value. `stacked` ones are drawn on top of the earlier lines.
    """

    label: str
    color: str
    values: Sequence[float | None]
    steps: bool = True
    filled: bool = False
    stacked: bool = False
    right: bool = False


@dataclass(frozen=True)
class Vertical:
    """A dashed line across a chart, at a value of its horizontal axis."""

    at: float
    label: str
    color: str = "ink"


@dataclass(frozen=True)
class Chart:
    """A chart; those of one `group` are zoomed together.

    Attributes:
        title: Text for readers who can't see the chart.
    """

    title: str
    x: Steps | Points
    y: Axis
    lines: Sequence[Line]
    right: Axis | None = None
    verticals: Sequence[Vertical] = ()
    group: str = ""
    height: int = field(default=220)

    @cached_property
    def json(self) -> str:
        known = {name: value for name, value in asdict(self).items() if value not in (None, "")}
        known["lines"] = [
            line | {"values": [_short(value) for value in line["values"]]}
            for line in known["lines"]
        ]
        return json.dumps(known, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _short(value: float | None) -> float | None:
    """Return a number with five digits, which are more than a screen can show."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


def waiting_times(
    waits: Sequence[WaitRow], bins_per_decade: int, quantiles: Mapping[str, float]
) -> Chart:
    """Return the histogram of the waiting times on a log scale.

    Completed and expired requests are stacked. An outline shows after what time the conditions of
    expired requests held, too late.
    """
    by_bin = {row["bin"]: row for row in waits}
    # One more, where the last one ends.
    bins = range(min(by_bin), max(by_bin) + 2)
    starts = [10 ** (number / bins_per_decade) for number in bins]
    names = [
        f"{format_ms(start)} to {format_ms(start * 10 ** (1 / bins_per_decade))}"
        for start in starts
    ]
    counts: dict[str, list[int]] = {
        name: [by_bin[number][name] if number in by_bin else 0 for number in bins]
        for name in ("completed", "expired", "satisfied_late")
    }
    lines = [
        Line("completed", "completed", counts["completed"], filled=True),
        Line("expired", "expired", counts["expired"], filled=True, stacked=True),
    ]
    if any(counts["satisfied_late"]):
        label = "satisfied after the timeout"
        late = [count or None for count in counts["satisfied_late"]]
        lines.append(Line(label, "expired-light", late))
    placed: dict[float, list[str]] = {}
    for name, value in quantiles.items():
        if value > 0:
            placed.setdefault(value, []).append(name)
    return Chart(
        "Waiting times on a log scale",
        Points(starts, names),
        Axis("integer"),
        lines,
        verticals=[Vertical(value, ", ".join(names)) for value, names in placed.items()],
        height=260,
    )


def what_if_curve(
    rows: Sequence[WhatIfRow], in_use: Sequence[int], recommended: int | None = None
) -> Chart:
    """Return the expired share and the peak memory against the timeout.

    The axis of the shares is logarithmic if one of them is small.
    """
    shares = [row["expired_share"] for row in rows]
    least = min((share for share in shares if share > 0), default=1.0)
    shown = Axis("share")
    if least < _SMALL_SHARE:
        zero = 10.0 ** math.floor(math.log10(least) - 0.3)
        shown = Axis("share", log=True, zero=zero)
    names = dict.fromkeys(in_use, ("in use", "ink"))
    if recommended is not None:
        both = recommended in names
        names[recommended] = ("in use, recommended" if both else "recommended", "completed")
    return Chart(
        "Effect of other timeouts",
        Points(
            [_on_log_axis(row["timeout_ms"]) for row in rows],
            [format_ms(row["timeout_ms"]) for row in rows],
        ),
        shown,
        [
            Line("expired share", "expired", shares, steps=False),
            Line(
                "peak memory, busiest host",
                "line",
                [row["peak_bytes"] for row in rows],
                steps=False,
                right=True,
            ),
        ],
        right=Axis("bytes"),
        verticals=[
            Vertical(_on_log_axis(timeout), f"{name}: {format_ms(timeout)}", color)
            for timeout, (name, color) in sorted(names.items())
        ],
        height=280,
    )


def _on_log_axis(timeout_ms: int) -> float:
    return max(timeout_ms, 0.5)
