"""Options that several commands have, from the text on the command line to values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from purgatory_command_line.converters import Tokens, local_path, whole_number
from purgatory_command_line.output import Output

#: The largest timeout, in milliseconds: traces store timeouts as 32-bit integers.
_LONGEST_TIMEOUT_MS = 2**31 - 1


def count(type_: Any, tokens: Tokens) -> int:
    number = whole_number(type_, tokens)
    if number < 1:
        raise ValueError(f"expected at least 1, got {number}")
    return number


def _local_paths(type_: Any, tokens: Tokens) -> list[Path]:
    return [local_path(type_, (token,)) for token in tokens]


def _timeouts(_type: Any, tokens: Tokens) -> list[int]:
    """Return whole milliseconds, with commas between them."""
    text = tokens[-1].value
    expected = "expected whole numbers of milliseconds"
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{expected} with commas between them, got {text!r}") from None
    if min(numbers) < 0 or max(numbers) > _LONGEST_TIMEOUT_MS:
        raise ValueError(f"{expected}, each from 0 to {_LONGEST_TIMEOUT_MS:,}, got {text!r}")
    return numbers


def comma_separated(_type: Any, tokens: Tokens) -> tuple[str, ...]:
    text = tokens[-1].value
    values = tuple(part.strip() for part in text.split(","))
    if not all(values):
        raise ValueError(f"expected values with commas between them, got {text!r}")
    return values


def column_mapping(_type: Any, tokens: Tokens) -> dict[str, str | tuple[str, ...]]:
    """Return field names and their columns, from tokens `FIELD=COLUMN`.

    A field that is given several times has its columns in order.
    """
    columns: dict[str, str | tuple[str, ...]] = {}
    for token in tokens:
        field, _, column = token.value.partition("=")
        if not (field and column):
            raise ValueError(f"expected FIELD=COLUMN, got {token.value!r}")
        if field in columns:
            earlier = columns[field]
            columns[field] = (*([earlier] if isinstance(earlier, str) else earlier), column)
        else:
            columns[field] = column
    return columns


def name_value_pairs(_type: Any, tokens: Tokens) -> list[tuple[str, str]]:
    """Return names and values, from tokens `NAME=VALUE`.

    Errors do not repeat the token, which may contain a password.
    """
    pairs = []
    for token in tokens:
        name, equals, value = token.value.partition("=")
        if not (name and equals):
            raise ValueError("expected NAME=VALUE")
        pairs.append((name, value))
    return pairs


def print_made(
    output: Output, path: Path, *, following: str = "", result: Mapping[str, Any] | None = None
) -> None:
    """Print what was made, and the arguments of the command that usually follows, if any."""
    output.print_result({"path": str(path), **(result or {})})
    hint = f"; next: purgatory {escape(following)}" if following else ""
    output.console.print(f"made [bold]{escape(str(path))}[/]{hint}", soft_wrap=True)


#: Replace an output that exists, if this command made it.
Force = Annotated[
    bool, Parameter(help="Replace an output that exists already.", show_default=False)
]
#: Several paths of this machine's file system, or none.
LocalPaths = Annotated[list[Path] | None, Parameter(converter=_local_paths, metavar="PATH")]
#: A whole number of at least 1.
Count = Annotated[int, Parameter(converter=count, metavar="N")]
#: Timeouts in milliseconds. (cyclopts takes one token for a `str`; the converter returns a list.)
Timeouts = Annotated[str, Parameter(converter=_timeouts, metavar="MS,MS,...")]
