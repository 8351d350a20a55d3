"""Reject repeated requests of Spark tables, by the rule of `repeats`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._rows.checks import REASON, reject_hash
from purgatory_spark._rows.repeats import REPEATED
from purgatory_spark._spark.schemas import from_micros, micros_schema, to_micros

#: Whether a row is the first good one of its host and id.
IS_FIRST = "_purgatory_is_first"
_ARRIVED = "_purgatory_arrived_us"
_DEADLINE = "_purgatory_deadline_us"
_OVERLAPS = "_purgatory_overlaps"
_IN_CHAIN = "_purgatory_in_chain"
_HELPERS = (_ARRIVED, _DEADLINE, _OVERLAPS, _IN_CHAIN)


def mark_chains(
    table: DataFrame, arrived_us: Column, deadline_us: Column, order: list[str]
) -> DataFrame:
    """Mark good rows that may be repeated; `flag_repeated` then decides.

    Persist the result if several data frames are computed from it. Times are in microseconds since
    the epoch; `order` is that of rows with equal arrivals and deadlines.
    """
    is_good = F.col(REASON).isNull()
    partitions = Window.partitionBy("host", "request_id", reject_hash())
    in_order = partitions.orderBy(_ARRIVED, _DEADLINE, *order)
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    overlaps = is_good & F.coalesce(F.col(_ARRIVED) <= F.max(_DEADLINE).over(earlier), F.lit(False))
    is_next = F.coalesce(F.lead(_OVERLAPS).over(in_order), F.lit(False))
    return (
        table.withColumn(_ARRIVED, arrived_us)
        .withColumn(_DEADLINE, deadline_us)
        .withColumn(_OVERLAPS, overlaps)
        .withColumn(IS_FIRST, is_good & (F.row_number().over(in_order) == 1))
        .withColumn(_IN_CHAIN, F.col(_OVERLAPS) | is_next)
    )


def flag_repeated(chains: DataFrame, reason: str = REPEATED) -> DataFrame:
    """Set `REASON` of repeated requests.

    Only rows that share an id while it is reserved pass through Python; usually they are few. They
    are decided one after the other, because a repeated request reserves nothing.
    """
    schema = T.StructType([field for field in chains.schema if field.name not in _HELPERS])

    def decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The rows of an id follow each other in order, maybe over several batches.
        last_key, until_us = None, 0
        for batch in batches:
            columns = [
                batch.column(name).to_pylist()
                for name in ("host", "request_id", _ARRIVED, _DEADLINE)
            ]
            repeated = []
            for host, request_id, arrived, deadline in zip(*columns, strict=True):
                is_repeated = (host, request_id) == last_key and arrived <= until_us
                if not is_repeated:
                    last_key, until_us = (host, request_id), deadline
                repeated.append(is_repeated)
            table = batch.select(schema.names)
            at = schema.names.index(REASON)
            reasons = pc.if_else(pa.array(repeated, pa.bool_()), reason, batch.column(REASON))
            yield table.set_column(
                at, table.schema.field(at), reasons.cast(table.schema.field(at).type)
            )

    in_chain = F.col(_IN_CHAIN)
    decided = (
        chains.where(in_chain)
        .select(*to_micros(chains.schema))
        .mapInArrow(decide, micros_schema(schema))
    )
    others = chains.where(~in_chain).select(*schema.names)
    return others.unionByName(from_micros(decided, schema))
