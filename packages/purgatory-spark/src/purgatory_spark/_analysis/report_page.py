"""The page of a report, and the figures, tables and sentences on it."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import pyspark
from markupsafe import Markup

from purgatory_spark._analysis import charts, report_tables
from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.chart_files import chart_script, chart_styles, text_of
from purgatory_spark._analysis.charts import Chart
from purgatory_spark._analysis.findings import find
from purgatory_spark._analysis.report_tables import Table
from purgatory_spark._analysis.small_tables import SmallTables
from purgatory_spark._analysis.time_charts import TimeCharts, complete_bins
from purgatory_spark._analysis.units import format_ms, format_share, unbroken
from purgatory_spark._analysis.wait_scale import BINS_PER_DECADE

Row = dict[str, Any]

_UP, _DOWN = "ascending", "descending"

#: Maximum rows in a table of hosts or request types; the Parquet tables have all.
_MAX_ROWS = 40

#: Times in rows are in UTC and without a zone.
_EPOCH = datetime(1970, 1, 1)

_QUANTILE_LABELS = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9"}


def report_page(
    analyses: list[Analysis],
    folder: Path,
    title: str,
    benchmarks: Sequence[Mapping[str, Any]],
) -> str:
    templates = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        integer=lambda value: f"{value:,}", ms=format_ms, share=format_share, unbroken=unbroken
    )
    script = Markup("\n").join((chart_script(), Markup(text_of("report.js"))))
    digest = hashlib.sha256(script.encode()).digest()
    return environment.get_template("report.html").render(
        title=title,
        traces=[
            _trace_section(analysis, folder, f"trace-{number}")
            for number, analysis in enumerate(analyses, start=1)
        ],
        benchmarks=benchmarks,
        targets_table=report_tables.targets_table,
        question_table=report_tables.question_table,
        not_measured_table=report_tables.not_measured_table,
        styles=chart_styles(),
        script=script,
        # The page runs this script alone, and loads nothing.
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
        version=version("purgatory-spark"),
        spark_version=pyspark.__version__,
        python_version=platform.python_version(),
    )


def _trace_section(analysis: Analysis, folder: Path, name: str) -> Row:
    """Return the template's values for one trace, whose section on the page is `name`.

    The rows collected here are few whatever the trace's size: bins, timeouts, and the first
    `_MAX_ROWS` hosts and types.
    """
    manifest = analysis.manifest
    trace = manifest["trace"]
    tables = SmallTables(analysis)
    in_use = tables.timeouts_in_use
    section: Row = {
        "id": name,
        "name": trace["name"],
        "folder": Path(os.path.relpath(analysis.path, folder)).as_posix(),
        "format": trace["format"],
        "notes": trace["notes"],
        "findings": find(tables),
        "settings": _settings(manifest),
        "timeout": " to ".join(format_ms(timeout) for timeout in in_use),
        "timeouts_in_use": in_use,
        "bin_ms": manifest["bin_ms"],
        "bytes_per_operation": manifest["bytes_per_operation"],
        "keys_per_request": manifest["keys_per_request"],
        "all": tables.overall,
        "marks": _in_utc(tables.marks),
        "timeline": _in_utc(tables.timeline),
        "waits": tables.waits,
        "what_if": tables.what_if,
        **_summaries(analysis),
        **_replays(tables),
    }
    first, last = (_EPOCH + timedelta(microseconds=us) for us in manifest["arrivals_us"])
    timeline = section["timeline"]
    section["is_cut"] = len(complete_bins(timeline, section["bin_ms"], first, last)) < len(timeline)
    section["charts"] = _charts(section, first, last)
    section["tables"] = _tables(manifest, section)
    drawn = sum(row["arrived"] for row in section["timeline"])
    section["not_drawn"] = section["all"]["requests"] - drawn
    return section


def _tables(manifest: Row, section: Row) -> dict[str, Table]:
    trace = manifest["trace"]
    wheel_sizes = [
        settings["wheel_size"] for settings in manifest["replays"] if settings["design"] == "wheel"
    ]
    return {
        "what_if": report_tables.what_if_table(
            section["what_if"], section["timeouts_in_use"], section["findings"].timeout.timeout_ms
        ),
        "marks": report_tables.marks_table(section["marks"]),
        "waits": report_tables.waits_table(section["all"]),
        "types": report_tables.summary_table("types", "request type", section["types"]),
        "hosts": report_tables.summary_table("hosts", "host", section["hosts"]),
        "rows": report_tables.rows_table(trace["rows"], trace["rejected"]),
        "settings": report_tables.settings_table(section["settings"]),
        **report_tables.replay_tables(
            section["designs"],
            section["lateness"],
            section["replayed_hosts"],
            str(wheel_sizes[0]) if wheel_sizes else "",
        ),
    }


def _summaries(analysis: Analysis) -> Row:
    by_requests = [("requests", _DOWN), ("value", _UP)]
    by_share = [("expired_share", _DOWN), *by_requests]
    types, types_total = analysis.first_rows(
        "summary", by_share, _MAX_ROWS, dimension="request_type"
    )
    hosts, hosts_total = analysis.first_rows("summary", by_requests, _MAX_ROWS, dimension="host")
    return {
        "types": types,
        "types_total": types_total,
        "hosts": hosts,
        "hosts_total": hosts_total,
    }


def _replays(tables: SmallTables) -> Row:
    hosts: list[Row] = []
    if "hosts" in tables.manifest["tables"]:
        order = [("requests", _DOWN), ("host", _UP), ("design", _DOWN)]
        hosts, _ = tables.analysis.first_rows("hosts", order, _MAX_ROWS)
    return {
        "agreement": tables.agreement,
        "lateness": [row for row in tables.lateness if row["expired"]],
        "designs": tables.designs,
        "replayed_hosts": hosts,
    }


def _charts(section: Row, first: datetime, last: datetime) -> dict[str, Chart]:
    """Return the charts of a trace, whose first and last request arrived at these times."""
    overall = section["all"]
    quantiles = {label: overall[name] for name, label in _QUANTILE_LABELS.items()}
    over_time = TimeCharts(section["timeline"], section["bin_ms"], section["marks"], section["id"])
    return {
        "arrivals": over_time.arrivals(first, last),
        "pending": over_time.pending(last),
        "expired": over_time.expired(),
        "waits_over_time": over_time.waits(),
        "waits": charts.waiting_times(section["waits"], BINS_PER_DECADE, quantiles),
        "what_if": charts.what_if_curve(
            section["what_if"], section["timeouts_in_use"], section["findings"].timeout.timeout_ms
        ),
    }


def _in_utc(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the rows with times in UTC and without a zone, which the page names once."""
    return [
        {
            name: value.astimezone(UTC).replace(tzinfo=None)
            if isinstance(value, datetime)
            else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _given(parameters: Row) -> Row:
    return {name: value for name, value in parameters.items() if value not in ({}, (), [], None)}


def _readable(value: Any) -> str:
    """Return a parameter's value as text, with a line for each of its parts."""
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {_readable(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_readable, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _settings(manifest: Row) -> Row:
    trace = manifest["trace"]
    settings: Row = {"source": trace["source"], "format": trace["format"]}
    settings |= {name: _readable(value) for name, value in _given(trace["parameters"]).items()}
    for replay in manifest["replays"]:
        known = {name: value for name, value in replay.items() if name not in ("design", "label")}
        if replay["design"] == "legacy":
            # The 0.8 design has no wheel and no shards.
            known = {"purge_interval": replay["purge_interval"]}
        settings[f"replay, {replay['label']}"] = ", ".join(
            f"{name} {value}" for name, value in known.items()
        )
    settings["timeouts tried (ms)"] = _readable(manifest["timeouts_ms"])
    return settings
