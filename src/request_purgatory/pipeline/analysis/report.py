"""The report: one self-contained HTML file about analyses and benchmark results."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import pyspark
from markupsafe import Markup
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.analysis import charts, time_charts
from request_purgatory.pipeline.analysis.aggregates import QUANTILES
from request_purgatory.pipeline.analysis.analysis import Analysis
from request_purgatory.pipeline.analysis.units import (
    format_bytes,
    format_ms,
    format_number,
    format_share,
)
from request_purgatory.pipeline.analysis.wait_buckets import BINS_PER_DECADE

Row = dict[str, Any]

#: Maximum rows in a table of hosts or request types; the Parquet tables have all.
_MAX_ROWS = 40

_QUANTILE_LABELS = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9"}


def write_report(
    spark: SparkSession,
    analyses: list[Analysis],
    target: Path,
    title: str = "Request purgatory report",
    benchmarks: Sequence[Row] = (),
) -> Path:
    """Write a report.

    Args:
        spark: The session to read the analyses with.
        analyses: One section each.
        target: The HTML file to write.
        title: The page's title.
        benchmarks: Ready sections, from `published_benchmark.report_section.benchmark_section`.

    Returns:
        `target`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        integer=lambda value: f"{value:,}",
        ms=format_ms,
        share=format_share,
        bytes=format_bytes,
        number=format_number,
    )
    page = environment.get_template("report.html").render(
        title=title,
        traces=[_trace_section(spark, analysis) for analysis in analyses],
        benchmarks=benchmarks,
        version=version("request-purgatory"),
        spark_version=pyspark.__version__,
        python_version=platform.python_version(),
    )
    target.write_text(page, encoding="utf-8")
    return target


def _trace_section(spark: SparkSession, analysis: Analysis) -> Row:
    """Return the template's values for one trace.

    The rows collected here are few whatever the trace's size: bins, timeouts, and the first
    `_MAX_ROWS` hosts and types.
    """
    manifest = analysis.manifest
    trace = manifest["trace"]
    in_use = sorted(set(manifest["timeout_ms"]))
    section: Row = {
        "name": trace["name"],
        "format": trace["format"],
        "notes": trace["notes"],
        "rows": trace["rows"],
        "rejected": trace["rejected"],
        "parameters": ", ".join(
            f"{name}={value}" for name, value in _given(trace["parameters"]).items()
        ),
        "settings": _settings(manifest),
        "timeout": " to ".join(format_ms(timeout) for timeout in in_use),
        "timeouts_in_use": in_use,
        "bin_ms": manifest["bin_ms"],
        "bytes_per_operation": manifest["bytes_per_operation"],
        "keys_per_request": manifest["keys_per_request"],
        "all": analysis.rows("summary", dimension="all")[0],
        "marks": _optional_rows(analysis, "marks"),
        "timeline": sorted(_optional_rows(analysis, "timeline"), key=lambda row: row["from_at"]),
        "what_if": sorted(
            _optional_rows(analysis, "what_if"), key=lambda row: int(row["timeout_ms"])
        ),
        **_summaries(spark, analysis),
        **_replays(spark, analysis),
    }
    section["charts"] = _charts(analysis, section)
    drawn = sum(row["arrived"] for row in section["timeline"])
    section["not_drawn"] = section["all"]["requests"] - drawn
    return section


def _summaries(spark: SparkSession, analysis: Analysis) -> Row:
    summary = analysis.table(spark, "summary")
    totals: dict[str, int] = dict(summary.groupBy("dimension").count().collect())
    types, hosts = (
        summary.where(F.col("dimension") == dimension) for dimension in ("request_type", "host")
    )
    return {
        "types": _top_rows(types, ["expired_share", "requests"], "value"),
        "types_total": totals["request_type"],
        "hosts": _top_rows(hosts, ["requests"], "value"),
        "hosts_total": totals["host"],
    }


