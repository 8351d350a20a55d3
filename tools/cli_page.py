"""Writes the references of the two commands, from the commands' own help.

    python tools/cli_page.py            write docs/reference/command.md and broker_command.md
    python tools/cli_page.py --check    exit code 1 if one is out of date

A test runs the check.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from cyclopts import App

import purgatory_broker_command
import purgatory_command

_FOLDER = Path(__file__).parents[1] / "docs" / "reference"
PAGES = {
    _FOLDER / "command.md": purgatory_command.make_app,
    _FOLDER / "broker_command.md": lambda: purgatory_broker_command.make_app(
        described=purgatory_broker_command.COMMANDS
    ),
}
BEGIN = "<!-- What follows is made by tools/cli_page.py. -->\n"
_COLUMNS = 100


def page(text: str, app: App) -> str:
    """Return a page with its reference made anew.

    Args:
        text: The page as it is.
        app: The command.
    """
    written, _, _ = text.partition(BEGIN)
    program = app.name[0]
    # The first section is the overview of all commands; options such as --version follow last.
    _, *sections = app.generate_docs(heading_level=1).split(f"\n## {program} ")
    commands = [section.rstrip() for section in sections if not section.startswith("-")]
    reference = "".join(f"\n## {program} {command}\n" for command in commands)
    reference = re.sub(r"\n {4}(?=\S)", " ", reference)  # an entry's further lines
    lines = [_wrapped(line, program) for line in reference.splitlines()]
    return written + BEGIN + "\n".join(lines) + "\n"


def _wrapped(line: str, program: str) -> str:
    """Return a line of prose, or an entry of a list, in lines of at most 100 columns."""
    if len(line) <= _COLUMNS or line.startswith(f"{program} "):
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
    code = 0
    for path, make_app in PAGES.items():
        before = path.read_text(encoding="utf-8")
        after = page(before, make_app())
        if "--check" in arguments:
            code |= int(before != after)
        else:
            path.write_text(after, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
