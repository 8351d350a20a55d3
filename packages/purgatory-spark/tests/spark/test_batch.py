"""Tests of batch outcomes on Spark, from DataFrames and from the files of a trace."""

from __future__ import annotations

import doctest
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import SchemaError
from purgatory_spark._outcomes.batch import (
    batch_outcomes,
    satisfactions,
    sharding_of,
    trace_outcomes,
    trace_satisfactions,
)
from purgatory_spark._outcomes.results import REJECT_FIELDS, RESULTS, outcomes_of
from purgatory_spark._outcomes.satisfied import LEAST_SHARDS
from purgatory_spark._rows.schema import EVENTS, OUTCOMES, REQUESTS
from purgatory_spark._spark import parquet_splits
from purgatory_spark._spark.parquet_splits import (
    Split,
    TableFiles,
    list_files,
    plan_tasks,
    read_split,
)
from purgatory_spark._traces.workload import Workload
from purgatory_spark._traces.workload_blocks import workload_trace
from tests.spark.naive_trace import TraceEvent, TraceRequest, outcome
from tests.spark.trace_strategies import EVENTS as EVENT_STRATEGY
from tests.spark.trace_strategies import events_table, requests, requests_table
from tests.support.profiles import examples

ZONES = ("UTC", "America/New_York", "Asia/Kathmandu")
WORKLOAD = Workload(requests=3_000, hosts=3, shared_keys=2)


@contextmanager
def session_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    """Set the session's time zone for the block."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, zone)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def write(folder: Path, *tables: DataFrame) -> Path:
    """Write requests and events as the files of a trace."""
    for name, table in zip(("requests", "events"), tables, strict=True):
        table.write.mode("overwrite").parquet(f"file://{folder / name}")
    return folder


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of a small workload."""
    return write(tmp_path_factory.mktemp("trace [1] {é}"), *workload_trace(spark, WORKLOAD))


def micros(table: DataFrame) -> list[tuple[object, ...]]:
    """Return all rows in order, with timestamps in microseconds since the epoch."""
    columns = [
        F.unix_micros(field.name).alias(field.name)
        if field.dataType.simpleString() == "timestamp"
        else F.col(field.name)
        for field in table.schema
    ]
    return sorted((tuple(row) for row in table.select(*columns).collect()), key=repr)


@examples(3, times=10, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(st.tuples(requests(), st.lists(EVENT_STRATEGY, max_size=30)), min_size=2, max_size=5),
    st.sampled_from(ZONES),
)
def test_both_ways_agree_with_the_naive_model(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    trace: list[tuple[list[TraceRequest], list[TraceEvent]]],
    zone: str,
) -> None:
    hosts = [f"host-{number}" for number in range(len(trace))]
    made = (
        [requests_table(rows, host) for host, (rows, _) in zip(hosts, trace, strict=True)],
        [events_table(rows, host) for host, (_, rows) in zip(hosts, trace, strict=True)],
    )
    # PySpark 4.3 drops the rows after an empty chunk.
    tables = [
        spark.createDataFrame(pa.concat_tables(found).combine_chunks(), schema)
        for found, schema in zip(made, (REQUESTS, EVENTS), strict=True)
    ]
    folder = write(tmp_path_factory.mktemp("trace"), *tables)
    with session_zone(spark, zone):
        found = micros(outcomes_of(batch_outcomes(*tables)))
        assert micros(outcomes_of(trace_outcomes(spark, folder))) == found
    expected = {
        (host, request.request_id): (*outcome(request, events), request.arrived_us)
        for host, (rows, events) in zip(hosts, trace, strict=True)
        for request in rows
    }
    assert {
        (host, request_id): (ended, ended_us, arrived_us)
        for host, request_id, _, arrived_us, ended_us, ended, _ in found
    } == expected
    assert all(row[6] == (row[4] - row[3]) / 1000 for row in found)  # type: ignore[operator]


def test_files_and_tables_have_the_same_outcomes(spark: SparkSession, files: Path) -> None:
    tables = [
        spark.read.parquet(f"file://{files}/{name}".replace("[", "\\[").replace("{", "\\{"))
        for name in ("requests", "events")
    ]
    found = trace_satisfactions(spark, files)
    satisfied_at = T.StructField("satisfied_at", T.TimestampType())
    schema = T.StructType([*OUTCOMES, satisfied_at, *REJECT_FIELDS])
    assert found.schema.simpleString() == schema.simpleString()
    rows = micros(found)
    assert len(rows) == WORKLOAD.requests
    assert trace_outcomes(spark, files).columns == RESULTS.names
    of_files = satisfactions(*tables)
    of_rows = satisfactions(tables[0].coalesce(1), tables[1])
    # Of plain tables, workers read the files, and Spark none.
    assert not of_files.inputFiles()
    assert {Path(file).parent.name for file in of_rows.inputFiles()} == {"requests"}
    assert rows == micros(of_files) == micros(of_rows)


