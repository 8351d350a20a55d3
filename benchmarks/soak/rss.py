"""The process's memory over time, and whether it stays."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

#: The first so many parts of a run are its warm-up.
_WARM_UP = 0.2
#: Fewer samples after the warm-up are not judged.
_FEWEST = 8
#: What the memory may grow by: the larger of a part and an amount. A resident set moves by tens of
#: megabytes with the size of the last rounds; the allocated blocks, of which a clean round leaves
#: as many as there were, find one lost object in 100,000 operations within a campaign of 500
#: million.
_SHARE = 0.05
_RSS_KB = 32 * 1024
_BLOCKS = 5_000


@dataclass(frozen=True)
class Sample:
    """The memory between two rounds, after a full collection, with nothing of a round left.

    Attributes:
        rss_kb: the resident set.
        blocks: memory blocks that the interpreter has allocated (`sys.getallocatedblocks`).
    """

    seconds: float
    operations: int
    rss_kb: int
    blocks: int

    def to_json(self) -> dict[str, float]:
        """Return the fields."""
        return asdict(self)


def sample(seconds: float, operations: int) -> Sample:
    """Return a sample of this process, now."""
    return Sample(round(seconds, 2), operations, resident_kb(), sys.getallocatedblocks())


def resident_kb() -> int:
    """Return this process's resident set."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def growth(samples: Sequence[Sample]) -> str | None:
    """Return what grew, or None if the memory is flat or the run was too short to tell.

    Compared are two medians after the warm-up: of the first third of the samples and of the last. A
    leak moves every later sample, and so the second median. A maximum would be moved by any single
    one, by a fork at that moment or by the allocator that returns its arenas later.
    """
    after = samples[int(len(samples) * _WARM_UP) :]
    if len(after) < _FEWEST:
        return None
    third = len(after) // 3
    for name, unit, least in (("rss_kb", "kB", _RSS_KB), ("blocks", "blocks", _BLOCKS)):
        before = statistics.median(getattr(one, name) for one in after[:third])
        now = statistics.median(getattr(one, name) for one in after[-third:])
        if now - before > max(before * _SHARE, least):
            operations = after[-1].operations - after[0].operations
            return f"memory grew from {before:,.0f} to {now:,.0f} {unit} in {operations:,} operations (medians of thirds)"
    return None
