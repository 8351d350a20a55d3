"""The types of NumPy arrays, and columns of Arrow's as single arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Ints = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Sizes = np.ndarray[Any, np.dtype[np.int32]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


def one_chunk(column: pa.ChunkedArray | pa.Array) -> Any:
    """Return a column as one array, copied only if it has several chunks."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def text_of_strings(strings: pa.StringArray) -> tuple[Bytes, Sizes]:
    """Return the bytes of all strings, and where each begins; the last one is their end."""
    _, offsets, data = strings.buffers()
    if not len(strings):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    begin = strings.offset
    starts = np.frombuffer(offsets, dtype=np.int32)[begin : begin + len(strings) + 1]
    first, last = int(starts[0]), int(starts[-1])
    if first == last:
        return np.zeros(0, dtype=np.uint8), starts - starts[0]
    return np.frombuffer(data, dtype=np.uint8)[first:last], starts - starts[0]
