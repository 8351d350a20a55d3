"""What a page needs to draw charts: its script, styles and colors, without a network."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from markupsafe import Markup

from purgatory_spark._analysis.charts import Chart
from purgatory_spark._analysis.palette import variables

_FOLDER = Path(__file__).parent

#: Markup is safe here: all of it is our own, but for the chart, which is escaped.
_FRAME = Markup("""<!doctype html>
<html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'">
<style>{styles}
:root {{ color-scheme: light dark; }}
body {{ margin: 0; padding: 8px; background: Canvas; color: var(--ink); }}</style></head>
<body><figure class="chart" aria-label="{title}" data-chart="{chart}"></figure>
<script>{script}</script></body></html>""")


def text_of(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def chart_script() -> Markup:
    """Return uPlot with its licence, and what draws each `data-chart` of the page with it."""
    license_ = text_of("uplot/LICENSE")
    return Markup("\n").join(
        Markup(text)
        for text in (f"/*\n{license_}*/", text_of("uplot/uPlot.iife.min.js"), text_of("charts.js"))
    )


@cache
def chart_styles() -> Markup:
    """Return the style sheets of charts, and the page's colors on a light and a dark ground."""
    dark = "@media screen and (prefers-color-scheme: dark)"
    return Markup("\n").join(
        Markup(text)
        for text in (
            f":root {{ {variables(0)} }}",
            f"{dark} {{ :root {{ {variables(1)} }} }}",
            text_of("uplot/uPlot.min.css"),
            text_of("charts.css"),
        )
    )


def chart_frame(chart: Chart) -> Markup:
    """Return a chart as an `<iframe>` of its own, for a notebook, whose styles it does not get."""
    page = _FRAME.format(
        styles=chart_styles(), title=chart.title, chart=chart.json, script=chart_script()
    )
    return Markup(
        '<iframe srcdoc="{}" sandbox="allow-scripts" title="{}" '
        'style="width: 100%; max-width: 900px; height: {}px; border: 0"></iframe>'
    ).format(str(page), chart.title, chart.height + 70)
