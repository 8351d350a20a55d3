"""Where the outcomes of a wrong call are to differ between the builds, and why."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.misuse.calls import SET_TO

#: Patterns of calls, as of `fnmatch`, with the reason.
DIFFERENCES: dict[str, str] = {
    f"* = {value}": "compiled, a field has a C type, or is read-only" for value in SET_TO
}


def is_meant(call: str) -> bool:
    """Return True if the outcomes of a call may differ."""
    return any(fnmatchcase(call, pattern) for pattern in DIFFERENCES)
