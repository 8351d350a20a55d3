"""Names and ids of own tables stay as they are, or their rows are rejected."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from purgatory_spark import ImportSettings, TableMapping, map_tables, outcomes_of, read_trace
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._outcomes.batch import batch_outcomes
from tests.spark.trace_folders import imported_rows

MAPPING = TableMapping(
    {"host": "pod", "request_id": "id", "request_type": "path", "arrived_at": "at"}
    | {"watch_keys": "keys"},
    {"host": "pod", "key": "key", "occurred_at": "at"},
    time_unit="ms",
    timeout_ms=100,
)
TEXTS = ["a", " a", "a ", "\ta", "a\u00a0"]


def reasons(trace: ImportedTrace) -> list[str]:
    return sorted(row["reason"] for row in trace.rejects.collect())


def test_names_and_ids_keep_their_blanks(spark: SparkSession) -> None:
    requests = spark.createDataFrame(
        [(text, text, text, 1000 + at, [text, "k"]) for at, text in enumerate(TEXTS)],
        "pod string, id string, path string, at bigint, keys array<string>",
    )
    events = spark.createDataFrame(
        [(text, text, 1050) for text in TEXTS], "pod string, key string, at bigint"
    )
    trace = map_tables(requests, MAPPING, events=events)
    found = {
        (row["host"], row["request_id"], row["request_type"], *row["watch_keys"])
        for row in trace.requests.collect()
    }
    assert found == {(text, text, text, text, "k") for text in TEXTS}
    assert {(row["host"], row["key"]) for row in trace.events.collect()} == {
        (text, text) for text in TEXTS
    }
    assert reasons(trace) == []


def test_empty_names_and_ids_are_rejected(spark: SparkSession) -> None:
    rows = [("a", "i", "", ["k"]), ("", "i", "", ["k"]), ("a", " ", "", ["k"])]
    rows += [("a", "j", "", ["k", ""]), ("a", "l", "", [" "])]
    requests = spark.createDataFrame(rows, "pod string, id string, path string, keys array<string>")
    events = spark.createDataFrame([("a", ""), ("a", "k")], "pod string, key string")
    tables = [table.selectExpr("*", "1000 AS at") for table in (requests, events)]
    trace = map_tables(tables[0], MAPPING, events=tables[1])
    assert [row["request_type"] for row in trace.requests.collect()] == [""]
    expected = ["empty id", "empty key", "empty pod", "empty watch key", "empty watch key"]
    assert reasons(trace) == expected
    several = TableMapping(
        {"arrived_at": "at", "ended_at": "at", "watch_keys": ("pod", "path")}, time_unit="ms"
    )
    keys = [row["watch_keys"] for row in map_tables(tables[0], several).requests.collect()]
    assert sorted(keys) == [["a"]] * 4


def test_words_and_numbers_may_have_blanks_around(spark: SparkSession) -> None:
    requests = spark.createDataFrame(
        [(" 1000 ", " 20 ", " 250", " 1.5 ", " sum "), (" 1000 ", " ", "250 ", "1", "count")],
        "at string, took string, limit string, least string, of string",
    )
    columns = {"arrived_at": "at", "service_ms": "took", "timeout_ms": "limit"}
    mapping = TableMapping(columns | {"threshold": "least", "aggregate": "of"}, time_unit="ms")
    trace = map_tables(requests, mapping)
    assert [row["threshold"] for row in trace.requests.collect()] == [1.0]
    assert reasons(trace) == ["unknown aggregate"]


def test_reused_ids_that_begin_with_a_blank_have_keys_of_their_own(spark: SparkSession) -> None:
    # The second `r` is answered late. Its key must not be that of the third request.
    rows = [("r", 1_000, 1_010), ("r", 2_000, 2_500), (" 2000000 r", 2_450, None)]
    requests = spark.createDataFrame(rows, "id string, at bigint, end bigint")
    columns = {"request_id": "id", "arrived_at": "at", "ended_at": "end"}
    trace = map_tables(requests, TableMapping(columns, time_unit="ms", timeout_ms=100))
    outcomes = outcomes_of(batch_outcomes(trace.requests, trace.events)).collect()
    assert sorted((row["request_id"], row["outcome"]) for row in outcomes) == [
        (" 2000000 r", "expired"),
        ("r", "completed"),
        ("r", "expired"),
    ]


NOT_TEXT = b"x\xff", b"x\xfe"
REASON = "is not UTF-8, or has the character U+FFFD that stands for such bytes"


def test_bytes_of_a_csv_file_that_are_no_text_make_no_equal_ids(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [b"id,at,keys,note", *[b"%s,1000,k,1" % text for text in NOT_TEXT]]
    rows += [b"a,1000,%s,2" % NOT_TEXT[0], b"b,1000,k,%s" % NOT_TEXT[0]]
    source = tmp_path / "calls.csv"
    source.write_bytes(b"\n".join(rows))
    columns = {"request_id": "id", "arrived_at": "at", "ended_at": "at", "watch_keys": "keys"}
    found = imported_rows(spark, source, columns=columns, time_unit="ms")
    assert [row["request_id"] for row in found.requests] == ["b"]
    assert found.rejected == {f"id {REASON}": 2, f"keys {REASON}": 1}


def test_times_of_another_zone_are_names_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    at = pa.array([1_700_000_000_000_000, 1_700_000_000_500_000], pa.timestamp("us", "Asia/Tokyo"))
    source = tmp_path / "calls.parquet"
    pq.write_table(pa.table({"at": at}), source)
    columns = {"request_id": "at", "arrived_at": "at", "ended_at": "at"}
    found = imported_rows(spark, source, columns=columns)
    ids = ["2023-11-14 22:13:20", "2023-11-14 22:13:20.5"]
    assert [row["request_id"] for row in found.requests] == ids


def test_bytes_of_an_own_table_that_are_no_text_are_rejected(spark: SparkSession) -> None:
    requests = spark.createDataFrame(
        [(b"a", b"a"), *[(text, b"k") for text in NOT_TEXT], (b"b", NOT_TEXT[0])],
        "id binary, key binary",
    ).selectExpr(
        "CAST(id AS STRING) AS id",
        "'p' AS pod",
        "ARRAY(CAST(key AS STRING)) AS keys",
        "'/' AS path",
        "1000 AS at",
    )
    events = requests.selectExpr("pod", "keys[0] AS key", "at")
    trace = map_tables(requests, MAPPING, events=events)
    assert [row["request_id"] for row in trace.requests.collect()] == ["a"]
    assert reasons(trace) == sorted([f"id {REASON}"] * 2 + [f"keys {REASON}", f"key {REASON}"])


def test_bytes_of_spans_that_are_no_text_make_no_equal_ids(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = b"TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano"
    rows = [b"t,%s,root,web,get,1,2" % text for text in NOT_TEXT]
    source = tmp_path / "spans.csv"
    source.write_bytes(b"\n".join([names, *rows, b"t,s,root,web,get,1,2"]))
    found = imported_rows(spark, source)
    assert found.rejected == {f"SpanID {REASON}": 2}


NESTED = "struct<start: bigint, http.status: struct<took: double>>"


@pytest.mark.parametrize(
    "form",
    [
        "table",
        pytest.param("parquet", marks=pytest.mark.slow),
        pytest.param("json", marks=pytest.mark.slow),
    ],
)
def test_columns_may_be_fields_of_structs_and_keys_of_maps(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    calls = spark.createDataFrame(
        [("a", (1000, (20.0,)), {"k8s.pod": "p"}, "x"), ("b", (2000, (None,)), {}, "y")],
        f"id string, span {NESTED.replace('http.status', '`http.status`')}, "
        "resource map<string, string>, `id.x` string",
    )
    columns = {"request_id": "id", "host": "resource.k8s.pod", "request_type": "id.x"}
    columns |= {"arrived_at": "span.start", "service_ms": "span.http.status.took"}
    if form == "table":
        trace = map_tables(calls, TableMapping(columns, time_unit="ms"))
    else:
        calls.coalesce(1).write.format(form).save(str(tmp_path / "calls"))
        if form == "json":
            columns |= {"host": "span.start"}
        settings = ImportSettings(columns=columns, time_unit="ms")
        trace = read_trace(spark, f"{form}:{tmp_path / 'calls'}", settings)
    rows = sorted(trace.requests.collect(), key=lambda row: str(row["request_id"]))
    assert (rows[0]["request_id"], rows[0]["request_type"]) == ("a", "x")
    assert trace.events.count() == 1
    if form != "json":
        assert [row["host"] for row in rows] == ["p"]
        ((reason, raw),) = [(row["reason"], row["row"]) for row in trace.rejects.collect()]
        assert reason == "null resource.k8s.pod"
        assert set(json.loads(raw)) == {"id", "span", "resource", "id.x"}
    with pytest.raises(TraceFormatError, match=r"missing columns: span\.stop"):
        map_tables(calls, TableMapping(columns | {"arrived_at": "span.stop"}))
