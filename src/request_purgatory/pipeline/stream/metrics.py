"""A stream's progress for those who watch it.

In the format that Prometheus reads, over HTTP, and as a file of JSON lines.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TextIO

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.stream.progress import BatchProgress

_PREFIX = "purgatory_stream_"
#: Sums over all batches: the field of `BatchProgress`, and what it is.
_COUNTERS = {
    "rows_total": ("rows", "Rows read."),
    "completed_total": ("completed", "Requests that completed."),
    "expired_total": ("expired", "Requests that expired."),
    "late_total": ("late", "Rows that were not taken in."),
    "batch_seconds_total": ("seconds", "Seconds spent in batches, from trigger to commit."),
}
#: What was last known; what is not known is left out.
_GAUGES = {
    "batch": "Number of the last batch.",
    "pending": "Requests that wait.",
    "state_bytes": "Memory and files of the state store.",
    "rows_per_second": "Rows per second of the last batch that had any.",
    "batch_seconds": "Seconds that the last batch took.",
    "watermark_timestamp_seconds": "What is before it has been settled, in seconds since 1970.",
}


class StreamMetrics:
    """All batches so far, summed up. Any thread may add and read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches = 0
        self._sums: dict[str, float] = dict.fromkeys(_COUNTERS, 0)
        self._latest: dict[str, Any] = {}

    def add(self, batch: BatchProgress) -> None:
        """Take in a batch."""
        fields = asdict(batch)
        with self._lock:
            self._batches += 1
            for name, (field, _) in _COUNTERS.items():
                self._sums[name] += fields[field]
            self._latest |= {name: fields[name] for name in _GAUGES if fields.get(name) is not None}
            self._latest["batch_seconds"] = batch.seconds
            if batch.rows:
                self._latest["rows_per_second"] = batch.rows_per_second
            if batch.watermark:
                self._latest["watermark_timestamp_seconds"] = datetime.fromisoformat(
                    batch.watermark
                ).timestamp()

    def text(self) -> str:
        """In Prometheus' text format, version 0.0.4."""
        with self._lock:
            lines = _metric("batches_total", "counter", "Batches committed.", self._batches)
            for name, (_, what) in _COUNTERS.items():
                lines += _metric(name, "counter", what, self._sums[name])
            for name, what in _GAUGES.items():
                if name in self._latest:
                    lines += _metric(name, "gauge", what, self._latest[name])
        return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, what: str, value: float) -> list[str]:
    name = _PREFIX + name
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}", f"{name} {value}"]


def parse_address(text: str) -> tuple[str, int]:
    """`PORT`, on loopback, or `HOST:PORT`; an IPv6 address in brackets.

    Raises:
        InvalidArgumentError: it is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidArgumentError(
            "metrics_listen", "PORT or HOST:PORT, the port at most 65535", text
        )
    return host.strip("[]") or "127.0.0.1", int(port)


@contextmanager
def serve_metrics(metrics: StreamMetrics, host: str, port: int) -> Iterator[int]:
    """Answer GET /metrics in the block; the port, which the system chooses for 0.

    Raises:
        InvalidArgumentError: nothing can listen there.
    """

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """A scrape is no news."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        server = Server((host, port), Answer)
    except OSError as error:
        raise InvalidArgumentError(
            "metrics_listen", f"an address to listen on ({error})", f"{host}:{port}"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="stream-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class MetricsFile:
    """A line of JSON for each batch, added to a file."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def add(self, batch: BatchProgress) -> None:
        """Write a batch's line, with the time by the clock."""
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds")} | asdict(batch)
        self._file.write(
            json.dumps(line | {"rows_per_second": round(batch.rows_per_second, 1)}) + "\n"
        )
        self._file.flush()


@contextmanager
def metrics_file(path: Path) -> Iterator[MetricsFile]:
    """Lines are added to what is in the file already.

    Raises:
        InvalidArgumentError: it can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(
            "metrics", f"a file that can be written ({error.strerror})", str(path)
        ) from error
    with file:
        yield MetricsFile(file)
