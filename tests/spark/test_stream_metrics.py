"""A stream's figures for those who watch it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.stream.metrics import (
    StreamMetrics,
    metrics_file,
    parse_address,
    serve_metrics,
)
from request_purgatory.pipeline.stream.progress import BatchProgress

FULL = BatchProgress(0, 100, 2.0, "2024-01-01T00:00:10.500Z", 60, 5, 2, 35, 1_000_000)
QUIET = BatchProgress(1, 0, 0.5, "2024-01-01T00:00:12.000Z", 0, 7, 0, 28, 2_000_000)


def values(text: str) -> dict[str, float]:
    """The metrics of a page, without their prefix."""
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name.removeprefix("purgatory_stream_"): float(value) for name, value in lines}


def test_counters_sum_up_and_gauges_are_the_latest() -> None:
    """A batch without rows says nothing of their rate."""
    metrics = StreamMetrics()
    assert set(values(metrics.text()).values()) == {0}
    metrics.add(FULL)
    metrics.add(QUIET)
    found = values(metrics.text())
    assert found == {
        "batches_total": 2,
        "rows_total": 100,
        "completed_total": 60,
        "expired_total": 12,
        "late_total": 2,
        "batch_seconds_total": 2.5,
        "batch": 1,
        "state_bytes": 2_000_000,
        "rows_per_second": 50,
        "batch_seconds": 0.5,
        "watermark_timestamp_seconds": 1704067212,
        "pending": 28,
    }
    assert all(
        f"# TYPE purgatory_stream_{name} {'counter' if name.endswith('_total') else 'gauge'}"
        in metrics.text()
        for name in found
    )


def test_metrics_are_served_until_the_end() -> None:
    """And nothing else is."""
    metrics = StreamMetrics()
    metrics.add(FULL)
    with serve_metrics(metrics, "127.0.0.1", 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert values(answer.read().decode())["rows_total"] == 100
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        with (
            pytest.raises(
                InvalidArgumentError, match="metrics_listen must be an address to listen on"
            ),
            serve_metrics(metrics, "127.0.0.1", port),
        ):
            pass
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


def test_lines_are_added_to_a_file(tmp_path: Path) -> None:
    """Of one start and the next."""
    path = tmp_path / "new" / "metrics.jsonl"
    for batch in (FULL, QUIET):
        with metrics_file(path) as file:
            file.add(batch)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["batch"], line["expired"], line["rows_per_second"]) for line in lines] == [
        (0, 5, 50.0),
        (1, 7, 0.0),
    ]
    with (
        pytest.raises(InvalidArgumentError, match="metrics must be a file that can be written"),
        metrics_file(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "address"),
    [("9404", ("127.0.0.1", 9404)), ("0.0.0.0:0", ("0.0.0.0", 0)), ("[::1]:80", ("::1", 80))],
)
def test_address_to_listen_on_is_a_port_or_a_host_and_a_port(
    text: str, address: tuple[str, int]
) -> None:
    """Loopback unless told otherwise."""
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "65536", "-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """With what was given."""
    with pytest.raises(InvalidArgumentError, match=r"PORT or HOST:PORT"):
        parse_address(text)
