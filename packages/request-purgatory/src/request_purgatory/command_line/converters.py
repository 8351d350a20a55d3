"""From the text on the command line to values.

cyclopts calls a converter with a type and the option's tokens; a ValueError becomes the message of
a usage error. Messages follow "expected WHAT, got 'TEXT'".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

#: The largest timeout, in milliseconds: traces store timeouts as 32-bit integers.
_LONGEST_TIMEOUT_MS = 2**31 - 1
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

Tokens = Sequence[Token]


def whole_number(_type: Any, tokens: Tokens) -> int:
    """Return the number that a token stands for: digits, with `_` or `,` between thousands.

    cyclopts' own conversion rounds `1.5` to 2.

    Raises:
        ValueError: The token is not a whole number.
    """
    return _whole(tokens[-1].value)


def optional_whole_number(_type: Any, tokens: Tokens) -> int | None:
    """Return what `whole_number` returns, and None for `none`.

    Raises:
        ValueError: The token is neither.
    """
    return None if tokens[-1].value.lower() == "none" else _whole(tokens[-1].value)


def _whole(text: str) -> int:
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise ValueError(f"expected a whole number, got {text!r}") from None


def count(_type: Any, tokens: Tokens) -> int:
    """Return a whole number of at least 1.

    Raises:
        ValueError: The token is not one.
    """
    number = _whole(tokens[-1].value)
    if number < 1:
        raise ValueError(f"expected at least 1, got {number}")
    return number


def local_path(_type: Any, tokens: Tokens) -> Path:
    """Return a path of this machine's file system.

    Raises:
        ValueError: The token is a URL.
    """
    return _local(tokens[-1].value)


def local_paths(_type: Any, tokens: Tokens) -> list[Path]:
    """Return the paths of an option that may be repeated.

    Raises:
        ValueError: A token is a URL.
    """
    return [_local(token.value) for token in tokens]


def _local(text: str) -> Path:
    if _URL.match(text):
        raise ValueError(
            "expected a path of this machine's file system (on a cluster, one that all machines "
            f"have mounted), got {text!r}; from Python, DataFrames of any source can be used"
        )
    return Path(text)


def comma_separated(least: int, most: int | None, what: str) -> Callable[[Any, Tokens], list[int]]:
    """Return a converter of whole numbers with commas between them.

    Args:
        least: The smallest number allowed.
        most: The largest number allowed; None for no limit.
        what: The numbers' unit in messages.

    Returns:
        The converter; it raises ValueError for a token that is something else.
    """

    def convert(_type: Any, tokens: Tokens) -> list[int]:
        text = tokens[-1].value
        try:
            numbers = [int(part) for part in text.split(",")]
        except ValueError:
            raise ValueError(f"expected {what} with commas between them, got {text!r}") from None
        if min(numbers) < least or (most is not None and max(numbers) > most):
            limits = f"at least {least}" if most is None else f"from {least} to {most:,}"
            raise ValueError(f"expected {what}, each {limits}, got {text!r}")
        return numbers

    return convert


def column_mapping(_type: Any, tokens: Tokens) -> dict[str, str | tuple[str, ...]]:
    """Return field names and their columns, from tokens `FIELD=COLUMN`.

    Returns:
        The column of each field, or its columns in order if the field is given several times.

    Raises:
        ValueError: A token has no `=`, or nothing on one of its sides.
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

    Raises:
        ValueError: A token has no `=`, or nothing before it. The message does not repeat the token,
            which may contain a password.
    """
    pairs = []
    for token in tokens:
        name, equals, value = token.value.partition("=")
        if not (name and equals):
            raise ValueError("expected NAME=VALUE")
        pairs.append((name, value))
    return pairs


#: A path of this machine's file system.
LocalPath = Annotated[Path, Parameter(converter=local_path, metavar="PATH")]
#: Several of them, or none.
LocalPaths = Annotated[list[Path] | None, Parameter(converter=local_paths, metavar="PATH")]
#: A whole number of at least 1.
Count = Annotated[int, Parameter(converter=count, metavar="N")]
#: Timeouts in milliseconds. (cyclopts takes one token for a `str`; the converter returns a list.)
Timeouts = Annotated[
    str,
    Parameter(
        converter=comma_separated(0, _LONGEST_TIMEOUT_MS, "whole numbers of milliseconds"),
        metavar="MS,MS,...",
    ),
]
#: Target rates in requests per second.
Rates = Annotated[
    str,
    Parameter(
        converter=comma_separated(0, None, "whole numbers of requests per second"),
        metavar="N,N,...",
    ),
]
