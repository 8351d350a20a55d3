"""Read Parquet tables in Spark's Python workers, by Arrow, without the JVM.

A value takes some 0.1 us on its way from the JVM to Python. Work that is done in Python on whole
columns saves that if the workers read the files by themselves. The driver divides the files into
splits, of which each task gets some.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.files import PARQUET_SUFFIX
from purgatory_spark._spark.parquet_batches import parquet_batches
from purgatory_spark._spark.spark_tables import spark_schema

#: Each split costs the reading of its file's footer.
_LEAST_TASK_BYTES = 4 * 2**20
_MOST_TASK_BYTES = 64 * 2**20
#: The number of tasks for each core, so that the last ones to end leave no core idle for long.
_TASKS_PER_CORE = 3


@dataclass(frozen=True)
class Split:
    """A part of a Parquet file: the row groups whose middle is from byte `begin` to before `end`.

    `folder`, a path or URI, says in which file system the file is.
    """

    table: str
    folder: str
    file: str
    begin: int
    end: int


@dataclass(frozen=True)
class TableFiles:
    """A table's folder, a path or URI, and the sizes of its files in bytes, by path."""

    folder: str
    sizes: Mapping[str, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.sizes.values())


def list_files(folder: str, schema: T.StructType) -> TableFiles | None:
    """List a table's files, if the workers can read them.

    Returns the files. None if Arrow does not know the URI's scheme, or if Spark did not write the
    first file with columns of these types: then Spark's reader has to convert the types, or to
    raise its error.
    """
    try:
        system, path = _file_system(folder)
        found = system.get_file_info(fs.FileSelector(path))
        files = sorted(
            (file.path, file.size)
            for file in found
            if file.is_file
            and file.base_name.endswith(PARQUET_SUFFIX)
            and not file.base_name.startswith((".", "_"))
        )
        if not files:
            return None
        with system.open_input_file(files[0][0]) as first:
            written = spark_schema(pq.read_metadata(first))
    except (OSError, ValueError):
        return None
    given = {field.name: field.dataType.simpleString() for field in written or ()}
    if any(given.get(field.name) != field.dataType.simpleString() for field in schema):
        return None
    return TableFiles(folder, dict(files))


def plan_tasks(tables: Mapping[str, TableFiles], cores: int) -> list[list[Split]]:
    """Divide the files of several tables among tasks of about as many bytes.

    >>> requests = TableFiles("/t/requests", {"/t/requests/1": 9_000_000})
    >>> events = TableFiles("/t/events", {"/t/events/1": 3_000_000, "/t/events/2": 2_000_000})
    >>> for task in plan_tasks({"requests": requests, "events": events}, cores=1):
    ...     print([(split.file, split.begin, split.end) for split in task])
    [('/t/requests/1', 0, 4666667)]
    [('/t/requests/1', 4666667, 9000000)]
    [('/t/events/1', 0, 3000000), ('/t/events/2', 0, 2000000)]
    """
    total = sum(files.total_bytes for files in tables.values())
    most = max(_LEAST_TASK_BYTES, min(_MOST_TASK_BYTES, -(-total // (_TASKS_PER_CORE * cores))))
    splits = [
        Split(table, files.folder, file, begin, min(begin + most, size))
        for table, files in tables.items()
        for file, size in files.sizes.items()
        for begin in range(0, size, most)
    ]
    # The largest split goes first, and each one to the task that has least.
    tasks: list[list[Split]] = [[] for _ in range(max(1, -(-total // most)))]
    loads = [(0, number) for number in range(len(tasks))]
    for split in sorted(splits, key=lambda split: split.begin - split.end):
        load, number = heapq.heappop(loads)
        tasks[number].append(split)
        heapq.heappush(loads, (load + split.end - split.begin, number))
    return [sorted(task, key=lambda split: split.table) for task in tasks]


def map_tasks(
    spark: SparkSession,
    tasks: list[list[Split]],
    function: Callable[[list[Split]], Iterator[pa.RecordBatch]],
    schema: T.StructType,
) -> DataFrame:
    """Return what a function yields of the splits of each task, in Python workers."""

    def map_numbers(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            yield from function(tasks[number])

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(map_numbers, schema)


def read_split(
    split: Split, schema: pa.Schema, dictionaries: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split in the columns of `schema`; timestamps become microseconds."""
    try:
        system, _ = _file_system(split.folder)
        source = system.open_input_file(split.file)
    except (OSError, ValueError) as error:
        raise TraceFormatError(f"{split.file}: can't be read as Parquet ({error})") from error
    with source:
        yield from parquet_batches(
            source, split.file, schema, dictionaries, lambda metadata: _row_groups(metadata, split)
        )


def _row_groups(metadata: pq.FileMetaData, split: Split) -> list[int]:
    numbers = []
    for number in range(metadata.num_row_groups):
        columns = [
            metadata.row_group(number).column(column) for column in range(metadata.num_columns)
        ]
        begin = columns[0].dictionary_page_offset or columns[0].data_page_offset
        middle = begin + sum(column.total_compressed_size for column in columns) // 2
        if split.begin <= middle < split.end:
            numbers.append(number)
    return numbers


def _file_system(folder: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it."""
    if "://" not in folder:
        return fs.LocalFileSystem(), folder
    system, path = fs.FileSystem.from_uri(folder)
    return system, path
