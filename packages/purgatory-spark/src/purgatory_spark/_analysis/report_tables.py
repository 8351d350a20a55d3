"""The tables of the report: values beside the texts that show them, for sorting and for CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from purgatory_spark._analysis.units import (
    common_unit,
    format_bytes,
    format_in,
    format_ms,
    format_number,
    format_share,
)

Row = Mapping[str, Any]

#: How the values of a column are shown, and the unit in which CSV has them.
_KINDS: Mapping[str, tuple[Callable[[Any], str], str]] = {
    "text": (str, ""),
    "integer": (lambda value: f"{value:,}", ""),
    "number": (format_number, ""),
    # Each table shows all of its times in one unit, but for sums.
    "ms": (format_ms, "ms"),
    "sum of ms": (format_ms, "ms"),
    "timeout": (lambda value: f"{value:,}", "ms"),
    "share": (format_share, "0 to 1"),
    "bytes": (format_bytes, "bytes"),
    "seconds": (lambda value: f"{value:.2f} s", "s"),
}


#: The column whose values are bars, too.
_BARS = "expired_share"


@dataclass(frozen=True)
class Column:
    """A column: its key in rows, its heading, one of `_KINDS`, and what is shown for None."""

    name: str
    heading: str
    kind: str = "text"
    missing: str = "–"
    unit: tuple[str, float] | None = None

    @property
    def csv_heading(self) -> str:
        unit = _KINDS[self.kind][1]
        return f"{self.heading} ({unit})" if unit else self.heading

    @property
    def shown(self) -> str:
        """The heading, with the unit of all times in the column."""
        unit = "ms" if self.kind == "timeout" else self.unit[0] if self.unit else ""
        return f"{self.heading} ({unit})" if unit else self.heading


@dataclass(frozen=True)
class Cell:
    """A value in a table: what is shown, and what is sorted by and in CSV; empty for no value.

    `bar` is the length of a bar behind it, in percent of the cell.
    """

    text: str
    value: str
    bar: float = 0.0


@dataclass(frozen=True)
class Table:
    """A table of the report: its name in files, its cells, and the numbers of highlighted rows."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    highlighted: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        name: str,
        columns: Sequence[Column],
        rows: Sequence[Row],
        remarks: Mapping[int, str] | None = None,
    ) -> Table:
        """Make a table; rows with remarks, added to their first values, are highlighted."""
        remarks = remarks or {}
        columns = _with_units(columns, rows)
        largest = max((row.get(_BARS) or 0 for row in rows), default=0)
        cells = [[_cell(column, row[column.name], largest) for column in columns] for row in rows]
        for number, remark in remarks.items():
            first = cells[number][0]
            cells[number][0] = Cell(f"{first.text} ({remark})", first.value)
        return cls(name, columns, cells, frozenset(remarks))


