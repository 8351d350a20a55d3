"""When segments are merged.

The log-structured way, so that few are looked at and each row is rewritten few times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Segments of one level are merged when there are so many: a row is then rewritten once for each
#: fourfold of what is kept, and at most three segments of each level are looked at.
FAN = 4
#: Segments below this many rows are of one level.
_LEAST_ROWS = 1024


def level(rows: int) -> int:
    """The level of a segment of so many rows."""
    found, bound = 0, _LEAST_ROWS * FAN
    while rows >= bound:
        found, bound = found + 1, bound * FAN
    return found


def absorbed(segments: Sequence[dict[str, Any]], rows: int) -> list[dict[str, Any]]:
    """Which of the segments a new one of so many rows is merged with: the newest ones, in order of age.

    Args:
        segments: from the oldest to the newest, each with a number of `rows`.
    """
    taken = 0
    while True:
        trailing = 0
        for segment in reversed(segments[: len(segments) - taken]):
            if level(segment["rows"]) > level(rows):
                break
            trailing += 1
        if trailing < FAN - 1:
            return list(segments[len(segments) - taken :])
        rows += sum(
            segment["rows"]
            for segment in segments[len(segments) - taken - trailing : len(segments) - taken]
        )
        taken += trailing
