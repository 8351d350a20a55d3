"""Tell small files, whose rows need few tasks, without reading them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

#: Inputs of up to so many bytes are small: some hundred thousand rows.
_SMALL_BYTES = 16 * 2**20
#: Packed files have so many times as many.
_PACKED = 8
_PACKED_SUFFIXES = (".gz", ".bz2", ".parquet", ".orc", ".avro")


def are_small(*sources: str | Path | None) -> bool:
    """Return whether all sources are small files, or folders of them, of this machine."""
    return _total_bytes(sources) <= _SMALL_BYTES


def _total_bytes(sources: Iterable[str | Path | None]) -> float:
    total = 0.0
    for source in sources:
        if source is None:
            continue
        path = Path(str(source).partition(":")[2] if ":" in str(source) else source)
        if not path.exists():
            return math.inf
        for file in path.rglob("*") if path.is_dir() else [path]:
            packed = _PACKED if file.name.endswith(_PACKED_SUFFIXES) else 1
            total += file.stat().st_size * packed
            if total > _SMALL_BYTES:
                return math.inf
    return total
