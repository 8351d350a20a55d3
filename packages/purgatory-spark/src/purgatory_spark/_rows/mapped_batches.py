"""Apply functions of Python workers to the mapped columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._rows.mapped_rows import MapperInput
from purgatory_spark._spark.parquet_splits import (
    Split,
    TableFiles,
    map_tasks,
    plan_tasks,
    read_split,
)
from purgatory_spark._spark.session import parallelism


def map_batches(
    table: MapperInput,
    files: TableFiles | None,
    rows: DataFrame,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: T.StructType,
) -> DataFrame:
    """Return what a function makes of batches, which begin with the columns of the mapper.

    Workers read the files of Parquet by themselves, and such rows have these columns alone. `files`
    are those that `scanned_files` finds, and `rows` are the table's, where it finds none.
    """
    spark, mapping = table.rows.sparkSession, table.mapper.mapping
    if files is None:
        return rows.mapInArrow(function, schema)
    columns = _in_zone(table.given, spark.conf.get("spark.sql.session.timeZone"))
    few_valued = {name for name in mapping.few_valued_columns if name in columns.names}
    few_valued = {name for name in few_valued if pa.types.is_string(columns.field(name).type)}

    def read_and_map(task: list[Split]) -> Iterator[pa.RecordBatch]:
        return function(batch for split in task for batch in read_split(split, columns, few_valued))

    tasks = plan_tasks({"rows": files}, parallelism(spark))
    return map_tasks(spark, tasks, read_and_map, schema)


def _in_zone(columns: pa.Schema, zone: str | None) -> pa.Schema:
    """Return columns with the zone in which Spark gives times to Python."""
    times = {
        field.name: field.with_type(pa.timestamp("us", zone))
        for field in columns
        if pa.types.is_timestamp(field.type) and field.type.tz
    }
    return pa.schema([times.get(field.name, field) for field in columns])
