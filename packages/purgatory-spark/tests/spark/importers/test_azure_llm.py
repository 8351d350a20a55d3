"""Tests of Azure LLM inference traces, whose service times are derived from token counts."""

from __future__ import annotations

import bz2
import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.azure_llm import import_azure_llm
from purgatory_spark._importers.table_source import TableSource
from tests.spark.trace_folders import (
    ImportedRows,
    assert_written_as_read,
    imported_rows,
    write_lines,
)

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
START = datetime(2023, 11, 16, 18, 17, 3, tzinfo=UTC)
US = timedelta(microseconds=1)


@pytest.fixture(scope="module")
def inference(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ImportedRows:
    """Import files of all compressions; two of them are of one host."""
    folder = tmp_path_factory.mktemp("inference")
    write_lines(folder / "conv.csv", [HEADER, "2023-11-16 18:17:04.0000009,0,0"])
    write_lines(folder / "code one.csv", [HEADER, "2023-11-16 18:17:05,1,2"])
    text = f"{HEADER}\r\n2023-11-16 18:17:03.9799609,1000,10\r\n2023-11-16 18:17:03.5,3,2\r\n"
    (folder / "code one.csv.gz").write_bytes(gzip.compress(text.encode()))
    # With a byte order mark, quotes, and the columns in another order.
    reordered = (
        '\ufeff"GeneratedTokens","TIMESTAMP","ContextTokens"\n"1","2023-11-16T19:17:03+01:00","8"\n'
    )
    (folder / "chat.csv.bz2").write_bytes(bz2.compress(reordered.encode()))
    return imported_rows(
        spark, folder, ms_per_context_token=0.5, ms_per_generated_token=2.0, timeout_ms=600
    )


@pytest.mark.slow
def test_request_completes_when_its_tokens_are_generated(inference: ImportedRows) -> None:
    assert inference.format == "azure-llm"
    assert (inference.rows_read, inference.rejects) == ({"rows": 5}, [])
    assert inference.notes == [
        "Service times are DERIVED, not recorded: 0.5 ms per context token + "
        "2 ms per generated token."
    ]
    assert [row["arrived_at"] - START for row in inference.requests] == [
        0 * US,
        500_000 * US,
        979_960 * US,
        2_000_000 * US,
        1_000_000 * US,
    ]
    for row in inference.requests:
        assert (row["watch_keys"], row["timeout_ms"]) == ([row["request_id"]], 600)
        assert (row["aggregate"], row["threshold"], row["quantifier"]) == ("count", 1.0, "any")
        assert row["request_type"] == "inference (derived service time)"
    assert [
        (row["key"], row["occurred_at"] - START, row["amount"]) for row in inference.events
    ] == [
        ("chat-000000001", 6000 * US, 1.0),
        ("code one-000000001", 505_500 * US, 2.0),
        ("code one-000000002", 1_499_960 * US, 10.0),
        ("code one-000000003", 2_004_500 * US, 2.0),
        ("conv-000000001", 1_000_000 * US, 0.0),
    ]
    assert [(row["host"], row["key"]) for row in inference.events] == [
        (row["host"], row["request_id"]) for row in inference.requests
    ]


@pytest.mark.slow
def test_each_file_is_a_host_with_ids_in_order_of_time(inference: ImportedRows) -> None:
    assert [(row["host"], row["request_id"]) for row in inference.requests] == [
        ("chat", "chat-000000001"),
        ("code one", "code one-000000001"),
        ("code one", "code one-000000002"),
        ("code one", "code one-000000003"),
        ("conv", "conv-000000001"),
    ]


BAD = {
    "malformed row": ["2023-11-16 18:17:03,1", "2023-11-16 18:17:03,1,2,3", "junk"],
    "null TIMESTAMP": [",1,2"],
    "null ContextTokens": ["2023-11-16 18:17:03,,2"],
    "null GeneratedTokens": ["2023-11-16 18:17:03,1,", "2023-11-16 18:17:03,x,"],
    "unparsable TIMESTAMP": [
        "yesterday,1,2",
        "18:17:03,1,2",
        "2023,1,2",
        "1700158623,1,2",
        "2023-13-01 00:00:00,1,2",
    ],
    "TIMESTAMP not of the years 1900 to 2199": ["0001-01-01,1,2", "9999-12-31 23:59:59,1,2"],
    "unparsable ContextTokens": [
        "2023-11-16 18:17:03,many,2",
        "2023-11-16 18:17:03,1.5,2",
        f"2023-11-16 18:17:03,{'9' * 30},2",
    ],
    "unparsable GeneratedTokens": ["2023-11-16 18:17:03,1,NaN"],
    "negative ContextTokens": ["2023-11-16 18:17:03,-1,2"],
    "negative GeneratedTokens": ["2023-11-16 18:17:03,1,-2"],
    "too many tokens": [
        "2023-11-16 18:17:03,9223372036854775807,2",
        "2023-11-16 18:17:03,1,999999999999",
    ],
}


@pytest.mark.slow
def test_bad_rows_are_rejected_with_file_and_content(spark: SparkSession, tmp_path: Path) -> None:
    bad = [row for rows in BAD.values() for row in rows]
    source = write_lines(tmp_path / "mixed.csv", [HEADER, *bad, "2023-11-16 18:17:03,1,2"])
    found = imported_rows(spark, source)
    assert found.rejected == {reason: len(rows) for reason, rows in BAD.items()}
    assert found.rows_read == {"rows": len(bad) + 1}
    assert [row["arrived_at"] - START for row in found.requests] == [0 * US]
    assert len(found.events) == 1
    for reason, file, row in found.rejects:
        assert file == "mixed.csv"
        assert (
            row
            if reason == "malformed row"
            else ",".join(json.loads(row).get(n, "") for n in HEADER.split(","))
        ) in BAD[reason]
    assert_written_as_read(spark, source, tmp_path / "trace", found)


def test_missing_column_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "code.csv", ["TIMESTAMP,ContextTokens"])
    with pytest.raises(TraceFormatError) as error:
        import_azure_llm(spark, TableSource.parse(file))
    assert str(error.value) == (
        f"{file}: missing columns: GeneratedTokens; the file has TIMESTAMP, ContextTokens"
    )
