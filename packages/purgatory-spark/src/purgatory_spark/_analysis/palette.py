"""The colors of the report."""

from __future__ import annotations

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


def variables(ground: int) -> str:
    return " ".join(f"--{name}: {colors[ground]};" for name, colors in PALETTE.items())
