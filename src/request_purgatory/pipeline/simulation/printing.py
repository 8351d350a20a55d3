"""A simulation's summary on the console."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from request_purgatory.pipeline.analysis.units import bytes_text, ms_text, share_text
from request_purgatory.pipeline.simulation.host_simulation import QUANTILES


def print_simulation(console: Console, summary: dict[str, Any]) -> None:
    """What ended how, what it cost, and what the target would need, from `simulation.run_simulation`."""
    _print_measured(console, summary)
    _print_extrapolation(console, summary)


def _print_measured(console: Console, summary: dict[str, Any]) -> None:
    ends, waits, purgatory, cost = (
        summary[part] for part in ("ends", "waits", "purgatory", "cost")
    )
    cores = summary["machine"]["cores"]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    expired = ends["expired"] / ends["requests"]
    table.add_row("requests", f"{ends['requests']:,} on {summary['hosts']:,} hosts")
    table.add_row(
        "completed, expired", f"{ends['completed']:,}, {ends['expired']:,} ({share_text(expired)})"
    )
    quantiles = ", ".join(f"{_percentile(name)} {ms_text(waits[name])}" for name in QUANTILES)
    table.add_row(
        "waited",
        f"mean {ms_text(waits['mean_ms'])}, {quantiles}, longest {ms_text(waits['max_ms'])}",
    )
    table.add_row("", f"[dim]percentiles at most {waits['relative_error'] * 100:.1f} % off; timeouts at most "
                      f"{ms_text(waits['max_late_ms'])} late[/]")  # fmt: skip
    peaks = (
        f"{purgatory['peak_pending']:,} pending, {purgatory['peak_watched_keys']:,} watched keys"
    )
    table.add_row("busiest host", f"{peaks}; {purgatory['purges']:,} purges on all hosts")
    for level in purgatory["wheel"]:
        used = f"{level['mean_used']:.1f} on average, {level['peak_used']} at most, of {level['buckets']} buckets in use"
        table.add_row(f"wheel of {ms_text(level['tick_ms'])} ticks", used)
    table.add_row(
        "overall",
        f"{cost['requests_per_second']:,.0f} requests/s in {cost['seconds']:.1f} s on {cores} cores",
    )
    table.add_row("a busy core", f"{cost['requests_per_cpu_second']:,.0f} requests/s of a worker's CPU time; "
                                 f"replay alone {cost['requests_per_replay_cpu_second']:,.0f}")  # fmt: skip
    table.add_row("CPU time", f"{cost['cpu_seconds']:.1f} s in {cost['tasks']:,} tasks, "
                              f"{cost['cpu_seconds_per_million']:.2f} s a million requests; "
                              f"{share_text(cost['busy_share'])} of the cores' time")  # fmt: skip
    table.add_row("memory", f"largest worker {bytes_text(cost['peak_worker_bytes'])}, "
                            f"a pending request {summary['sizes']['pending_request']:,.0f} bytes")  # fmt: skip
    console.print(table)


def _percentile(name: str) -> str:
    return "p" + str(QUANTILES[name] * 100).rstrip("0").rstrip(".")


def _print_extrapolation(console: Console, summary: dict[str, Any]) -> None:
    target = summary["parameters"]["target"]["per_day"]
    title = f"Extrapolated from the above to {target:,.0f} requests a day"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1), title_justify="left")
    table.add_column("needed", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("is")
    for figure in summary["extrapolation"]:
        table.add_row(figure["name"], _amount(figure["value"], figure["unit"]), figure["how"])
    console.print(table)
    for assumption in summary["assumptions"]:
        console.print(f"[dim]- assumed: {assumption}[/]")


def _amount(value: float, unit: str) -> str:
    if unit.startswith("bytes"):
        return bytes_text(value) + unit.removeprefix("bytes")
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
