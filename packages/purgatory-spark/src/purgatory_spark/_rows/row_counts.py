"""How many rows an import has read, and rejected for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

#: The columns of counts. Of a name and a reason, there may be several, to be added up.
COUNTS = pa.schema({"name": pa.string(), "reason": pa.string(), "rows": pa.int64()})
#: The name of what is rejected; only this has reasons.
REJECTED = "rejected"


@dataclass(frozen=True)
class RowCounts:
    """Counts of rows, which a Spark job computes.

    Attributes:
        names: What was read: a table, or some rows of it.
        counts: How many rows each of them has, and how many were rejected, in the columns `name`,
            `reason` and `rows`, to be added up.
    """

    names: tuple[str, ...]
    counts: DataFrame

    @classmethod
    def of(cls, tables: Mapping[str, DataFrame], rejects: DataFrame) -> RowCounts:
        """Return the counts of the rows of tables, by name, and of rows of `schema.REJECTS`."""
        none = F.lit(None).cast("string")
        rows = [table.select(F.lit(name), none, F.lit(1)) for name, table in tables.items()]
        rows.append(rejects.select(F.lit(REJECTED), "reason", F.lit(1)))
        return cls(tuple(tables), reduce(DataFrame.union, rows).toDF(*COUNTS.names))

    def collect(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the rows by name, and the rejected ones by reason."""
        # There are few names and reasons.
        found = self.counts.groupBy("name", "reason").agg(F.sum("rows").alias("rows")).collect()
        return added_up((*self.names, REJECTED), found)


def added_up(names: Iterable[str], counts: Iterable[Row]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the rows by name, and the rejected ones by reason, of rows of `COUNTS`."""
    rows, rejected = dict.fromkeys(names, 0), Counter[str]()
    for row in counts:
        rows[row["name"]] += row["rows"]
        if row["name"] == REJECTED:
            rejected[row["reason"]] += row["rows"]
    return rows, dict(sorted(rejected.items()))
