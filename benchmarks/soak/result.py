"""The result of a campaign: combined from its processes, written to files and printed."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_SUMS = ("operations", "rounds", "cpu_s", "signals", "forks", "collections", "cycles", "shutdowns")
_SAME = ("build", "package", "python", "free_threaded", "gil_enabled")
#: Maximum number of samples in the printed table; the files have all.
_MAX_ROWS = 12


def combine(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the combined result of several processes."""
    combined: dict[str, Any] = {name: sum(one[name] for one in results) for name in _SUMS}
    combined |= {name: results[0][name] for name in _SAME}
    for name in ("by_kind", "by_outcome"):
        combined[name] = dict(sum((Counter(one[name]) for one in results), Counter()))
    combined["seconds"] = max(one["seconds"] for one in results)
    combined["problems"] = [
        f"seed {one['seed']}: {one['problem']}" for one in results if one["problem"]
    ]
    combined["processes"] = [{"seed": one["seed"], "samples": one["samples"]} for one in results]
    return combined


def write(result: dict[str, Any], path: Path) -> None:
    """Write the result to `path`, and the samples as CSV next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    with path.with_suffix(".csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("process", "seconds", "operations", "rss_kb", "blocks"))
        for number, process in enumerate(result["processes"]):
            rows.writerows((number, *sample.values()) for sample in process["samples"])


def show(result: dict[str, Any], console: Console) -> None:
    """Print the counts, and the memory over time."""
    ends = Table("kind of operation", "ended", title="operations")
    for kind, count in sorted(result["by_kind"].items(), key=lambda item: -item[1]):
        ends.add_row(kind, f"{count:,}")
    for outcome, count in sorted(result["by_outcome"].items()):
        ends.add_row(outcome, f"{count:,}", style="dim")
    console.print(ends)
    for number, process in enumerate(result["processes"]):
        memory = Table(
            "seconds", "operations", "RSS, MB", "blocks", title=f"memory of process {number}"
        )
        samples = process["samples"]
        for sample in samples[:: max(1, len(samples) // _MAX_ROWS)]:
            rss_mb = sample["rss_kb"] / 1024
            memory.add_row(
                f"{sample['seconds']:.0f}",
                f"{sample['operations']:,}",
                f"{rss_mb:.1f}",
                f"{sample['blocks']:,}",
            )
        console.print(memory)
    peers = ", ".join(
        f"{result[name]:,} {name}"
        for name in ("rounds", "shutdowns", "signals", "forks", "collections", "cycles")
    )
    rate = result["operations"] / max(result["seconds"], 0.001)
    per_cpu_second = result["operations"] / max(result["cpu_s"], 0.001)
    console.print(peers)
    console.print(
        f"{result['operations']:,} operations in {result['seconds']:.0f} s: {rate:,.0f} a second, "
        f"{per_cpu_second:,.0f} a second of processor time"
    )
