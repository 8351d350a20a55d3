"""Inference traces: service times derived from tokens."""

from __future__ import annotations

import bz2
import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.importers.azure_llm import import_azure_llm
from request_purgatory.pipeline.importers.imported import TraceFormatError
from tests.pipeline.trace_folders import imported, rejects, rows_of, write_lines

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
BEGUN = datetime(2023, 11, 16, 18, 17, 3, tzinfo=UTC)
US = timedelta(microseconds=1)


def test_request_is_complete_when_its_tokens_are_made(spark: SparkSession, tmp_path: Path) -> None:
    """A host a file, whatever its packing; ids in order of time; the seventh digit of the fraction is cut off."""
    folder = tmp_path / "inference"
    write_lines(folder / "conv.csv", [HEADER, "2023-11-16 18:17:04.0000009,0,0"])
    text = f"{HEADER}\r\n2023-11-16 18:17:03.9799609,1000,10\r\n2023-11-16 18:17:03.5,3,2\r\n"
    (folder / "code one.csv.gz").write_bytes(gzip.compress(text.encode()))
    # The same columns in another order, after a byte order mark, quoted.
    turned = '\ufeff"GeneratedTokens","TIMESTAMP","ContextTokens"\n"1","2023-11-16T19:17:03+01:00","8"\n'
    (folder / "chat.csv.bz2").write_bytes(bz2.compress(turned.encode()))
    trace = imported(spark, folder, tmp_path / "trace", ms_per_context_token=0.5, ms_per_generated_token=2.0, timeout_ms=600)
    assert trace.manifest["format"] == "azure-llm"
    assert trace.manifest["rows"] == {"rows in": 4, "rejected": 0, "requests out": 4, "events out": 4}
    assert trace.manifest["notes"] == [
        "Service times are DERIVED, not recorded: 0.5 ms per context token + 2 ms per generated token."
    ]
    found = rows_of(trace.requests(spark))
    assert [(row["host"], row["request_id"], row["arrived_at"] - BEGUN) for row in found] == [
        ("chat", "chat-000000001", 0 * US),
        ("code one", "code one-000000001", 500_000 * US),
        ("code one", "code one-000000002", 979_960 * US),
        ("conv", "conv-000000001", 1_000_000 * US),
    ]
    assert all(row["watch_keys"] == [row["request_id"]] and row["timeout_ms"] == 600 for row in found)
    assert {row["request_type"] for row in found} == {"inference (derived service time)"}
    assert [(row["key"], row["occurred_at"] - BEGUN, row["amount"]) for row in rows_of(trace.events(spark))] == [
        ("chat-000000001", 6000 * US, 1.0),
        ("code one-000000001", 505_500 * US, 2.0),
        ("code one-000000002", 1_499_960 * US, 10.0),
        ("conv-000000001", 1_000_000 * US, 0.0),
    ]


BAD = {
    "malformed row": ["2023-11-16 18:17:03,1", "2023-11-16 18:17:03,1,2,3", "junk"],
    "null TIMESTAMP": [",1,2"],
    "null ContextTokens": ["2023-11-16 18:17:03,,2"],
    "null GeneratedTokens": ["2023-11-16 18:17:03,1,"],
    "unparsable TIMESTAMP": ["yesterday,1,2", "18:17:03,1,2", "2023,1,2", "1700158623,1,2", "2023-13-01 00:00:00,1,2"],
    "TIMESTAMP not of the years 1900 to 2199": ["0001-01-01,1,2", "9999-12-31 23:59:59,1,2"],
    "unparsable ContextTokens": ["2023-11-16 18:17:03,many,2", "2023-11-16 18:17:03,1.5,2", f"2023-11-16 18:17:03,{'9' * 30},2"],
    "unparsable GeneratedTokens": ["2023-11-16 18:17:03,1,NaN"],
    "negative ContextTokens": ["2023-11-16 18:17:03,-1,2"],
    "negative GeneratedTokens": ["2023-11-16 18:17:03,1,-2"],
    "too many tokens": ["2023-11-16 18:17:03,9223372036854775807,2", "2023-11-16 18:17:03,1,999999999999"],
}


def test_every_bad_row_is_counted_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    """With the file, and the row as it was."""
    bad = [row for rows in BAD.values() for row in rows]
    source = write_lines(tmp_path / "spoilt.csv", [HEADER, *bad, "2023-11-16 18:17:03,1,2"])
    trace = imported(spark, source, tmp_path / "trace")
    assert trace.manifest["rejected"] == {reason: len(rows) for reason, rows in sorted(BAD.items())}
    assert trace.manifest["rows"] == {"rows in": len(bad) + 1, "rejected": len(bad), "requests out": 1, "events out": 1}
    for reason, file, row in rejects(spark, trace):
        assert file == "spoilt.csv"
        assert (row if reason == "malformed row" else ",".join(json.loads(row).get(n, "") for n in HEADER.split(","))) in BAD[
            reason
        ]


def test_two_files_of_one_host_do_not_share_ids(spark: SparkSession, tmp_path: Path) -> None:
    """As when a file lies beside its packed copy."""
    write_lines(tmp_path / "in" / "code.csv", [HEADER, "2023-11-16 18:17:03,1,2"])
    packed = gzip.compress(f"{HEADER}\n2023-11-16 18:17:04,1,2\n".encode())
    (tmp_path / "in" / "code.csv.gz").write_bytes(packed)
    trace = imported(spark, tmp_path / "in", tmp_path / "trace")
    assert [(row["host"], row["request_id"]) for row in rows_of(trace.requests(spark))] == [
        ("code", "code-000000001"),
        ("code", "code-000000002"),
    ]


def test_missing_column_is_named_with_the_file(spark: SparkSession, tmp_path: Path) -> None:
    """And what the file has."""
    file = write_lines(tmp_path / "code.csv", ["TIMESTAMP,ContextTokens"])
    with pytest.raises(TraceFormatError) as told:
        import_azure_llm(spark, [file])
    assert str(told.value) == f"{file}: no column GeneratedTokens; it has TIMESTAMP, ContextTokens"
