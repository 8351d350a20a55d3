"""Tables as NumPy columns."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from request_purgatory.pipeline.outcomes.condition import Bools, Ints


def column(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """A column without nulls, not copied where Arrow's layout is NumPy's and it is in one piece.

    Not to be written to.
    """
    chunks = table.column(name)
    array = chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def find(ordered: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """Where each of `wanted` is in `ordered`, and whether it is there at all."""
    at = np.searchsorted(ordered, wanted)
    if not len(ordered):
        return at, np.zeros(len(wanted), dtype=bool)
    inside = np.minimum(at, len(ordered) - 1)
    return inside, ordered[inside] == wanted


class Columns:
    """A table without nulls as arrays of the same length.

    A subclass is a dataclass with a field for each of its columns.
    """

    SCHEMA: ClassVar[pa.Schema]

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """From a table of the schema; not to be written to."""
        return cls(*[column(table, name) for name in cls.SCHEMA.names])

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """The rows of all parts, in their order."""
        if not parts:
            return cls.of(cls.SCHEMA.empty_table())
        return cls(
            *[np.concatenate([getattr(part, name) for part in parts]) for name in cls.SCHEMA.names]
        )

    def __len__(self) -> int:
        return len(getattr(self, self.SCHEMA.names[0]))

    def table(self) -> pa.Table:
        """A table of the schema."""
        return pa.table([getattr(self, name) for name in self.SCHEMA.names], schema=self.SCHEMA)

    def where(self, chosen: Bools | Ints) -> Self:
        """Copies of some of the rows, by a mask or by their positions."""
        return type(self)(*[getattr(self, name)[chosen] for name in self.SCHEMA.names])
