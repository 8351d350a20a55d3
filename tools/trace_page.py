"""Writes the tables of a trace into docs/reference/trace_tables.md, from their columns in the code.

    python tools/trace_page.py            write them
    python tools/trace_page.py --check    exit code 1 if they are out of date

A test runs the check.
"""

from __future__ import annotations

import sys
from pathlib import Path

from purgatory_spark._rows.trace_columns import (
    EVENT_COLUMNS,
    OUTCOME_COLUMNS,
    REQUEST_COLUMNS,
    Column,
)

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "trace_tables.md"
BEGIN = "<!-- These tables are made by tools/trace_page.py. -->\n"
END = "<!-- Here they end. -->\n"


def page(text: str) -> str:
    """Return the page with its tables made anew.

    Args:
        text: The page as it is.
    """
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = {"requests": REQUEST_COLUMNS, "events": EVENT_COLUMNS, "outcomes": OUTCOME_COLUMNS}
    made = "\n".join(_table(name, columns) for name, columns in tables.items())
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def _table(name: str, columns: tuple[Column, ...]) -> str:
    lines = [f"| {name} | type | |", "|---|---|---|"]
    lines += [f"| `{column.name}` | `{column.type}` | {_meaning(column)} |" for column in columns]
    return "\n".join(lines) + "\n"


def _meaning(column: Column) -> str:
    notes = [column.meaning]
    if column.default is not None:
        notes.append(f"{column.default!r} if null")
    elif column.nullable:
        notes.append("may be null")
    if column.may_lack:
        notes.append("a table may lack it")
    if column.passed:
        notes.append("passed on to the outcome")
    return "; ".join(notes)


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
