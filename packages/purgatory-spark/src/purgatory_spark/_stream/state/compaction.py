"""Size-tiered compaction: when segments are merged.

A shard appends a segment in almost every step. Without merging, a lookup would read ever more
segments; with one merge per step, every row would be rewritten in every step. Size-tiered
compaction bounds both: segments of similar size are merged once there are `MERGE_FACTOR` of them.

Source: P. O'Neil, E. Cheng, D. Gawlick, E. O'Neil, "The log-structured merge-tree", 1996; the
tiered form is that of Apache Cassandra's SizeTieredCompactionStrategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Segments of one level that are merged into one of the next. A row is rewritten once for each
#: fourfold growth of the stored rows, and a lookup reads at most three segments of each level.
MERGE_FACTOR = 4
#: Segments of fewer than `MERGE_FACTOR` times this many rows are all of level 0.
_LEVEL_0_ROWS = 1024


def level(rows: int) -> int:
    """Return the level of a segment: 0 below 4,096 rows, 1 below 16,384, 2 below 65,536, ..."""
    found, bound = 0, _LEVEL_0_ROWS * MERGE_FACTOR
    while rows >= bound:
        found, bound = found + 1, bound * MERGE_FACTOR
    return found


def segments_to_merge(segments: Sequence[dict[str, Any]], rows: int) -> list[dict[str, Any]]:
    """Return the segments to merge with a new one: the newest ones, in order of age.

    The new segment takes all directly preceding segments of its own or a lower level, if there are
    at least `MERGE_FACTOR - 1` of them. The merged segment may be of a higher level, so the same
    question is asked again with its size.

    For example, let the segments have 5,000, 5,000, 5,000, 900, 900 and 900 rows. A new one of 900
    takes the last three. The merged 3,600 rows are still of level 0, and that is all. A new one of
    2,000 also takes the last three; the 4,700 rows are of level 1 and take the first three as well.
    """
    taken = 0
    while True:
        remaining = segments[: len(segments) - taken]
        trailing = 0
        for segment in reversed(remaining):
            if level(segment["rows"]) > level(rows):
                break
            trailing += 1
        if trailing < MERGE_FACTOR - 1:
            return list(segments[len(segments) - taken :])
        rows += sum(segment["rows"] for segment in remaining[len(remaining) - trailing :])
        taken += trailing
