"""Names and ids of own tables stay as they are, or their rows are rejected."""

from __future__ import annotations

from pyspark.sql import SparkSession

from purgatory_spark import TableMapping, map_tables, outcomes_of
from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._outcomes.batch import batch_outcomes

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