def _replays(spark: SparkSession, analysis: Analysis) -> Row:
    manifest = analysis.manifest
    wheel_sizes = [
        settings["wheel_size"] for settings in manifest["replays"] if settings["design"] == "wheel"
    ]
    designs: list[Row] = []
    hosts: list[Row] = []
    if "hosts" in manifest["tables"]:
        table = analysis.table(spark, "hosts")
        designs = _collect(_by_design(table))
        hosts = _top_rows(table, ["requests"], "host", F.desc("design"))
    return {
        "agreement": _optional_rows(analysis, "agreement"),
        "lateness": [row for row in _optional_rows(analysis, "lateness") if row["expired"]],
        "designs": designs,
        "replayed_hosts": hosts,
        "wheel_size": wheel_sizes[0] if wheel_sizes else "",
    }


def _charts(analysis: Analysis, section: Row) -> dict[str, Markup]:
    # Markup is safe: these charts are our own, and matplotlib escapes the trace's names in them.
    timeline, marks = section["timeline"], section["marks"]
    waits = sorted(_optional_rows(analysis, "waits"), key=lambda row: int(row["bin"]))
    overall, types = section["all"], section["types"]
    quantiles = {
        _QUANTILE_LABELS[name]: overall[name] for name in QUANTILES if name in _QUANTILE_LABELS
    }
    by_type = charts.expired_by_type(types) if len(types) > 1 and overall["expired"] else ""
    return {
        "arrivals": Markup(time_charts.arrivals_over_time(timeline, section["bin_ms"], marks)),
        "pending": Markup(time_charts.pending_over_time(timeline, marks)),
        "expired": Markup(time_charts.expired_over_time(timeline, marks)),
        "waits_over_time": Markup(time_charts.waits_over_time(timeline, marks)),
        "waits": Markup(charts.waiting_times(waits, BINS_PER_DECADE, quantiles)),
        "what_if": Markup(charts.what_if_curve(section["what_if"], section["timeouts_in_use"])),
        "types": Markup(by_type),
    }


def _optional_rows(analysis: Analysis, name: str) -> list[Row]:
    """Return a small table's rows; none if the analysis does not have the table."""
    if name not in analysis.manifest["tables"]:
        return []
    return _in_utc(analysis.rows(name))


def _top_rows(table: DataFrame, largest: list[str], *then: str | Column) -> list[Row]:
    """Return the first `_MAX_ROWS` rows, descending by `largest`, then ordered by `then`."""
    return _collect(table.orderBy(*[F.desc(name) for name in largest], *then).limit(_MAX_ROWS))


def _collect(table: DataFrame) -> list[Row]:
    # Through Arrow, whose times are in UTC; `collect` returns them in this machine's zone.
    return _in_utc(table.toArrow().to_pylist())


def _in_utc(rows: list[Row]) -> list[Row]:
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


def _by_design(hosts: DataFrame) -> DataFrame:
    sums = (
        "requests",
        "completed",
        "expired",
        "purges",
        "purged_entries",
        "tries",
        "callbacks",
        "callback_errors",
        "task_seconds",
    )
    peaks = ("peak_pending", "peak_queued")
    return (
        hosts
        .groupBy("design")
        .agg(
            *[F.sum(name).alias(name) for name in sums],
            *[F.max(name).alias(name) for name in peaks],
        )
        .orderBy(F.desc("design"))
    )


def _given(parameters: Row) -> Row:
    return {name: value for name, value in parameters.items() if value not in ({}, None)}


def _settings(manifest: Row) -> Row:
    trace = manifest["trace"]
    settings: Row = {"source": trace["source"], "format": trace["format"]}
    settings |= _given(trace["parameters"])
    for replay in manifest["replays"]:
        known = {name: value for name, value in replay.items() if name not in ("design", "label")}
        if replay["design"] == "legacy":
            # The 0.8 design has no wheel and no shards.
            known = {"purge_interval": replay["purge_interval"]}
        settings[f"replay, {replay['label']}"] = ", ".join(
            f"{name} {value}" for name, value in known.items()
        )
    settings["timeouts tried, ms"] = ", ".join(map(str, manifest["timeouts_ms"]))
    return settings
