"""Arrow tables as NumPy columns."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from purgatory_spark._spark.arrays import Bools, Ints, one_chunk


def numpy_column(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """Return a column without nulls as an array, copied only if need be, not to be written to."""
    return np.asarray(one_chunk(table.column(name)).to_numpy(zero_copy_only=False))


def find_sorted(ordered: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """Return a position in `ordered`, 0 if that is empty, and whether the wanted value is there."""
    at = np.searchsorted(ordered, wanted)
    if not len(ordered):
        return at, np.zeros(len(wanted), dtype=bool)
    inside = np.minimum(at, len(ordered) - 1)
    return inside, ordered[inside] == wanted


class ColumnTable:
    """A table without nulls, held as arrays of equal length.

    A subclass is a dataclass with one field for each column of its `SCHEMA`, in the same order.
    """

    SCHEMA: ClassVar[pa.Schema]

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """Return a view of an Arrow table of the schema; its arrays must not be written to."""
        return cls(*[numpy_column(table, name) for name in cls.SCHEMA.names])

    @classmethod
    def concat(cls, parts: list[Self]) -> Self:
        if not parts:
            return cls.from_table(cls.SCHEMA.empty_table())
        return cls(
            *[np.concatenate([getattr(part, name) for part in parts]) for name in cls.SCHEMA.names]
        )

    def __len__(self) -> int:
        return len(getattr(self, self.SCHEMA.names[0]))

    def to_table(self) -> pa.Table:
        return pa.table([getattr(self, name) for name in self.SCHEMA.names], schema=self.SCHEMA)

    def take(self, rows: Bools | Ints) -> Self:
        return type(self)(*[getattr(self, name)[rows] for name in self.SCHEMA.names])
