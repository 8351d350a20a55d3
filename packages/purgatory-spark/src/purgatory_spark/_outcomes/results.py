"""Results: the outcomes of requests, and in the same table the rows that have none.

Rows that break a rule of `checks`, and repeated requests, are rejects. They come out beside the
outcomes, as rows of another `kind`, so that one pass over the input gives both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._outcomes.reject_rows import REJECT_KIND as REJECT_KIND
from purgatory_spark._rows.schema import OUTCOMES
from purgatory_spark._spark.schemas import text_schema

#: The value of `kind` in rows of outcomes.
OUTCOME_KIND = "outcomes"

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
