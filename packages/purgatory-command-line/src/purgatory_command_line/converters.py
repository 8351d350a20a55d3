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


def local_path(_type: Any, tokens: Tokens) -> Path:
    text = tokens[-1].value
    if _URL.match(text):
        raise ValueError(
            "expected a path of this machine's file system (on a cluster, one that all machines "
            f"have mounted), got {text!r}; from Python, DataFrames of any source can be used"
        )
    return Path(text)


#: A path of this machine's file system.
LocalPath = Annotated[Path, Parameter(converter=local_path, metavar="PATH")]
