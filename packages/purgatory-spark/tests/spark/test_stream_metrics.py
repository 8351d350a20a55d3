"""Metrics of a stream, for Prometheus and as JSON lines."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from purgatory_command_line.metrics_server import metrics_url, serve_metrics
from purgatory_spark._stream.metrics import StreamMetrics, open_metrics_file
from purgatory_spark._stream.progress import BatchProgress
from request_purgatory.errors import InvalidArgumentError

AT = "2026-01-01T00:00:00.000Z"
FULL = BatchProgress(0, 100, 2.0, "2024-01-01T00:00:10.500Z", 60, 5, 2, 35, 1_000_000, AT)
QUIET = BatchProgress(1, 0, 0.5, "2024-01-01T00:00:12.000Z", 0, 7, 0, 28, 2_000_000, AT)


def values(metrics: StreamMetrics) -> dict[str, float]:
    """Return the samples by name, without their prefix."""
    return {
        sample.name.removeprefix("purgatory_stream_"): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }


def test_counters_are_sums_and_gauges_latest_values() -> None:
    metrics = StreamMetrics()
    assert set(values(metrics).values()) == {0}
    metrics.add(FULL)
    metrics.add(QUIET)
    assert values(metrics) == {
        "batches_total": 2,
        "rows_total": 100,
        "completed_total": 60,
        "expired_total": 12,
        "late_total": 2,
        "batch_seconds_total": 2.5,
        "batch": 1,
        "state_bytes": 2_000_000,
        "rows_per_second": 50,
        "last_batch_seconds": 0.5,
        "watermark_timestamp_seconds": 1704067212,
        "pending": 28,
    }


@pytest.mark.parametrize(
    ("accepted", "format_", "suffix"),
    [
        ("text/plain", "text/plain; version=0.0.4", "_total"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text", ""),
    ],
)
def test_metrics_are_served_while_the_context_is_open(
    accepted: str, format_: str, suffix: str
) -> None:
    metrics = StreamMetrics()
    metrics.add(FULL)
    with serve_metrics(metrics, "127.0.0.1", 0) as port:
        url = metrics_url("127.0.0.1", port)
        request = urllib.request.Request(url, headers={"Accept": accepted})
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.headers["Content-Type"].startswith(format_)
            text = response.read().decode()
        assert "purgatory_stream_rows_total 100.0\n" in text
        for family in metrics.collect():
            kept = suffix if family.type == "counter" else ""
            assert text.count(f"# TYPE {family.name}{kept} {family.type}\n") == 1
        assert len(re.findall("^# TYPE ", text, re.MULTILINE)) == 12
        with (
            pytest.raises(
                InvalidArgumentError, match="metrics_listen must be an address to listen on"
            ),
            serve_metrics(metrics, "127.0.0.1", port),
        ):
            pass
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=10)


def test_lines_are_appended_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "metrics.jsonl"
    for batch in (FULL, QUIET):
        with open_metrics_file(path) as file:
            file.add(batch)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["batch"], line["expired"], line["rows_per_second"]) for line in lines] == [
        (0, 5, 50.0),
        (1, 7, 0.0),
    ]
    with (
        pytest.raises(InvalidArgumentError, match="metrics must be a file that can be written"),
        open_metrics_file(tmp_path),
    ):
        pass
