"""Read Parquet files by Arrow, in the columns and types of a schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.files import require_columns

#: Rows are decoded in batches of this many, so that memory does not depend on a file's row groups.
BATCH_ROWS = 131_072


def parquet_batches(
    source: Any,
    name: str,
    schema: pa.Schema,
    dictionaries: Collection[str],
    row_groups: Callable[[pq.FileMetaData], list[int]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the columns of `schema`; timestamps become microseconds.

    `source`: a path or an open file, which errors call `name`. `dictionaries`: columns of text that
    stay dictionaries. `row_groups`: checks the file and chooses row groups; None takes all.
    """
    try:
        with pq.ParquetFile(
            source, read_dictionary=list(dictionaries), coerce_int96_timestamp_unit="us"
        ) as file:
            require_columns(name, file.schema_arrow.names, schema.names)
            groups = None if row_groups is None else row_groups(file.metadata)
            batches = file.iter_batches(
                BATCH_ROWS, row_groups=groups, columns=schema.names, use_threads=groups is None
            )
            for batch in batches if groups is None or groups else ():
                yield pa.RecordBatch.from_arrays(
                    [_converted(batch.column(column.name), column.type) for column in schema],
                    names=schema.names,
                )
    except TraceFormatError:
        raise
    except KeyError:
        # Arrow does not open a file without one of the dictionaries.
        require_columns(name, pq.read_schema(source).names, schema.names)
        raise
    except (OSError, ValueError) as error:
        raise TraceFormatError(f"{name}: can't be read as Parquet ({error})") from error


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type) and pa.types.is_string(kind):
        return column
    if pa.types.is_timestamp(column.type) and pa.types.is_integer(kind):
        column = column.cast(pa.timestamp("us", tz=column.type.tz))
    return column.cast(kind)
