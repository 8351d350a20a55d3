"""Files of a stream's input and output, written and read without a Spark session.

So tests that run a stream in a child process need no JVM of their own.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_spark._traces.workload import CASES
from purgatory_spark._traces.workload_blocks import host_blocks
from tests.spark.naive_trace import TraceEvent, TraceRequest, outcome

#: The columns by which outcomes are sorted.
ORDER = ("host", "request_id", "arrived_at")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Row = dict[str, Any]


@dataclass(frozen=True)
class StreamTrace:
    """Requests and events of some hosts, each in order of time."""

    requests: pa.Table
    events: pa.Table


def stream_trace(*, hosts: int, requests: int, rate: float = 20_000.0) -> StreamTrace:
    """Return a published workload; `requests` and `rate` (arrivals/s) are sums over all hosts."""
    chosen = replace(CASES["low"], hosts=hosts, requests=requests, rate=rate, host_by_host=True)
    blocks = [block for host in range(hosts) for block in host_blocks(chosen, host)]
    requests_table = pa.Table.from_batches([block.requests() for block in blocks])
    events_table = pa.Table.from_batches([block.events() for block in blocks])
    return StreamTrace(requests_table.sort_by("arrived_at"), events_table.sort_by("occurred_at"))


def write_files(folder: Path, tables: list[pa.Table]) -> Path:
    """Write one file for each table into a new folder, which is returned.

    A stream reads them in this order: Spark takes the oldest file first.
    """
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        file = folder / f"{number:03d}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1e9 + number, 1e9 + number))
    return folder


def write_trace(folder: Path, trace: StreamTrace, *, files: int) -> None:
    """Write a trace into the folders `requests` and `events` of `folder`, `files` files in each."""
    for name, table in (("requests", trace.requests), ("events", trace.events)):
        size = -(-table.num_rows // files)
        write_files(
            folder / name, [table.slice(start, size) for start in range(0, table.num_rows, size)]
        )


def stream_arguments(files: Path, target: Path, *options: str) -> list[str]:
    """Return the arguments of `purgatory` for a stream with one file of each kind per batch.

    It reads what `write_trace` wrote to `files`, and writes to `target/out` and
    `target/checkpoint`.
    """
    return [
        *("stream", str(files / "requests"), str(files / "events")),
        *("--out", str(target / "out"), "--checkpoint", str(target / "checkpoint")),
        *("--files-per-batch", "1", "--watermark-delay-ms", "100", "--shards", "4", *options),
    ]


def stream_command(files: Path, target: Path, *options: str) -> list[str]:
    """Return the command line of a stream; the arguments are those of `stream_arguments`."""
    return [
        sys.executable,
        "-m",
        "purgatory_command",
        *stream_arguments(files, target, *options),
    ]


def written_outcomes(target: Path) -> list[Row]:
    """Return the outcomes that a stream wrote into `target/out`, in order.

    Only files of committed batches count, which Spark's sink lists in its log. An aborted batch may
    have left others.
    """
    committed = _committed(target / "out" / "_spark_metadata")
    rows: list[Row] = []
    for file in sorted((target / "out" / "kind=outcomes").glob("*.parquet")):
        if file.name in committed:
            rows += pq.ParquetFile(file).read().drop_columns(["reason", "row"]).to_pylist()
    return in_order(rows)


def _committed(log: Path) -> set[str]:
    """Return the names of the files in a sink's log: after a version line, JSON lines."""
    names = set()
    for file in log.iterdir():
        if not file.name.startswith("."):
            names.update(
                Path(json.loads(line)["path"]).name for line in file.read_text().splitlines()[1:]
            )
    return names


def expected_outcomes(trace: StreamTrace) -> list[Row]:
    """Return the outcomes of a trace by the naive model, in order."""
    events: dict[tuple[str, str], list[TraceEvent]] = defaultdict(list)
    for row in trace.events.to_pylist():
        event = TraceEvent(row["key"], microseconds(row["occurred_at"]), row["amount"])
        events[row["host"], row["key"]].append(event)
    rows = []
    for row in trace.requests.to_pylist():
        arrived_us = microseconds(row["arrived_at"])
        rule = (
            row["timeout_ms"],
            row["watch_keys"],
            row["aggregate"],
            row["threshold"],
            row["quantifier"],
        )
        # Events on other keys do not matter.
        of_its_keys = [
            event for key in row["watch_keys"] for event in events.get((row["host"], key), [])
        ]
        ended, ended_us = outcome(TraceRequest(row["request_id"], arrived_us, *rule), of_its_keys)
        kept = {name: row[name] for name in ("host", "request_id", "request_type", "arrived_at")}
        ended_at = _EPOCH + ended_us * _MICROSECOND
        rows.append(
            kept
            | {"ended_at": ended_at, "outcome": ended, "waited_ms": (ended_us - arrived_us) / 1000}
        )
    return in_order(rows)


def in_order(rows: list[Row]) -> list[Row]:
    """Return outcomes by host and request."""
    return sorted(rows, key=lambda row: tuple(row[name] for name in ORDER))


def microseconds(moment: datetime) -> int:
    """Return a moment as microseconds since the epoch."""
    return (moment - _EPOCH) // _MICROSECOND


def json_rows(rows: list[Row]) -> list[bytes]:
    """Return rows as the pipeline's JSON: times in UTC to the microsecond, a null has no field."""
    return [
        json.dumps(
            {name: _as_json(value) for name, value in row.items() if value is not None}
        ).encode()
        for row in rows
    ]


def _as_json(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value