def _with_units(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """Give the columns of times one unit, and each column of sums its own."""

    def unit_of(*names: str) -> tuple[str, float]:
        return common_unit(row[name] for row in rows for name in names if row[name] is not None)

    units = {"ms": unit_of(*(column.name for column in columns if column.kind == "ms"))}
    return [
        replace(column, unit=units.get(column.kind, unit_of(column.name)))
        if column.kind in ("ms", "sum of ms")
        else column
        for column in columns
    ]


def _cell(column: Column, value: Any, largest_share: float) -> Cell:
    if value is None:
        return Cell(column.missing, "")
    if isinstance(value, datetime):
        return Cell(str(value), value.isoformat())
    text = format_in(value, column.unit[1]) if column.unit else _KINDS[column.kind][0](value)
    is_drawn = column.name == _BARS and largest_share
    return Cell(text, str(value), round(100 * value / largest_share, 1) if is_drawn else 0.0)


_QUANTILES = [
    Column("p50_ms", "p50", "ms"),
    Column("p90_ms", "p90", "ms"),
    Column("p99_ms", "p99", "ms"),
    Column("p999_ms", "p99.9", "ms"),
]


def _integers(*names: str) -> list[Column]:
    return [Column(name, name, "integer") for name in names]


_OUTCOMES = [
    *_integers("requests", "expired"),
    Column("expired_share", "expired share", "share"),
]


def summary_table(name: str, what: str, rows: Sequence[Row]) -> Table:
    columns = [
        Column("value", what, missing="(none)"),
        *_OUTCOMES,
        Column("mean_ms", "mean", "ms"),
        *_QUANTILES,
        Column("max_ms", "max", "ms"),
        Column("uncut_p50_ms", "p50 uncut", "ms", "never"),
        Column("uncut_p99_ms", "p99 uncut", "ms", "never"),
    ]
    return Table.of(name, columns, rows)


def marks_table(rows: Sequence[Row]) -> Table:
    columns = [
        Column("label", "mark"),
        Column("at", "at (UTC)"),
        Column("side", "arrived"),
        *_OUTCOMES,
        Column("p50_ms", "median wait", "ms"),
        Column("p99_ms", "p99 wait", "ms"),
    ]
    return Table.of("marks", columns, rows)


def waits_table(overall: Row) -> Table:
    columns = [Column("waits", "waiting time"), *_QUANTILES]
    # "Never" is a quantile of uncut waits only.
    columns = [Column(each.name, each.heading, each.kind, "never") for each in columns]
    rows = [
        {"waits": label, **{each.name: overall[prefix + each.name] for each in _QUANTILES}}
        for label, prefix in (("with the timeouts", ""), ("uncut", "uncut_"))
    ]
    return Table.of("waits", columns, rows)


def what_if_table(rows: Sequence[Row], in_use: Sequence[int], recommended: int | None) -> Table:
    columns = [
        Column("timeout_ms", "timeout", "timeout"),
        Column("expired", "expired", "integer"),
        Column("expired_share", "expired share", "share"),
        Column("expired_waited_ms", "waited by expired requests", "sum of ms"),
        Column("mean_waited_ms", "mean wait", "ms"),
        Column("peak_pending", "peak pending, busiest host", "integer"),
        Column("peak_bytes", "peak memory, busiest host", "bytes"),
    ]
    remarks = {}
    for number, row in enumerate(rows):
        timeout = row["timeout_ms"]
        known = [("in use", timeout in in_use), ("recommended", timeout == recommended)]
        if found := [remark for remark, holds in known if holds]:
            remarks[number] = ", ".join(found)
    return Table.of("what_if", columns, rows, remarks)


def replay_tables(
    designs: Sequence[Row], lateness: Sequence[Row], hosts: Sequence[Row], wheel_size: str
) -> dict[str, Table]:
    counted = [
        Column("peak_pending", "peak pending, one host", "integer"),
        Column("peak_queued", "peak in timer, one host", "integer"),
        Column("purges", "purges", "integer"),
    ]
    task_time = Column("task_seconds", "task time", "seconds")
    of_designs = [
        Column("design", "design"),
        *_integers("requests", "completed", "expired"),
        *counted,
        Column("purged_entries", "entries purged", "integer"),
        *_integers("tries", "callbacks"),
        Column("callback_errors", "callback errors", "integer"),
        task_time,
    ]
    of_lateness = [
        Column("design", "expiry lateness"),
        Column("expired", "expired", "integer"),
        Column("mean_ms", "mean", "ms"),
        Column("p50_ms", "p50", "ms"),
        Column("p99_ms", "p99", "ms"),
        Column("max_ms", "max", "ms"),
    ]
    of_hosts = [
        Column("host", "replay, by host"),
        Column("design", "design"),
        *counted,
        Column("estimate_error_mean", "estimate error, mean", "number"),
        Column("estimate_error_max", "estimate error, max", "integer"),
        Column("levels", f"used buckets of {wheel_size}, by level: mean (peak)"),
        task_time,
    ]
    with_levels = [dict(row) | {"levels": _levels(row["wheel"])} for row in hosts]
    return {
        "designs": Table.of("designs", of_designs, designs),
        "lateness": Table.of("lateness", of_lateness, lateness),
        "replayed_hosts": Table.of("replayed_hosts", of_hosts, with_levels),
    }


def _levels(wheel: Sequence[Row] | None) -> str | None:
    levels = [
        f"{format_ms(level['tick_ms'])}: {level['mean_used']:.1f} ({level['peak_used']})"
        for level in wheel or ()
    ]
    return "\n".join(levels) or None


def rows_table(counts: Mapping[str, int], rejected: Mapping[str, int]) -> Table:
    named = {**counts} | {f"rejected: {reason}": count for reason, count in rejected.items()}
    columns = [Column("rows", "rows"), Column("count", "number", "integer")]
    return Table.of("rows", columns, [{"rows": key, "count": named[key]} for key in named])


def settings_table(settings: Mapping[str, Any]) -> Table:
    columns = [Column("name", "parameter"), Column("value", "value")]
    return Table.of(
        "parameters", columns, [{"name": key, "value": settings[key]} for key in settings]
    )


def question_table(question: Row) -> Table:
    sides = [Column(f"side {n}", side, "number") for n, side in enumerate(question["sides"])]
    rows = [
        {
            "case": line["case"],
            "metric": f"{line['metric']} ({line['unit']})",
            **{
                side.name: value["median"] if value else None
                for side, value in zip(sides, line["values"], strict=True)
            },
        }
        for line in question["lines"]
    ]
    columns = [Column("case", "case"), Column("metric", "metric"), *sides]
    return Table.of(question["name"], columns, rows)


def targets_table(targets: Sequence[Row]) -> Table:
    columns = [
        Column("name", "what"),
        Column("metric", "metric"),
        Column("target", "target", "number"),
        Column("moonshot", "moonshot", "number"),
        Column("measured", "measured", "number"),
        Column("verdict", "verdict"),
        Column("peer", "best peer"),
        Column("best_peer_value", "best peer, measured", "number"),
    ]
    rows = [
        {
            **row,
            "peer": row["best_peer"] or None,
            "best_peer_value": row["best_peer_value"] if row["best_peer"] else None,
        }
        for row in targets
    ]
    return Table.of("targets", columns, rows)


def not_measured_table(rows: Sequence[Row]) -> Table:
    columns = [Column(name, name) for name in ("question", "side", "case", "why")]
    named = [
        {**row, "why": f"FAILED: {row['reason']}" if row["failed"] else row["reason"]}
        for row in rows
    ]
    return Table.of("not_measured", columns, named)
