"""Charts as SVG text, in the colors of the page that embeds them."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from purgatory_spark._analysis.palette import PALETTE

#: Text and lines in the color of the text around them, where a page has no such variables.
_OF_TEXT = ("ink", "soft")

_NAMES = {light: name for name, (light, _) in PALETTE.items()}


def light_color(name: str) -> str:
    return PALETTE[name][0]


def themed(svg: str) -> str:
    """Give a chart, drawn in colors of the `PALETTE`, the colors of the page that embeds it.

    In a page without these variables the chart has its own colors, and its text that of the page.
    """

    def variable(match: re.Match[str]) -> str:
        name = _NAMES.get(match[0])
        if name is None:
            return match[0]
        return f"var(--{name}, {'currentColor' if name in _OF_TEXT else match[0]})"

    # Only in styles: a text of the trace may be a color, too.
    return re.sub(r'style="[^"]*"', lambda style: re.sub("#[0-9a-f]{6}", variable, style[0]), svg)


#: The width of a chart in inches: on a page of a desktop's width, and on a phone.
WIDE = 9.0
NARROW = 4.4

#: Matplotlib settings of every chart in a report.
STYLE: Any = {
    # Text stays text: readers can search for it, and it has the page's font.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": light_color("ink"),
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
            each.set_color(light_color("ink"))
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
