"""Outcomes of a user's own table, in one pass, are those of its requests and events as rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark import Trace
from purgatory_spark._outcomes.batch import satisfactions
from purgatory_spark._outcomes.mapped_outcomes import ShardTask
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._outcomes.shards import Sharding
from purgatory_spark._rows.host_sizes import BATCH
from purgatory_spark._rows.mapped_columns import map_request_columns
from purgatory_spark._rows.mapped_rows import BatchMapper
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.request_numbers import NUMBERED_BY, numbered_ids
from purgatory_spark._traces.trace_reader import ImportSettings

ROWS = 500
#: Times that fall on the same millisecond, ids that are used again, and values that are refused.
VALUES: dict[str, list[Any]] = {
    "host": ["a", "b", "c", "", None],
    "id": [*[f"i{number}" for number in range(30)], " i1", " i2"],
    "kind": ["put", "get", "", None],
    "at": [*range(300), -(2**62)],
    "took": [None, 5.0, -1.0, 0.0, *map(float, range(0, 60, 7))],
    "limit": ["20", "5", "30", "-1", "x"],
    "keys": [["x"], ["x", "y"], ["y", "x"], ["z", "z"], ["x", "y", "z"], [], None],
    "what": ["count", "sum", "max"],
    "need": [1.0, 2.0, 0.0, -0.0, 0.5, float("nan")],
    "acks": ["all", "any", "1", "2"],
    "status": ["200", "504"],
}
EVENT_VALUES: dict[str, list[Any]] = {
    "pod": ["a", "b", "c", None],
    "key": ["x", "y", "z", "i1", "i2", "i3"],
    "t": list(range(400)),
    "amount": [1.0, 2.0, -1.0],
}
OWN = {"arrived_at": "at", "service_ms": "took", "host": "host"}
CONDITION = {"aggregate": "what", "threshold": "need"}
EVENT_COLUMNS = {"host": "pod", "key": "key", "occurred_at": "t", "amount": "amount"}
CASES: dict[str, dict[str, Any]] = {
    "ids": OWN | CONDITION | {"request_id": "id", "request_type": "kind", "timeout_ms": "limit"},
    "no ids": OWN | CONDITION | {"request_type": "kind", "timeout_ms": "limit"},
    "status": {"arrived_at": "at", "service_ms": "took", "request_id": "id", "status": "status"}
    | {"unanswered": ("504",), "time_zone": "Europe/Berlin"},
    "keys": OWN | CONDITION | {"request_id": "id", "watch_keys": "keys", "quantifier": "acks"},
    "keys without ids": OWN | {"request_type": "kind", "watch_keys": "keys", "timeout_ms": "limit"},
    "keys of columns": OWN | {"request_id": "id", "watch_keys": ("kind", "id"), "timeout_ms": 20},
    "events": {"arrived_at": "at", "host": "host", "watch_keys": "keys", "event_columns": {}}
    | CONDITION,
    "events of ids": {"arrived_at": "at", "host": "host", "request_id": "id", "event_columns": {}},
}


def table(spark: SparkSession, values: dict[str, list[Any]]) -> DataFrame:
    drawn = random.Random(7)
    return spark.createDataFrame(
        pa.table({name: [drawn.choice(each) for _ in range(ROWS)] for name, each in values.items()})
    )


def sorted_rows(rows: DataFrame) -> list[str]:
    return sorted(map(str, rows.collect()))


@pytest.fixture(scope="module")
def few_partitions(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_outcomes_are_those_of_the_rows(
    few_partitions: SparkSession, tmp_path: Path, case: str
) -> None:
    spark, fields = few_partitions, CASES[case]
    stored_fields = fields
    if "event_columns" in fields:
        events = table(spark, EVENT_VALUES)
        fields = fields | {"events": events, "event_columns": EVENT_COLUMNS}
        stored_fields = fields | {"events": stored(events, tmp_path / "events")}
    calls = table(spark, VALUES)
    trace = Trace.from_table(calls, **fields, time_unit="ms")
    found = sorted_rows(trace.outcomes())
    assert len(found) > ROWS / 20
    assert found == sorted_rows(outcomes_of(satisfactions(trace.requests, trace.events)))
    # The workers read the files by themselves.
    calls = stored(calls, tmp_path / "calls")
    of_files = Trace.from_table(calls, **stored_fields, time_unit="ms").outcomes()
    assert not of_files.inputFiles()
    assert found == sorted_rows(of_files)


def stored(rows: DataFrame, folder: Path) -> DataFrame:
    """Write rows to two files of several row groups, and return a DataFrame of the files."""
    folder.mkdir()
    table = rows.toArrow()
    for number, part in enumerate((table.slice(0, 60), table.slice(60))):
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=100)
    return rows.sparkSession.read.parquet(str(folder))


@pytest.mark.slow
def test_outcomes_of_a_file_are_those_of_its_rows(
    few_partitions: SparkSession, tmp_path: Path
) -> None:
    # The zone's clock goes from 03:00 back to 02:00, and one row is malformed.
    drawn = random.Random(7)
    rows = [
        f"2026-10-25 0{hour}:{minute:02}:00,i{drawn.randrange(300)},{drawn.randrange(3_000)}"
        for hour in (1, 2, 2, 3)
        for minute in range(60)
    ]
    file = tmp_path / "calls.csv"
    file.write_text("\n".join(["at,id,took", *rows[:100], "a,b", *rows[100:]]))
    columns = {"arrived_at": "at", "request_id": "id", "service_ms": "took"}
    for mapped in (columns, {name: column for name, column in columns.items() if column != "id"}):
        settings = ImportSettings(columns=mapped, time_zone="Europe/Berlin", timeout_ms=1_500)
        trace = Trace.read(few_partitions, file, settings)
        found = sorted_rows(trace.outcomes())
        assert len(found) >= 235
        assert found == sorted_rows(outcomes_of(satisfactions(trace.requests, trace.events)))
        assert trace.rejects().where("reason = 'malformed row'").count() == 1
        trace.unpersist()


@pytest.mark.slow
def test_prompts_keep_the_type_that_the_import_gives_them(
    few_partitions: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [1, 2]}')
    trace = Trace.read(few_partitions, file)
    (row,) = trace.outcomes().collect()
    assert row["request_type"] == "prompt (derived service time)"
    trace.unpersist()


@pytest.mark.slow
def test_large_hosts_of_an_own_table(few_partitions: SparkSession) -> None:
    calls = few_partitions.range(3_000).selectExpr("id", "id AS at", "id % 7 AS took")
    fields = {"arrived_at": "at", "service_ms": "took", "timeout_ms": 5, "time_unit": "ms"}
    small = BATCH.worker // 2**20 + 1
    for ids in ({}, {"request_id": "id"}):
        cut, whole = (
            Trace.from_table(calls, **fields, **ids, **limit)  # type: ignore[arg-type]
            for limit in ({"max_worker_mb": small}, {})
        )
        assert sorted_rows(cut.outcomes()) == sorted_rows(whole.outcomes())
        assert set(cut._memory.parts) == {"host-0"}


def test_requests_with_an_id_meet_in_one_shard() -> None:
    columns = {"arrived_at": "at", "service_ms": "took", "request_id": "id"}
    mapping = TableMapping(columns, time_unit="ms", timeout_ms=10)
    # The last two come while the first ones reserve their ids, and then after that.
    rows = pa.table({"at": [*range(300), 5, 11], "took": [3] * 302, "id": [*range(300), 0, 0]})
    mapper = BatchMapper(mapping.input_columns, mapping, map_request_columns)
    batches = rows.to_batches(max_chunksize=50)
    mapped = mapper(batches[0])
    names = ["request_id", "arrived_at", "ended_at"]
    schema = pa.schema([mapped.fields.schema.field(name) for name in names])
    task = ShardTask(schema, mapped.constants, has_events=False, is_divisible=True)
    packed = pa.Table.from_batches(task.pack(batches, mapper, Sharding(16)))
    shards = packed.column("shard").to_pylist()
    assert len(set(shards)) == 16
    ended = [
        task.satisfy(packed.filter(pa.array([each == shard for each in shards])))
        for shard in set(shards)
    ]
    columns_found = pa.concat_tables(ended).select(["request_id", "satisfied_us"])
    found = sorted(columns_found.to_pylist(), key=str)
    expected = [{"request_id": str(at), "satisfied_us": (at + 3) * 1000} for at in range(300)]
    expected.append({"request_id": "0", "satisfied_us": 14_000})
    assert found == sorted(expected, key=str)


def test_numbers_do_not_depend_on_the_order_of_rows() -> None:
    # In order; each is greater than the one before in another column.
    first: dict[str, Any] = dict.fromkeys(NUMBERED_BY) | {
        "arrived_at": 1,
        "timeout_ms": 5,
        "watch_keys": ["a"],
        "aggregate": "count",
        "threshold": 1.0,
        "quantifier": "all",
    }
    changes = [("quantifier", "any"), ("threshold", 2.0), ("aggregate", "max")]
    changes += [("request_type", ""), ("watch_keys", ["a", "a"]), ("timeout_ms", 6)]
    changes += [("ended_at", 2), ("arrived_at", 2)]
    rows = [first, *[first | {name: value} for name, value in changes]]
    assert {name for name, _ in changes} == set(NUMBERED_BY)
    types = {"ended_at": pa.int64(), "request_type": pa.string()}
    of_hosts = [row | {"host": host} for row in rows for host in "ab"]
    expected = [f"{number:012}" for number in range(1, len(rows) + 1)]
    for seed in range(5):
        random.Random(seed).shuffle(of_hosts)
        given = pa.table(
            {
                name: pa.array([row[name] for row in of_hosts], types.get(name))
                for name in ("host", *NUMBERED_BY)
            }
        )
        ids = numbered_ids(given).to_pylist()
        for host in "ab":
            numbered = sorted(
                (number, rows.index({name: row[name] for name in NUMBERED_BY}))
                for number, row in zip(ids, of_hosts, strict=True)
                if row["host"] == host
            )
            assert numbered == list(zip(expected, range(len(rows)), strict=True))
