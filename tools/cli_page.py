"""Writes the reference of both commands into docs/reference, from the commands' own help.

    python tools/cli_page.py            write the pages
    python tools/cli_page.py --check    exit code 1 if one is out of date

A test runs the check.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from cyclopts import App

import purgatory_command
from purgatory_broker.cli import app as broker_command

_REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
BEGIN = "<!-- What follows is made by tools/cli_page.py. -->\n"
#: The command of each page.
COMMANDS = {
    "command.md": purgatory_command.make_app,
    "broker_command.md": broker_command.make_app,
}
_COLUMNS = 100


def page(text: str, app: App) -> str:
    """Return a page with the reference of its command made anew.

    Args:
        text: The page as it is.
        app: The command.
    """
    written, _, _ = text.partition(BEGIN)
    # The first section is the overview of all commands; options such as --version follow last.
    heading = f"\n## {app.name[0]} "
    _, *sections = app.generate_docs(heading_level=1).split(heading)
    commands = [each.rstrip() for each in sections if not each.startswith("-")]
    reference = "".join(f"{heading}{each}\n" for each in commands)
    reference = re.sub(r"\n {4}(?=\S)", " ", reference)  # an entry's further lines
    return written + BEGIN + "\n".join(_wrapped(line) for line in reference.splitlines()) + "\n"


def _wrapped(line: str) -> str:
    """Return a line of prose, or an entry of a list, in lines of at most 100 columns."""
    if len(line) <= _COLUMNS or line.startswith(("purgatory ", "purgatory-broker ")):
        return line
    return textwrap.fill(
        line,
        _COLUMNS,
        subsequent_indent="  " if line.startswith("* ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def main(arguments: list[str]) -> int:
    """Write the pages, or check them.

    Returns:
        The exit code.
    """
    outdated = False
    for name, make_app in COMMANDS.items():
        path = _REFERENCE / name
        before = path.read_text(encoding="utf-8")
        after = page(before, make_app())
        outdated |= before != after
        if "--check" not in arguments:
            path.write_text(after, encoding="utf-8")
    return int(outdated and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
