"""Results: the outcomes of requests, and in the same table the rows that have none.

Rows that break a rule of `checks`, and repeated requests, are rejects. They come out beside the
outcomes, as rows of another `kind`, so that one pass over the input gives both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.repeats import repeated_in_table
from purgatory_spark._rows.schema import IDENTITY, OUTCOMES
from purgatory_spark._spark.arrays import Bools, Ints, Words
from purgatory_spark._spark.schemas import text_schema

#: The value of `kind` in rows of outcomes, and in rejects.
OUTCOME_KIND = "outcomes"
REJECT_KIND = "rejects"

#: The columns of a reject: why it is one, and itself as JSON.
REJECT_FIELDS = text_schema("reason", "row", "kind").fields
#: Outcomes, with null `reason` and `row`; and rejects, with null in the columns of outcomes.
RESULTS = T.StructType([*OUTCOMES.fields, *REJECT_FIELDS])


def outcomes_of(results: DataFrame) -> DataFrame:
    """Return the outcomes of a result of `batch_outcomes`, `satisfactions` or `replay`.

    Args:
        results: A table with a column `kind`; one without it has outcomes only.

    Returns:
        Its rows of the kind "outcomes", without `reason`, `row` and `kind`.
    """
    if "kind" not in results.columns:
        return results
    return results.where(F.col("kind") == OUTCOME_KIND).drop("reason", "row", "kind")


def rejects_of(results: DataFrame) -> DataFrame:
    """Return the rejects of a result of `batch_outcomes`, `satisfactions` or `replay`.

    Args:
        results: A table with a column `kind`.

    Returns:
        The `reason` and the `row`, as JSON, of each row of the kind "rejects".
    """
    return results.where(F.col("kind") == REJECT_KIND).select("reason", "row")


def split_repeated(
    requests: pa.Table, arrived_us: Ints, deadline_us: Ints, ties_of: Callable[[Ints], Words]
) -> tuple[Bools, list[str]]:
    """Return which good requests are repeated, and these as JSON.

    `ties_of`: returns the `repeats.tie_numbers` of some rows.
    """
    repeated = repeated_in_table(
        requests.column("host"), requests.column("request_id"), arrived_us, deadline_us, ties_of
    )
    at = np.flatnonzero(repeated)
    if not len(at):
        return repeated, []
    rows = requests.select(IDENTITY).take(pa.array(at))
    timeouts_ms = (deadline_us[at] - arrived_us[at]) // 1000
    rows = rows.append_column("arrived_at", pa.array(arrived_us[at]))
    return repeated, rows_as_json(rows.append_column("timeout_ms", pa.array(timeouts_ms)))


def rows_as_json(rows: pa.Table) -> list[str]:
    """Return rows, with microseconds for times, as JSON without nulls, like other rejects."""
    return [
        json.dumps(
            {name: _json_value(name, value) for name, value in row.items() if value is not None},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        for row in rows.to_pylist()
    ]


def _json_value(name: str, value: Any) -> Any:
    if name in ("arrived_at", "occurred_at"):
        return str(np.datetime_as_string(np.datetime64(value, "us"), timezone="UTC"))
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def reject_counts() -> list[Column]:
    """Return what `require_no_rejects` needs to be observed of a result."""
    is_reject = F.col("kind") == REJECT_KIND
    return [
        F.count_if(is_reject).alias("rejects"),
        F.min(F.when(is_reject, F.col("reason"))).alias("example"),
    ]


def require_no_rejects(observed: Mapping[str, Any], what: str) -> None:
    """Check that a trace that an import has checked has no rejects."""
    if observed["rejects"]:
        raise TraceFormatError(
            f"{what}: {observed['rejects']:,} rows break the rules of a trace (such as: "
            f"{observed['example']}); import it again with `purgatory import`, which keeps such "
            "rows apart"
        )
