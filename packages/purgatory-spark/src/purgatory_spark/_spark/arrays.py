"""The types of NumPy arrays, and columns of Arrow's as single arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Ints = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
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
