"""Writes the table of docs/reference/broker_commands.md, from the commands' docstrings.

    python tools/broker_page.py            write it
    python tools/broker_page.py --check    exit code 1 if it is out of date

A test runs the check.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from purgatory_broker.cluster._commands.cluster_commands import COMMANDS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "broker_commands.md"
BEGIN = "<!-- This table is made by tools/broker_page.py. -->\n"
END = "<!-- The end of the table. -->\n"


def page(text: str) -> str:
    """Return the page with its table made anew.

    Args:
        text: The page as it is.
    """
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [
        f"| `{name}{_parameters(command)}` | {_description(command)} |\n"
        for name, command in COMMANDS.items()
        if name != "bootstrap_servers"
    ]
    table = "".join(["\n", "| method | effect |\n", "|---|---|\n", *rows, "\n"])
    return before + BEGIN + table + END + after


def _parameters(command: Callable[..., Any]) -> str:
    """Return a command's parameters as a caller writes them."""
    _, *parameters = inspect.signature(command).parameters.values()
    names = [each.name + "=" * (each.kind is each.KEYWORD_ONLY) for each in parameters]
    return f"({', '.join(names)})"


def _description(command: Callable[..., Any]) -> str:
    """Return a docstring without its sections, in one line."""
    text = re.split(r"\n\n(?:Args|Returns|Raises):\n", inspect.getdoc(command) or "")[0]
    return " ".join(text.split())


def main(arguments: list[str]) -> int:
    """Write the page, or check it.

    Returns:
        The exit code.
    """
    before = PAGE.read_text(encoding="utf-8")
    after = page(before)
    if "--check" in arguments:
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
