"""Where the outcomes of a wrong call are to differ between the builds, and why."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.misuse.calls import SET_TO

_NEVER_SET = "a field that was never set is None or 0 when compiled, and missing when interpreted"

#: Patterns of calls, as of `fnmatch`, with the reason.
DIFFERENCES: dict[str, str] = {
    **{f"* = {value}": "compiled, a field has a C type, or is read-only" for value in SET_TO},
    **{
        f"*__init__*.{field}": _NEVER_SET
        for field in (
            *("args", "callback", "name", "on_watch", "on_try", "on_end", "_timer_delay_ms"),
        )
    },
}


def is_meant(call: str) -> bool:
    """Return True if the outcomes of a call may differ."""
    return any(fnmatchcase(call, pattern) for pattern in DIFFERENCES)
