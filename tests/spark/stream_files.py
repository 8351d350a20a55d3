"""Files for a stream's input and what a stream makes of them, made and read without a Spark session.

Tests whose streams run in processes of their own need no JVM in the test's process.
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

from request_purgatory.pipeline.traces.workload import CASES, host_blocks
from tests.model.naive_trace import TraceEvent, TraceRequest, outcome

#: Where a row of outcomes comes in order.
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
    """Draw a published workload.

    Args:
        hosts: How many hosts; each has an equal share of the requests.
        requests: How many requests, over all hosts.
        rate: Arrivals a second, over all hosts.

    Returns:
        The trace.
    """
    chosen = replace(CASES["low"], hosts=hosts, requests=requests, rate=rate, host_by_host=True)
    blocks = [block for host in range(hosts) for block in host_blocks(chosen, host)]
    requests_table = pa.Table.from_batches([block.requests() for block in blocks])
    events_table = pa.Table.from_batches([block.events() for block in blocks])
    return StreamTrace(requests_table.sort_by("arrived_at"), events_table.sort_by("occurred_at"))


def write_files(folder: Path, tables: list[pa.Table]) -> Path:
    """Write files in the order in which a stream takes them: Spark takes the oldest first.

    Args:
        folder: A new folder for them.
        tables: A file's rows each.

    Returns:
        The folder.
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
    """Return the arguments of `purgatory` for a stream, a file of each kind a batch.

    Args:
        files: The folder that `write_trace` wrote.
        target: Where its output and checkpoint go, in the folders `out` and `checkpoint`.
        options: Further ones.
    """
    return [
        *("stream", str(files / "requests"), str(files / "events")),
        *("--out", str(target / "out"), "--checkpoint", str(target / "checkpoint")),
        *("--files-per-batch", "1", "--delay-ms", "100", "--shards", "4", *options),
    ]


def stream_command(files: Path, target: Path, *options: str) -> list[str]:
    """Return the command line of a stream; the arguments are those of `stream_arguments`."""
    return [
        sys.executable,
        "-m",
        "request_purgatory.cli.main",
        *stream_arguments(files, target, *options),
    ]


def written_outcomes(target: Path) -> list[Row]:
    """Return the outcomes that a stream wrote into `target/out`, in order.

    Spark's sink lists the files of each batch that it has committed; readers of the output folder
    take those alone. A file of a batch that was broken off may lie beside them.
    """
    committed = _committed(target / "out" / "_spark_metadata")
    rows: list[Row] = []
    for file in sorted((target / "out" / "kind=outcomes").glob("*.parquet")):
        if file.name in committed:
            rows += pq.ParquetFile(file).read().drop_columns(["reason", "row"]).to_pylist()
    return in_order(rows)


def _committed(log: Path) -> set[str]:
    """The names of the files in a sink's log.

    JSON lines below a version, in one file a batch or compacted.
    """
    names = set()
    for file in log.iterdir():
        if not file.name.startswith("."):
            names.update(
                Path(json.loads(line)["path"]).name for line in file.read_text().splitlines()[1:]
            )
    return names


def expected_outcomes(trace: StreamTrace) -> list[Row]:
    """Return the rows that the plain definition gives for a trace, in order."""
    events: dict[tuple[str, str], list[TraceEvent]] = defaultdict(list)
    for row in trace.events.to_pylist():
        happened = TraceEvent(row["key"], microseconds(row["occurred_at"]), row["amount"])
        events[row["host"], row["key"]].append(happened)
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
        # Events on other keys have no part in how a request ends.
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
