"""From the text on the command line to values.

cyclopts calls a converter with a type and the option's tokens; a ValueError becomes the message of
a usage error. Messages follow "expected WHAT, got 'TEXT'".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    """
    return _whole(tokens[-1].value)


def optional_whole_number(_type: Any, tokens: Tokens) -> int | None:
    """Return what `whole_number` returns, and None for `none`."""
    return None if tokens[-1].value.lower() == "none" else _whole(tokens[-1].value)


def _whole(text: str) -> int:
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise ValueError(f"expected a whole number, got {text!r}") from None


def count(_type: Any, tokens: Tokens) -> int:
    number = _whole(tokens[-1].value)
    if number < 1:
        raise ValueError(f"expected at least 1, got {number}")
    return number


def local_path(_type: Any, tokens: Tokens) -> Path:
    return _local(tokens[-1].value)


def _local_paths(_type: Any, tokens: Tokens) -> list[Path]:
    return [_local(token.value) for token in tokens]


def _local(text: str) -> Path:
    if _URL.match(text):
        raise ValueError(
            "expected a path of this machine's file system (on a cluster, one that all machines "
            f"have mounted), got {text!r}; from Python, DataFrames of any source can be used"
        )
    return Path(text)


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


#: A path of this machine's file system.
LocalPath = Annotated[Path, Parameter(converter=local_path, metavar="PATH")]
#: Several of them, or none.
LocalPaths = Annotated[list[Path] | None, Parameter(converter=_local_paths, metavar="PATH")]
#: A whole number of at least 1.
Count = Annotated[int, Parameter(converter=count, metavar="N")]
#: Timeouts in milliseconds. (cyclopts takes one token for a `str`; the converter returns a list.)
Timeouts = Annotated[str, Parameter(converter=_timeouts, metavar="MS,MS,...")]
