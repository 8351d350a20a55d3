"""A stream's panel on the live page: its latest batches."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import asdict
from typing import Any

from purgatory_spark._stream.progress import BatchProgress
from request_purgatory.dashboard.panel import Panel

#: Batches that are kept for the pictures.
MAX_BATCHES = 120


class StreamPanel:
    """Keeps the latest batches of a stream for the page. Any thread may add."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._batches: deque[BatchProgress] = deque(maxlen=MAX_BATCHES)
        self._sums = dict.fromkeys(("batches", "rows", "completed", "expired", "late"), 0)

    def add(self, batch: BatchProgress) -> None:
        with self._lock:
            self._batches.append(batch)
            self._sums["batches"] += 1
            for name in ("rows", "completed", "expired", "late"):
                self._sums[name] += getattr(batch, name)

    def panel(self) -> Panel:
        return Panel("stream", self._read, about=self._names)

    async def _read(self) -> dict[str, Any]:
        with self._lock:
            batches, sums = list(self._batches), dict(self._sums)
        return {
            "sums": sums,
            "batches": [
                asdict(each) | {"rows_per_second": round(each.rows_per_second, 1)}
                for each in batches
            ],
        }
