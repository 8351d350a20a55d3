"""A stream's progress for observers: Prometheus, a file of JSON lines, and the live page."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory_spark._stream.progress import BatchProgress
from request_purgatory.dashboard.panel import Panel
from request_purgatory.errors import InvalidArgumentError

_PREFIX = "purgatory_stream_"
#: Sums over all batches: metric name to field of `BatchProgress` and help text.
_COUNTERS: dict[str, tuple[str | None, str]] = {
    "batches": (None, "Batches committed."),
    "rows": ("rows", "Rows read."),
    "completed": ("completed", "Requests that completed."),
    "expired": ("expired", "Requests that expired."),
    "late": ("late", "Rows that were late or rejected."),
    "batch_seconds": ("seconds", "Seconds spent in batches, from trigger to commit."),
}
#: Latest values: metric name to help text. A metric without a value yet is left out.
_GAUGES = {
    "batch": "Number of the last batch.",
    "pending": "Requests that have arrived and not ended.",
    "state_bytes": "Compressed bytes that the state remembers.",
    "rows_per_second": "Rows per second of the last batch that had any.",
    "last_batch_seconds": "Seconds that the last batch took.",
    "watermark_timestamp_seconds": "The watermark, in seconds since 1970.",
}

#: Batches that are kept for the pictures.
MAX_BATCHES = 120


class StreamMetrics(Collector):
    """Metrics of all batches since the start. Any thread may add and read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, float] = dict.fromkeys(_COUNTERS, 0)
        self._latest: dict[str, Any] = {}

    def add(self, batch: BatchProgress) -> None:
        fields = asdict(batch)
        with self._lock:
            for name, (field, _) in _COUNTERS.items():
                self._sums[name] += fields[field] if field else 1
            self._latest |= {name: fields[name] for name in _GAUGES if fields.get(name) is not None}
            self._latest["last_batch_seconds"] = batch.seconds
            if batch.rows:
                self._latest["rows_per_second"] = batch.rows_per_second
            if batch.watermark:
                self._latest["watermark_timestamp_seconds"] = datetime.fromisoformat(
                    batch.watermark
                ).timestamp()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            sums, latest = dict(self._sums), dict(self._latest)
        return [
            *(
                CounterMetricFamily(_PREFIX + name, text, sums[name])
                for name, (_, text) in _COUNTERS.items()
            ),
            *(
                GaugeMetricFamily(_PREFIX + name, text, latest[name])
                for name, text in _GAUGES.items()
                if name in latest
            ),
        ]


def _fields(batch: BatchProgress) -> dict[str, Any]:
    return asdict(batch) | {"rows_per_second": round(batch.rows_per_second, 1)}


@dataclass(frozen=True)
class MetricsFile:
    """A file with one line of JSON for each batch."""

    file: TextIO

    def add(self, batch: BatchProgress) -> None:
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds")} | _fields(batch)
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


@contextmanager
def open_metrics_file(path: Path) -> Iterator[MetricsFile]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(
            "metrics", f"a file that can be written ({error.strerror})", str(path)
        ) from error
    with file:
        yield MetricsFile(file)


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
            "batches": [_fields(batch) for batch in batches],
        }