def test_parts_of_a_host_have_the_same_outcomes(spark: SparkSession, tmp_path: Path) -> None:
    requests_frame, events_frame = workload_trace(spark, Workload(requests=2_000, shared_keys=0))
    name = F.lit("it's [one] \\host")
    folder = write(
        tmp_path, requests_frame.withColumn("host", name), events_frame.withColumn("host", name)
    )
    parts = {"it's [one] \\host": 3, "absent": 2}
    whole = micros(trace_outcomes(spark, folder))
    assert micros(trace_outcomes(spark, folder, parts=parts)) == whole
    assert len({row[1] for row in whole}) == 2_000


def test_trace_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    requests_frame, events_frame = workload_trace(spark, Workload(requests=50))
    empty = write(tmp_path / "empty", requests_frame.limit(0), events_frame.limit(0))
    assert trace_outcomes(spark, empty).count() == 0
    assert batch_outcomes(requests_frame.limit(0), events_frame).count() == 0
    no_events = write(tmp_path / "no events", requests_frame, events_frame.limit(0))
    (row,) = trace_outcomes(spark, no_events).groupBy("outcome").count().collect()
    assert tuple(row) == ("expired", 50)


def test_files_of_other_writers_are_read_by_spark(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(files, tmp_path / "other")
    table = pq.read_table(other / "events").replace_schema_metadata(None)
    shutil.rmtree(other / "events")
    (other / "events").mkdir()
    pq.write_table(table, other / "events" / "part.parquet")
    assert list_files(str(other / "events"), EVENTS) is None
    assert micros(trace_outcomes(spark, other)) == micros(trace_outcomes(spark, files))
    pq.write_table(table.drop(["amount"]), other / "events" / "part.parquet")
    with pytest.raises(SchemaError, match=r"events: amount \(double\) is missing"):
        trace_outcomes(spark, other)


def test_uris_and_unknown_schemes(files: Path) -> None:
    by_path = list_files(f"{files}/events", EVENTS)
    assert by_path is not None
    by_uri = list_files((files / "events").as_uri(), EVENTS)
    assert by_uri is not None
    assert by_uri.sizes == by_path.sizes
    assert list_files("unknown://host/events", EVENTS) is None
    assert list_files(f"{files}/absent", EVENTS) is None
    (file, size), *_ = by_uri.sizes.items()
    schema = pa.schema({"occurred_at": pa.int64(), "key": pa.string()})
    batches = list(read_split(Split("events", by_uri.folder, file, 0, size), schema, ["key"]))
    assert sum(batch.num_rows for batch in batches) == pq.read_metadata(file).num_rows


def test_damaged_file_is_named(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(files, tmp_path / "damaged")
    file = max((damaged / "requests").glob("*.parquet"))
    others = [other for other in (damaged / "requests").glob("*.parquet") if other != file]
    if not others:
        shutil.copy(file, file.with_name("a.parquet"))
    os.truncate(file, 100)
    with pytest.raises(PythonException, match=rf"{file.name}: can't be read as Parquet"):
        trace_outcomes(spark, damaged).count()


def test_every_row_group_is_in_one_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_splits, "_LEAST_TASK_BYTES", 1)
    table = pa.table({"number": pa.array(range(10_000), pa.int64())})
    sizes = {}
    for name, rows in (("a", 100), ("b", 3_000), ("c", 10_000)):
        pq.write_table(table, tmp_path / name, row_group_size=rows)
        sizes[str(tmp_path / name)] = (tmp_path / name).stat().st_size
    for cores in (1, 2, 7, 50):
        tasks = plan_tasks({"t": TableFiles(str(tmp_path), sizes)}, cores)
        assert len(tasks) <= 3 * cores
        numbers = [
            number
            for task in tasks
            for split in task
            for batch in read_split(split, table.schema, ())
            for number in batch.column("number").to_pylist()
        ]
        assert sorted(numbers) == sorted([*range(10_000)] * 3)


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(parquet_splits)
    assert result.attempted > 2
    assert result.failed == 0


def test_small_files_have_few_shards(spark: SparkSession) -> None:
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
    small, large = (TableFiles("/", {"a": size}) for size in (2**25, 2**30))
    assert sharding_of(spark, None, [small]).shards == max(33, partitions)
    assert sharding_of(spark, None, [small, small]).shards == max(65, partitions)
    # Of other rows nobody knows the number.
    assert sharding_of(spark, None, [small, None]).shards == LEAST_SHARDS
    assert sharding_of(spark, None, [large]).shards == LEAST_SHARDS
    # Tasks are those of the session, but for a small input whose hosts fit into one worker.
    assert sharding_of(spark, None, [small]).tasks is None
    assert sharding_of(spark, None, [small], are_few=True).tasks == 1
    assert sharding_of(spark, {"h": 2}, [small], are_few=True).tasks is None
