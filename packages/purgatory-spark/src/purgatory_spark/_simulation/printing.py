"""Print a simulation's summary."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from purgatory_spark._analysis.aggregates import QUANTILES
from purgatory_spark._analysis.sentences import print_sentence
from purgatory_spark._analysis.units import format_bytes, format_ms, format_share


def print_simulation(console: Console, summary: dict[str, Any]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in (*_outcome_lines(summary), *_cost_lines(summary)):
        table.add_row(name, text)
    console.print(table)
    _print_estimates(console, summary)


def _outcome_lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    ends, waits, purgatory = (summary[part] for part in ("ends", "waits", "purgatory"))
    expired = format_share(ends["expired"] / ends["requests"])
    quantiles = ", ".join(f"{_percentile(name)} {format_ms(waits[name])}" for name in QUANTILES)
    mean, longest = format_ms(waits["mean_ms"]), format_ms(waits["max_ms"])
    error = f"{waits['relative_error'] * 100:.1f} %"
    pending, keys = purgatory["peak_pending"], purgatory["peak_watched_keys"]
    lines = [
        ("requests", f"{ends['requests']:,} on {summary['hosts']:,} hosts"),
        ("completed, expired", f"{ends['completed']:,}, {ends['expired']:,} ({expired})"),
        ("waiting time", f"mean {mean}, {quantiles}, longest {longest}"),
        (
            "",
            f"[dim]error of the percentiles at most {error}; timeouts at most "
            f"{format_ms(waits['max_late_ms'])} late[/]",
        ),
        ("busiest host", f"{pending:,} pending requests, {keys:,} watched keys"),
        ("purges", f"{purgatory['purges']:,} on all hosts"),
    ]
    for level in purgatory["wheel"]:
        mean_used, peak = f"{level['mean_used']:.1f}", level["peak_used"]
        lines.append(
            (
                f"wheel of {format_ms(level['tick_ms'])} ticks",
                f"{mean_used} of {level['buckets']} buckets in use on average, {peak} at most",
            )
        )
    return lines


def _cost_lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    cost, cores = summary["cost"], summary["machine"]["cores"]
    per_cpu_second = cost["requests_per_cpu_second"]
    per_replay_second = cost["requests_per_replay_cpu_second"]
    return [
        (
            "overall",
            f"{cost['requests_per_second']:,.0f} requests/s in {cost['seconds']:.1f} s "
            f"on {cores} cores",
        ),
        (
            "a busy core",
            f"{per_cpu_second:,.0f} requests/s of a worker's CPU time; "
            f"{per_replay_second:,.0f} of the replay's alone",
        ),
        (
            "CPU time",
            f"{cost['cpu_seconds']:.1f} s in {cost['tasks']:,} tasks, "
            f"{cost['cpu_seconds_per_million']:.2f} s per million requests; "
            f"{format_share(cost['busy_share'])} of the cores' time",
        ),
        (
            "memory",
            f"largest worker {format_bytes(cost['peak_worker_bytes'])}, "
            f"a pending request {summary['sizes']['pending_request']:,.0f} bytes",
        ),
    ]


def _percentile(name: str) -> str:
    return "p" + str(QUANTILES[name] * 100).rstrip("0").rstrip(".")


def _print_estimates(console: Console, summary: dict[str, Any]) -> None:
    target = summary["parameters"]["target"]["per_day"]
    title = f"Extrapolated from the above to {target:,.0f} requests a day"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1), title_justify="left")
    table.add_column("needed", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("estimated as")
    for estimate in summary["extrapolation"]:
        amount = _format_amount(estimate["value"], estimate["unit"])
        table.add_row(estimate["name"], amount, estimate["formula"])
    console.print(table)
    console.print("[dim]Assumptions:[/]")
    for assumption in summary["assumptions"]:
        print_sentence(console, assumption, indent="- ", style="dim")


def _format_amount(value: float, unit: str) -> str:
    if unit.startswith("bytes"):
        return format_bytes(value) + unit.removeprefix("bytes")
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
