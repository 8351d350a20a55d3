"""A stream's progress as metrics: for Prometheus over HTTP, and as a file of JSON lines."""

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
#: Sums over all batches: metric name to field of `BatchProgress` and help text.
_COUNTERS = {
    "rows_total": ("rows", "Rows read."),
    "completed_total": ("completed", "Requests that completed."),
    "expired_total": ("expired", "Requests that expired."),
    "late_total": ("late", "Rows that were late or rejected."),
    "batch_seconds_total": ("seconds", "Seconds spent in batches, from trigger to commit."),
}
#: Latest values: metric name to help text. A metric without a value yet is left out.
_GAUGES = {
    "batch": "Number of the last batch.",
    "pending": "Requests that have arrived and not ended.",
    "state_bytes": "Compressed bytes that the state remembers.",
    "rows_per_second": "Rows per second of the last batch that had any.",
    "batch_seconds": "Seconds that the last batch took.",
    "watermark_timestamp_seconds": "The watermark, in seconds since 1970.",
}


class StreamMetrics:
    """Metrics of all batches since the start. Any thread may add and read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches = 0
        self._sums: dict[str, float] = dict.fromkeys(_COUNTERS, 0)
        self._latest: dict[str, Any] = {}

    def add(self, batch: BatchProgress) -> None:
        """Add a batch."""
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

    def prometheus_text(self) -> str:
        """Return the metrics in Prometheus' text format, version 0.0.4."""
        with self._lock:
            lines = _metric("batches_total", "counter", "Batches committed.", self._batches)
            for name, (_, description) in _COUNTERS.items():
                lines += _metric(name, "counter", description, self._sums[name])
            for name, description in _GAUGES.items():
                if name in self._latest:
                    lines += _metric(name, "gauge", description, self._latest[name])
        return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, description: str, value: float) -> list[str]:
    name = _PREFIX + name
    return [f"# HELP {name} {description}", f"# TYPE {name} {kind}", f"{name} {value}"]


def parse_listen_address(text: str) -> tuple[str, int]:
    """Parse `PORT`, which is on loopback, or `HOST:PORT`, with an IPv6 host in brackets.

    Returns:
        Host and port.

    Raises:
        InvalidArgumentError: the text is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidArgumentError(
            "metrics_listen", "PORT or HOST:PORT, the port at most 65535", text
        )
    return host.strip("[]") or "127.0.0.1", int(port)


@contextmanager
def serve_metrics(metrics: StreamMetrics, host: str, port: int) -> Iterator[int]:
    """Answer `GET /metrics` while the context is open.

    Args:
        metrics: what to serve.
        host: the address to listen on.
        port: the port; 0 lets the system choose a free one.

    Yields:
        The port.

    Raises:
        InvalidArgumentError: the address can't be listened on.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the metrics, or with 404."""
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = metrics.prometheus_text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Do not write a line for each scrape."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        server = Server((host, port), Handler)
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
    """A file with one line of JSON for each batch."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def add(self, batch: BatchProgress) -> None:
        """Append a batch's line, with the current time as `at`."""
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds")} | asdict(batch)
        self._file.write(
            json.dumps(line | {"rows_per_second": round(batch.rows_per_second, 1)}) + "\n"
        )
        self._file.flush()


@contextmanager
def open_metrics_file(path: Path) -> Iterator[MetricsFile]:
    """Open a file to append lines to; create it and its folder if they do not exist.

    Yields:
        The file, which is closed with the context.

    Raises:
        InvalidArgumentError: the file can't be written.
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
