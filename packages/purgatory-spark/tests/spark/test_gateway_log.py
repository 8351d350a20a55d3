"""The log of a gateway with failures gets no confident wrong answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from purgatory_spark import Trace
from purgatory_spark._analysis.analysis import analyze
from purgatory_spark._analysis.findings import Findings, find
from purgatory_spark._analysis.small_tables import SmallTables
from purgatory_spark._local.quick_trace import QuickTrace
from purgatory_spark._output_folder import new_folder
from purgatory_spark._traces.trace_folder import import_trace
from purgatory_spark._traces.trace_reader import ImportSettings
from tests.spark.gateway_log import POD, TIMED_OUT, TIMEOUT_MS, gateway_log

MAPPING = {"arrived_at": "at", "service_ms": "took", "host": "pod"}
STATUS: Mapping[str, Any] = {"status": "status", "unanswered": ("504",)}


def findings_of(spark: SparkSession, folder: Path, **settings: Any) -> Findings:
    """Analyze the log on Spark, and compare what a timeout does with the answer without Spark."""
    pq.write_table(gateway_log(), folder / "log.parquet")
    imports = ImportSettings(columns=MAPPING, time_unit="ms", timeout_ms=TIMEOUT_MS, **settings)
    trace = import_trace(spark, folder / "log.parquet", new_folder(folder / "trace"), imports)
    tables = SmallTables(analyze(spark, trace, [], new_folder(folder / "analysis")))
    findings = find(tables)
    for source, given in ((folder / "log.parquet", imports), (trace.path, ImportSettings())):
        answer = QuickTrace(str(source), given).answer()
        assert answer is not None
        assert answer.recommendation == findings.timeout
        whole = ("timeout_ms", "requests", "expired", "peak_pending")
        assert [[row[name] for name in whole] for row in answer.what_if] == [
            [row[name] for name in whole] for row in tables.what_if
        ]
        means = [row["mean_waited_ms"] for row in answer.what_if]
        assert means == pytest.approx([row["mean_waited_ms"] for row in tables.what_if])
    return findings


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, STATUS], ids=["unnamed", "named"])
def test_timeouts_of_a_gateway_are_no_answers(
    spark: SparkSession, tmp_path: Path, settings: dict[str, Any]
) -> None:
    found = findings_of(spark, tmp_path, **settings)
    said = " ".join(found.sentences)
    assert "40,000 requests that" not in said
    assert "39,725 requests that" in said
    assert found.timeout.timeout_ms is not None
    assert found.timeout.timeout_ms < TIMEOUT_MS
    assert f"{TIMED_OUT} requests (0.69 %)" in said
    assert "0.69 % (95 % interval: 0.61 % to 0.77 %)" in said
    assert "What a timeout above 2 s would answer is unknown" in said
    took = "expired" if settings else "took 2 s"
    assert f"Host {POD} has 13 % of the requests, and 82 % of those that {took}." in said
    assert ("--status" in said) == (not settings)


@pytest.mark.slow
def test_trace_of_a_table_knows_a_status(spark: SparkSession) -> None:
    table = spark.createDataFrame(gateway_log())
    trace = Trace.from_table(
        table, **MAPPING, time_unit="ms", timeout_ms=TIMEOUT_MS, status="status", unanswered=[504]
    )  # fmt: skip
    found = trace.what_if([250, 500, 1000, 2000, 5000])
    assert found.timeouts_in_use == [TIMEOUT_MS]
    assert "275 requests (0.69 %) were given up" in " ".join(found.recommendation.details)
    assert "of the 39,725 requests" in found.recommendation.reason
