"""What an import of own tables writes, in blobs, is what Spark's windows over rows give."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.columns import map_tables
from purgatory_spark._notebook.table_fields import table_mapping
from purgatory_spark._rows.accepted_tables import AcceptedTables
from purgatory_spark._rows.chains import flag_repeated, mark_chains
from purgatory_spark._rows.checks import accepted_rows, rejected_rows
from purgatory_spark._rows.mapped_columns import IS_REPEATED_HOUR
from purgatory_spark._rows.mapped_rows import (
    MappedTables,
    event_columns,
    event_rows,
    request_columns,
    request_input,
    request_rows,
)
from purgatory_spark._rows.request_numbers import NUMBERED_BY
from purgatory_spark._rows.schema import with_passed
from purgatory_spark._rows.stored_sizes import StoredSizes
from purgatory_spark._spark.file_columns import with_row_text
from purgatory_spark._spark.parquet_splits import list_files
from purgatory_spark._spark.scanned_files import scanned_files
from purgatory_spark._traces.trace_folder import import_trace, write_trace
from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
from tests.spark.test_mapped_outcomes import (
    CASES,
    EVENT_COLUMNS,
    EVENT_VALUES,
    VALUES,
    few_partitions,
    stored,
    table,
)
from tests.spark.trace_folders import Row, rows_of

__all__ = ["few_partitions"]

#: The cases whose tables are read from Parquet files, too, by the workers themselves.
STORED = ("ids", "no ids", "events")


def tables_of_rows(tables: MappedTables) -> dict[str, DataFrame]:
    """Return requests, events and rejects by windows over all rows, each with its text."""
    mapping = tables.mapping
    flagged = with_row_text(request_rows(tables.requests, mapping))
    if "request_id" in mapping.columns:
        deadline_us = F.try_add("arrived_us", F.col("timeout_ms").cast("bigint") * 1000)
        flagged = flag_repeated(mark_chains(flagged, F.col("arrived_us"), deadline_us))
        accepted = accepted_rows(flagged)
        earlier = Window.partitionBy("host", "request_id").orderBy("arrived_us")
        accepted = accepted.withColumn("is_first", F.row_number().over(earlier) == 1)
    else:
        names = [
            {"arrived_at": "arrived_us", "ended_at": "ended_us"}.get(n, n) for n in NUMBERED_BY
        ]
        accepted = accepted_rows(flagged)
        in_order = Window.partitionBy("host").orderBy(
            *[name for name in names if name in accepted.columns]
        )
        number = F.row_number().over(in_order).cast("string")
        accepted = accepted.withColumns(
            {"request_id": F.lpad(number, 12, "0"), "is_first": F.lit(True)}
        )
    if not mapping.key_columns:
        is_plain = F.col("is_first") & ~F.startswith("request_id", F.lit(" "))
        reused = F.concat(F.lit(" "), "arrived_us", F.lit(" "), "request_id")
        key = F.when(is_plain | F.lit(tables.events is not None), F.col("request_id"))
        accepted = accepted.withColumn("watch_keys", F.array(F.coalesce(key, reused)))
    rejects = rejected_rows(flagged)
    if tables.events is None:
        events = accepted.where("ended_us IS NOT NULL").select(
            "host",
            F.explode(F.array_distinct("watch_keys")).alias("key"),
            F.col("ended_us").alias("occurred_us"),
            F.lit(1.0).alias("amount"),
        )
    else:
        flagged_events = with_row_text(event_rows(tables.events, mapping))
        events = accepted_rows(flagged_events)
        rejects = rejects.unionByName(rejected_rows(flagged_events))
    return {
        "requests": with_passed(accepted).select(request_columns()),
        "events": events.select(event_columns()),
        "rejects": rejects,
    }


def assert_written(tables: MappedTables, folder: Path, manifest: dict[str, Any]) -> Counter[str]:
    """Compare what was written with the same by rows; return the number of rows."""
    spark, numbers = tables.requests.sparkSession, Counter[str]()
    found: dict[str, list[Row]] = {}
    for name, expected in tables_of_rows(tables).items():
        written = spark.read.parquet(str(folder / name))
        assert written.dtypes == expected.dtypes
        assert list_files(str(folder / name), expected.schema), "as Spark writes them"
        found[name] = rows_of(written)
        assert found[name] == rows_of(expected), name
        numbers[name] = len(found[name])
    rejected = Counter(row["reason"] for row in found["rejects"])
    assert manifest["rejected"] == dict(sorted(rejected.items()))
    rows = manifest["rows"]
    assert rows["rejected"] == rejected.total()
    assert (rows["requests out"], rows["events out"]) == (numbers["requests"], numbers["events"])
    assert rows["rows in"] == tables.requests.count()
    sizes = StoredSizes.of(folder)
    assert sizes is not None
    assert (sizes.requests, sizes.events) == (numbers["requests"], numbers["events"])
    assert sizes.keys == sum(len(row["watch_keys"]) for row in found["requests"])
    timeouts = [row["timeout_ms"] for row in found["requests"]]
    assert sizes.timeouts_ms == (min(timeouts), max(timeouts))
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "of_files"),
    [
        (case, of_files)
        for of_files in (False, True)
        for case in CASES
        if not of_files or case in STORED
    ],
)
def test_written_tables_are_those_of_the_rows(
    few_partitions: SparkSession, tmp_path: Path, case: str, of_files: bool
) -> None:
    spark, fields, events = few_partitions, CASES[case], None
    calls = table(spark, VALUES)
    if "event_columns" in fields:
        events = table(spark, EVENT_VALUES)
        fields = fields | {"event_columns": EVENT_COLUMNS}
    if of_files:
        calls = stored(calls, tmp_path / "calls")
        events = events and stored(events, tmp_path / "given")
    mapping = table_mapping(fields | {"time_unit": "ms"})  # type: ignore[arg-type]
    with map_tables(calls, mapping, events=events, cache=True) as trace:
        written = write_trace(trace, tmp_path, name="x", source="x", parameters={})
        assert trace.mapped is not None
        given = request_input(trace.mapped.requests, mapping)
        assert (scanned_files(given.rows, given.given) is not None) == of_files
        numbers = assert_written(trace.mapped, tmp_path, dict(written.manifest))
    assert min(numbers.values()) > 20
    is_repeated = "repeated request" in written.manifest["rejected"]
    assert is_repeated == ("request_id" in mapping.columns)


@pytest.mark.slow
@pytest.mark.parametrize("ids", [True, False])
def test_written_files_are_those_of_their_rows(
    few_partitions: SparkSession, tmp_path: Path, ids: bool
) -> None:
    # The zone's clock goes from 03:00 back to 02:00. One column is not mapped.
    drawn = random.Random(7)
    rows = [
        f"2026-10-25 0{hour}:{minute:02}:00,i{drawn.randrange(90)},{drawn.randrange(3_000)},x"
        for hour in (1, 2, 2, 3)
        for minute in range(60)
    ]
    source = tmp_path / "calls.csv"
    broken = ["a,b", "2026-10-25 01:00:00,i1,9", "soon,i2,1,x", "2026-10-25 01:00:00,i3,-1,x"]
    source.write_text("\n".join(["at,id,took,other", *rows[:99], *broken, *rows[99:]]))
    columns = {"arrived_at": "at", "service_ms": "took"} | ({"request_id": "id"} if ids else {})
    settings = ImportSettings(columns=columns, time_zone="Europe/Berlin", timeout_ms=99_000)
    (tmp_path / "trace").mkdir()
    written = import_trace(few_partitions, source, tmp_path / "trace", settings)
    with read_trace(few_partitions, source, settings) as trace:
        assert trace.mapped is not None
        assert_written(trace.mapped, tmp_path / "trace", dict(written.manifest))
        flagged = request_rows(trace.mapped.requests, trace.mapped.mapping)
        assert trace.tables.counts.collect()[0] == {
            name: written.manifest["rows"][name]
            for name in (*trace.tables.counts.names, "rejected")
        }
    repeated = flagged.where(IS_REPEATED_HOUR).count()
    assert written.manifest["rows"]["rows of a repeated hour"] == repeated
    assert {"malformed row", "unparsable at", "end before start"} <= set(
        written.manifest["rejected"]
    )


@pytest.mark.slow
def test_table_that_changes_while_it_is_read_is_an_error(
    few_partitions: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "calls.csv"
    file.write_text("at,took\n1,5\n2,-1\n")
    settings = ImportSettings(columns={"arrived_at": "at", "service_ms": "took"}, time_unit="ms")
    with read_trace(few_partitions, file, settings) as trace:
        assert isinstance(trace.tables, AcceptedTables)
        shorter = replace(settings, where="took >= 0")
        with read_trace(few_partitions, file, shorter) as other:
            assert other.mapped is not None
            # What is read the second time.
            trace.tables.tables = other.mapped
            with pytest.raises(TraceFormatError, match="had 1 rows that can't be used, and then 0"):
                write_trace(trace, tmp_path, name="x", source="calls.csv", parameters={})
