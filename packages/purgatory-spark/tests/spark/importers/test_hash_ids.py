"""Tests of LLM serving traces with the blocks of a prefix cache."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
from tests.spark.trace_folders import imported_rows, write_lines


def test_request_waits_for_the_blocks_of_its_prompt(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        json.dumps({"timestamp": at, "input_length": length, "output_length": 52, "hash_ids": ids})
        for at, length, ids in [
            (0, 1000, [46, 47]),
            (50, 1000, [46, 48]),
            (1000, 4000, [46, 47]),
            (2000, 9000, [46, 99]),
            (3000, None, [1]),
            (4000, -1, [1]),
            (5000, 1, None),
        ]
    ]
    source = write_lines(tmp_path / "conversation_trace.jsonl", lines)
    settings = {"timeout_ms": 800, "ms_per_context_token": 0.1}
    found = imported_rows(spark, source, **settings)
    assert found.format == "hash-ids"
    assert found.requests[0]["watch_keys"] == ["46", "47"]
    assert {(row["host"], row["aggregate"], row["quantifier"]) for row in found.requests} == {
        ("host-0", "max", "all")
    }
    assert found.rejected == {
        "end before start": 1,
        "null hash_ids": 1,
        "unparsable input_length x ms_per_context_token": 1,
    }
    assert any("DERIVED" in note and "0.1 ms" in note for note in found.notes)
    with read_trace(spark, source, ImportSettings(**settings)) as trace:  # type: ignore[arg-type]
        ended = outcomes_of(batch_outcomes(trace.requests, trace.events)).collect()
    assert sorted((row["request_id"][-1], row["outcome"], row["waited_ms"]) for row in ended) == [
        ("1", "completed", 100.0),
        ("2", "completed", 100.0),
        ("3", "completed", 0.0),
        ("4", "expired", 800.0),
    ]
