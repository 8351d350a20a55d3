"""Samples of the process's memory, and a check that the memory does not grow."""

from __future__ import annotations

import os
import statistics
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

#: Share of the samples that are warm-up.
_WARM_UP = 0.2
#: Minimum number of samples after the warm-up for a check.
_MIN_SAMPLES = 8
#: Allowed growth: the larger of a share and an amount. The resident set varies by tens of megabytes
#: with the size of the last rounds. The number of allocated blocks is the same after each round, so
#: it shows a leak of one object in 100,000 operations in a campaign of 500 million. On free threads
#: the blocks alone are compared: CPython's allocator there keeps pages that one thread has filled
#: and others have emptied (measured on 3.13.5: 80 bytes an operation, with no block more in use).
_MAX_SHARE = 0.05
_MAX_RSS_KB = 32 * 1024
_MAX_BLOCKS = 5_000


@dataclass(frozen=True)
class Sample:
    """The memory between two rounds, after a full collection and without objects of a round.

    Attributes:
        seconds: Time since the campaign began.
        operations: Number of operations that have ended.
        rss_kb: The resident set.
        blocks: Memory blocks that the interpreter has allocated (`sys.getallocatedblocks`).
    """

    seconds: float
    operations: int
    rss_kb: int
    blocks: int

    def to_json(self) -> dict[str, float]:
        """Return the fields as JSON values."""
        return asdict(self)


def take_sample(seconds: float, operations: int) -> Sample:
    """Take a sample of this process."""
    return Sample(round(seconds, 2), operations, resident_kb(), sys.getallocatedblocks())


def resident_kb() -> int:
    """Return this process's resident set in kB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def keeps_pages() -> bool:
    """Return whether the allocator keeps pages that are not in use: on free threads."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def find_growth(samples: Sequence[Sample], *, keeps_pages: bool = False) -> str | None:
    """Describe the growth of the memory.

    The median of the first third of the samples after the warm-up is compared with the median of
    the last third. A leak raises all later samples, and so the second median. A maximum would
    depend on single samples, such as one during a fork.

    Args:
        samples: The samples, in their order.
        keeps_pages: Whether the resident set says nothing of what is in use.

    Returns:
        A message; None if the memory did not grow, or the run was too short.
    """
    after = samples[int(len(samples) * _WARM_UP) :]
    if len(after) < _MIN_SAMPLES:
        return None
    third = len(after) // 3
    for name, unit, least in (("rss_kb", "kB", _MAX_RSS_KB), ("blocks", "blocks", _MAX_BLOCKS)):
        if keeps_pages and name == "rss_kb":
            continue
        before = statistics.median(getattr(one, name) for one in after[:third])
        now = statistics.median(getattr(one, name) for one in after[-third:])
        if now - before > max(before * _MAX_SHARE, least):
            operations = after[-1].operations - after[0].operations
            return (
                f"memory grew from {before:,.0f} to {now:,.0f} {unit} in {operations:,} operations "
                "(medians of thirds)"
            )
    return None
