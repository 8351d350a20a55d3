"""The command `purgatory stream-state`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from purgatory_command_line.command import command
from purgatory_command_line.converters import LocalPath
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.output import OutputOptions
from purgatory_spark._analysis.units import format_bytes, format_share
from purgatory_spark._cli import session
from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._stream.checkpoint import CheckpointError
from purgatory_spark._stream.stored_state import HEAD, read_stream_state

_TIMES = ("oldest_arrived_at", "first_deadline_at", "last_deadline_at")
_SUMS = ("pending", "requests_ahead", "events_ahead", "remembered_keys", "reserved_ids", "segments")
_PART_NAMES = {
    "requests": "requests ahead of the watermark",
    "events": "events ahead of the watermark",
    "pending": "pending requests",
    "pairs": "their unsatisfied (request, key) pairs",
    "keys": "remembered keys",
    "ids": "request ids in use",
    HEAD: "lists of segments",
}


@command(describe_failure)
def stream_state(checkpoint: LocalPath, /, *, output: OutputOptions) -> ExitCode:
    """Show what the checkpoint of a stream holds, without running the stream.

    Args:
        checkpoint: The stream's --checkpoint. It is not changed, and the stream may be running.
        output: See `Output`.
    """
    if not checkpoint.is_dir():
        raise CheckpointError(f"{checkpoint}: no such folder")
    with session.open_session() as spark:
        rows = read_stream_state(spark, checkpoint).toArrow().to_pylist()
    shards = sorted(rows, key=lambda shard: shard["shard"])
    totals: dict[str, Any] = {name: sum(shard[name] for shard in shards) for name in _SUMS}
    totals["bytes"] = {part: sum(shard["bytes"][part] for shard in shards) for part in _PART_NAMES}
    output.print_result(
        {
            "checkpoint": str(checkpoint),
            "shards": [{name: _as_json(value) for name, value in row.items()} for row in shards],
            "totals": totals,
        }
    )
    _print_state(output.console, shards, totals)
    return ExitCode.OK


def _as_json(value: Any) -> Any:
    return _utc(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


def _print_state(console: Console, shards: list[dict[str, Any]], totals: dict[str, Any]) -> None:
    title = f"State after batch {shards[0]['batch']}" if shards else "No shard has state"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1))
    times = ("oldest", "first deadline", "last deadline")
    for heading in ("shard", "pending", *times, "ahead", "keys", "ids", "bytes"):
        # A narrow terminal breaks times between date and time, and no numbers.
        table.add_column(heading, justify="right", no_wrap=heading not in times)
    for shard in shards:
        table.add_row(str(shard["shard"]), *_cells(shard, [_time(shard[name]) for name in _TIMES]))
    if len(shards) > 1:
        table.add_section()
        table.add_row("all", *_cells(totals, ["", "", ""]))
    console.print(table)
    sizes = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    sizes.add_column("part")
    for heading in ("bytes", "share"):
        sizes.add_column(heading, justify="right")
    whole = sum(totals["bytes"].values())
    for part, name in _PART_NAMES.items():
        size = totals["bytes"][part]
        sizes.add_row(name, format_bytes(size), format_share(size / whole if whole else 0))
    console.print(sizes)


def _cells(row: dict[str, Any], times: list[str]) -> list[str]:
    ahead = row["requests_ahead"] + row["events_ahead"]
    counts = (ahead, row["remembered_keys"], row["reserved_ids"])
    size = format_bytes(sum(row["bytes"].values()))
    return [f"{row['pending']:,}", *times, *(f"{count:,}" for count in counts), size]


def _time(at: datetime | None) -> str:
    return "-" if at is None else _utc(at).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
