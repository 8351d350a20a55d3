"""Tests of OpenTelemetry's spans: OTLP as the collector's file exporter writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._traces.trace_reader import ImportSettings, check_source
from tests.spark.trace_folders import NOON_US, Row, imported_rows, write_lines


def span(span_id: str, parent: str, start_us: int, end_us: int, **others: Any) -> Row:
    """Return a span whose times are microseconds after noon, as text of nanoseconds."""
    return {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": span_id,
        "parentSpanId": parent,
        "name": f"GET /{span_id}",
        "kind": 2,
        "startTimeUnixNano": str((NOON_US + start_us) * 1000),
        "endTimeUnixNano": str((NOON_US + end_us) * 1000 + 999),
        "attributes": [{"key": "http.method", "value": {"stringValue": "GET"}}],
        "status": {},
        **others,
    }


def resource(service: str | None, *scopes: list[Row]) -> Row:
    """Return the spans of a service, by scope."""
    attributes = [{"key": "host.name", "value": {"stringValue": "vm1"}}]
    if service is not None:
        attributes.append({"key": "service.name", "value": {"stringValue": service}})
    return {
        "resource": {"attributes": attributes},
        "scopeSpans": [{"scope": {"name": "lib"}, "spans": spans} for spans in scopes],
    }


def batch(*resources: Row) -> str:
    """Return a line of the export."""
    return json.dumps({"resourceSpans": list(resources)})


def test_export_is_imported_as_spans(spark: SparkSession, tmp_path: Path) -> None:
    root = span("r", "", 0, 9000)
    del root["parentSpanId"]
    lines = [
        batch(
            resource("cart", [span("c1", "r", 1000, 2000)], [span("c2", "r", 1000, 8000)]),
            resource("front", [root]),
        ),
        "",
        batch(resource("ads", [span("g", "c1", 1200, 1100), span("c1", "r", 1, 2)])),
        batch(resource(None, [span("x", "r", 1, 2)]), resource("empty"), resource("none", [])),
        '{"resourceMetrics":[]}',
        '{"resourceSpans":[{"cut',
    ]
    source = write_lines(tmp_path / "traces.json", lines)
    found = imported_rows(spark, source, quantifier="1", timeout_ms=5)
    assert found.format == "otlp"
    assert [
        (row["host"], row["request_id"], row["request_type"], row["watch_keys"], row["timeout_ms"])
        for row in found.requests
    ] == [("front", "r", "GET /r", ["c1", "c2"], 5)]
    assert {(row["host"], row["key"]) for row in found.events} == {("front", "c1"), ("front", "c2")}
    assert found.rejected == {
        "end before start": 1,
        "malformed row": 1,
        "null service.name": 1,
        "repeated spanId": 1,
    }
    assert found.rows_read == {"spans": 7, "spans kept": 3}
    for reason, file, row in found.rejects:
        assert file == "traces.json"
        assert (row == lines[-1]) == (reason == "malformed row")


def status(number: int, code: int = 0) -> Row:
    """Return the status of a span, as its code and as an attribute."""
    attribute = {"key": "http.response.status_code", "value": {"intValue": str(number)}}
    return {"attributes": [attribute], "status": {"code": code} if code else {}}


@pytest.mark.parametrize(
    ("settings", "timeouts", "keys"),
    [
        # One child too many is given up with the first one, after 6 ms.
        (
            {"status": "status.code", "unanswered": ("2",)},
            {"lost": 6, "part": 6, "kept": 5},
            {"c1", "d2", "k"},
        ),
        # Any operation suffices: one that another span of the same has answered is not given up.
        (
            {
                "status": "http.response.status_code",
                "unanswered": ("499", "504"),
                "keys": "operations",
                "quantifier": "any",
            },
            {"lost": 8, "part": 5, "kept": 5},
            {"api/GET /c", "api/GET /k"},
        ),
    ],
    ids=["status.code", "attribute"],
)
def test_children_that_were_given_up_have_no_end(
    spark: SparkSession, tmp_path: Path, settings: Row, timeouts: dict[str, int], keys: set[str]
) -> None:
    given_up, by_client, answered = status(504, 2), status(499, 2), status(200)
    spans = [
        *[span(name, "", 0, 9_000) for name in timeouts],
        span("l1", "lost", 100, 6_500, **given_up),
        span("l2", "lost", 100, 8_999, **by_client),
        span("c1", "part", 100, 1_000, **answered, name="GET /c"),
        span("c2", "part", 100, 6_000, **given_up, name="GET /c"),
        span("d2", "part", 100, 7_000, **(answered | {"status": {"code": 1}}), name="GET /c"),
        span("k", "kept", 100, 1_000, **answered),
    ]
    source = write_lines(tmp_path / "traces.json", [batch(resource("api", spans))])
    found = imported_rows(spark, source, timeout_ms=5, **settings)
    assert {row["request_id"]: row["timeout_ms"] for row in found.requests} == timeouts
    assert {row["key"] for row in found.events} == keys
    assert found.rejects == []
    assert any("given up" in note for note in found.notes)


def test_other_formats_than_json_are_refused(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "spans.csv", ["resourceSpans"])
    with pytest.raises(TraceFormatError, match="the format otlp is JSON, not csv"):
        check_source(source, ImportSettings(format="otlp"))
