"""The report: one HTML file that needs nothing else, made from analyses."""

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

from request_purgatory.pipeline.analysis import charts
from request_purgatory.pipeline.analysis.analysis import BINS_PER_DECADE, QUANTILES, Analysis
from request_purgatory.pipeline.analysis.units import bytes_text, ms_text, share_text
from request_purgatory.published_benchmark.report_section import figure

Row = dict[str, Any]

#: As many rows as a table of hosts or types shows; the Parquet tables have all.
_MOST_ROWS = 40

_QUANTILE_NAMES = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9"}


def write_report(
    spark: SparkSession,
    analyses: list[Analysis],
    target: Path,
    title: str = "Request purgatory report",
    benchmarks: Sequence[Row] = (),
) -> Path:
    """Write the report of analyses and of benchmarks' sections (`bench.benchmark_section`) into the file `target`; returns it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        number=lambda value: f"{value:,}",
        ms=ms_text,
        share=share_text,
        bytes=bytes_text,
        figure=lambda value: figure(value),
    )
    page = environment.get_template("report.html").render(
        title=title,
        traces=[_trace(spark, analysis) for analysis in analyses],
        benchmarks=benchmarks,
        version=version("request-purgatory"),
        spark_version=pyspark.__version__,
        python_version=platform.python_version(),
    )
    target.write_text(page, encoding="utf-8")
    return target


def _rows(table: DataFrame) -> list[Row]:
    # By Arrow, whose times are in UTC; `collect` gives them in this machine's zone.
    return _shown(table.toArrow().to_pylist())


def _shown(rows: list[Row]) -> list[Row]:
    return [{name: _utc(value) for name, value in row.items()} for row in rows]


def _utc(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value


def _trace(spark: SparkSession, analysis: Analysis) -> Row:
    """Everything the page says of one trace.

    What is collected here is small whatever the trace's size: bins, timeouts, the
    first hosts and types."""
    manifest = analysis.manifest
    trace = manifest["trace"]

    def rows(name: str) -> list[Row]:
        return _shown(analysis.rows(name)) if name in manifest["tables"] else []

    def in_order(name: str, by: str) -> list[Row]:
        return sorted(rows(name), key=lambda row: row[by])

    overall = analysis.rows("summary", dimension="all")[0]
    summary = analysis.table(spark, "summary")
    numbers: dict[str, int] = dict(summary.groupBy("dimension").count().collect())
    types = _most(
        summary.where("dimension = 'request_type'"), ["expired_share", "requests"], "value"
    )
    hosts = _most(summary.where("dimension = 'host'"), ["requests"], "value")
    timeline = in_order("timeline", "from_at")
    what_if = in_order("what_if", "timeout_ms")
    marks = rows("marks")
    designs: list[Row] = []
    replayed_hosts: list[Row] = []
    if "hosts" in manifest["tables"]:
        hosts_table = analysis.table(spark, "hosts")
        designs = _rows(_by_design(hosts_table))
        replayed_hosts = _most(hosts_table, ["requests"], "host", F.desc("design"))
    in_use = sorted(set(manifest["timeout_ms"]))
    quantiles = {
        _QUANTILE_NAMES[name]: overall[name] for name in QUANTILES if name in _QUANTILE_NAMES
    }
    wheel = next(
        (settings for settings in manifest["replays"] if settings["design"] == "wheel"), None
    )
    return {
        "name": trace["name"],
        "format": trace["format"],
        "notes": trace["notes"],
        "parameters": ", ".join(
            f"{name}={value}"
            for name, value in trace["parameters"].items()
            if value not in ({}, None)
        ),
        "timeout": " to ".join(ms_text(timeout) for timeout in in_use),
        "timeouts_in_use": in_use,
        "all": overall,
        "agreement": rows("agreement"),
        "marks": marks,
        "lateness": [row for row in rows("lateness") if row["expired"]],
        "designs": designs,
        "replayed_hosts": replayed_hosts,
        "hosts": hosts,
        "hosts_number": numbers["host"],
        "types": types,
        "types_number": numbers["request_type"],
        "what_if": what_if,
        "bin_ms": manifest["bin_ms"],
        "bytes_per_operation": manifest["bytes_per_operation"],
        "keys_per_request": manifest["keys_per_request"],
        "wheel_size": wheel["wheel_size"] if wheel else "",
        "rows": trace["rows"],
        "rejected": trace["rejected"],
        "settings": _settings(manifest),
        # Markup: the pictures are ours, and everything in them that came from the trace is escaped
        # by matplotlib.
        "charts": {
            "pending": Markup(charts.pending_over_time(timeline, marks)),
            "expired": Markup(charts.expired_over_time(timeline, marks)),
            "waits": Markup(
                charts.waiting_times(in_order("waits", "bin"), BINS_PER_DECADE, quantiles)
            ),
            "what_if": Markup(charts.what_if_curve(what_if, in_use)),
            "types": Markup(charts.expired_by_type(types))
            if len(types) > 1 and overall["expired"]
            else "",
        },
    }


def _most(table: DataFrame, by: list[str], *then: str | Column) -> list[Row]:
    return _rows(table.orderBy(*[F.desc(name) for name in by], *then).limit(_MOST_ROWS))


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
    )
    return (
        hosts.groupBy("design")
        .agg(
            *[F.sum(name).alias(name) for name in (*sums, "task_seconds")],
            F.max("peak_pending").alias("peak_pending"),
            F.max("peak_queued").alias("peak_queued"),
        )
        .orderBy(F.desc("design"))
    )


def _settings(manifest: Row) -> Row:
    settings: Row = {"source": manifest["trace"]["source"], "format": manifest["trace"]["format"]}
    settings |= {
        name: value
        for name, value in manifest["trace"]["parameters"].items()
        if value not in ({}, None)
    }
    for replay in manifest["replays"]:
        known = {name: value for name, value in replay.items() if name not in ("design", "label")}
        if replay["design"] == "legacy":
            known = {"purge_interval": replay["purge_interval"]}
        settings[f"replay, {replay['label']}"] = ", ".join(
            f"{name} {value}" for name, value in known.items()
        )
    settings["timeouts tried, ms"] = ", ".join(map(str, manifest["timeouts_ms"]))
    return settings
