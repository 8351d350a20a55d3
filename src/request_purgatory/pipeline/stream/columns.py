"""Tables as NumPy columns."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from request_purgatory.pipeline.condition import Bools, Ints


class Columns:
    """A table without nulls as arrays of the same length: a subclass is a dataclass with a field for each of its columns."""

    SCHEMA: ClassVar[pa.Schema]

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """From a table of the schema."""
        return cls(*[np.asarray(table.column(name).to_numpy()) for name in cls.SCHEMA.names])

    def table(self) -> pa.Table:
        """A table of the schema."""
        return pa.table([getattr(self, name) for name in self.SCHEMA.names], schema=self.SCHEMA)

    def where(self, chosen: Bools | Ints) -> Self:
        """Copies of some of the rows, by a mask or by their positions."""
        return type(self)(*[getattr(self, name)[chosen] for name in self.SCHEMA.names])

    def plus(self, others: Self) -> Self:
        """These rows and others."""
        return type(self)(*[np.concatenate([getattr(self, name), getattr(others, name)]) for name in self.SCHEMA.names])
