"""Writes the reference of the command into docs/reference/command.md, from the command's own help.

    python tools/cli_page.py            write it
    python tools/cli_page.py --check    exit code 1 if it is out of date

A test runs the check.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from purgatory_spark.cli.app import make_app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command.md"
BEGIN = "<!-- What follows is made by tools/cli_page.py. -->\n"
_COLUMNS = 100


def page(text: str) -> str:
    """Return the page with its reference made anew.

    Args:
        text: The page as it is.
    """
    written, _, _ = text.partition(BEGIN)
    # The first section is the overview of all commands; options such as --version follow last.
    _, *sections = make_app().generate_docs(heading_level=1).split("\n## purgatory ")
    commands = [each.rstrip() for each in sections if not each.startswith("-")]
    reference = "".join(f"\n## purgatory {each}\n" for each in commands)
    reference = re.sub(r"\n {4}(?=\S)", " ", reference)  # an entry's further lines
    return written + BEGIN + "\n".join(_wrapped(line) for line in reference.splitlines()) + "\n"


def _wrapped(line: str) -> str:
    """Return a line of prose, or an entry of a list, in lines of at most 100 columns."""
    if len(line) <= _COLUMNS or line.startswith("purgatory "):
        return line
    return textwrap.fill(
        line,
        _COLUMNS,
        subsequent_indent="  " if line.startswith("* ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


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
