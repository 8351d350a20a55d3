"""The colors of the report, and how a chart gets those of the page that shows it."""

from __future__ import annotations

import re

#: Colors that charts are drawn in, by the name of the style sheet's variable: on a light and on a
#: dark ground.
PALETTE = {
    "ink": ("#1d2733", "#e4e8ee"),
    "soft": ("#5a6475", "#a3adbb"),
    "muted": ("#8a94a3", "#7c8796"),
    "grid": ("#e6e9ee", "#2c343f"),
    "completed": ("#2f7d6d", "#4fb39f"),
    "expired": ("#d1495b", "#f0788a"),
    "line": ("#30507a", "#82aee6"),
    # Further sides of benchmarks.
    "expired-light": ("#e79aa5", "#b3626e"),
    "line-light": ("#7f97b8", "#5c7699"),
    "brown": ("#8a6d3b", "#c9a76b"),
    "amber": ("#c98a1b", "#e5b04e"),
    "violet": ("#6b5b95", "#a897d6"),
    "teal": ("#4aa3a2", "#6cc5c4"),
}

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


def variables(ground: int) -> str:
    return " ".join(f"--{name}: {colors[ground]};" for name, colors in PALETTE.items())
