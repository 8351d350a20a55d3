"""Sentences on a console."""

from __future__ import annotations

import re

from rich.console import Console
from rich.text import Text

from purgatory_spark._analysis.units import unbroken

_WORD = re.compile("[^ ]+")


def print_sentence(console: Console, sentence: str, *, indent: str = "", style: str = "") -> None:
    """Print a sentence, with line breaks on a terminal alone.

    They are between words, and not between a number and its unit.
    """
    text = Text(sentence, style)
    width = console.width - len(indent) if console.is_terminal else None
    for line in _lines(text, width):
        console.print(Text(indent, style) + line, soft_wrap=True)
        indent = " " * len(indent)


def _lines(text: Text, width: int | None) -> list[Text]:
    if width is None:
        return [text]
    lines: list[Text] = []
    start = end = 0
    for word in _WORD.finditer(unbroken(text.plain)):
        if end and text[start : word.end()].cell_len > width:
            lines.append(text[start:end])
            start = word.start()
        end = word.end()
    return [*lines, text[start:end]]
