"""Reject repeated requests of Spark tables, by the rule of `repeats`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._rows.checks import REASON, reject_hash
from purgatory_spark._rows.repeats import REPEATED, tie_numbers
from purgatory_spark._spark.arrays import Bools
from purgatory_spark._spark.file_columns import row_text
from purgatory_spark._spark.files import RAW
from purgatory_spark._spark.schemas import from_micros, micros_schema, to_micros

_ARRIVED = "_purgatory_arrived_us"
_DEADLINE = "_purgatory_deadline_us"
_OVERLAPS = "_purgatory_overlaps"
_IN_CHAIN = "_purgatory_in_chain"
_REJECT = "_purgatory_reject"
#: What orders a row without an end before others.
_NO_END_US = -(2**62)
_HELPERS = (_ARRIVED, _DEADLINE, _OVERLAPS, _IN_CHAIN)


def mark_chains(table: DataFrame, arrived_us: Column, deadline_us: Column) -> DataFrame:
    """Mark good rows that may be repeated; `flag_repeated` then decides.

    Persist the result if several data frames are computed from it. Times are in microseconds since
    the epoch. `RAW` is text then, and null of rows that are no rejects and can't become any.
    """
    is_good, text = F.col(REASON).isNull(), row_text(table)
    # Windows over columns, not over expressions, share one exchange and one sort.
    partitions = Window.partitionBy("host", "request_id", _REJECT)
    in_order = partitions.orderBy(_ARRIVED, _DEADLINE)
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    overlaps = is_good & F.coalesce(F.col(_ARRIVED) <= F.max(_DEADLINE).over(earlier), F.lit(False))
    is_next = F.coalesce(F.lead(_OVERLAPS).over(in_order), F.lit(False))
    return (
        table.withColumns(
            {_ARRIVED: arrived_us, _DEADLINE: deadline_us, _REJECT: reject_hash(text)}
        )
        .withColumn(_OVERLAPS, overlaps)
        .withColumn(_IN_CHAIN, F.col(_OVERLAPS) | is_next)
        .withColumn(RAW, F.when(F.col(_IN_CHAIN) | ~is_good, text))
        .drop(_REJECT)
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
        for batch in _with_whole_ties(batches):
            *keys, arrived_us, deadline_us = [
                batch.column(name).to_pylist()
                for name in ("host", "request_id", _ARRIVED, _DEADLINE)
            ]
            repeated = np.zeros(batch.num_rows, dtype=bool)
            for row in _in_order_of_ties(batch):
                key, arrived = [column[row] for column in keys], arrived_us[row]
                repeated[row] = key == last_key and arrived <= until_us
                if not repeated[row]:
                    last_key, until_us = key, deadline_us[row]
            table = batch.select(schema.names)
            at = schema.names.index(REASON)
            reasons = pc.if_else(pa.array(repeated), reason, batch.column(REASON))
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


def _is_tied(batch: pa.RecordBatch) -> Bools:
    """Return whether each row but the first has the id and the times of the one before."""
    tied: Bools = np.ones(max(0, batch.num_rows - 1), dtype=bool)
    for name in ("host", "request_id", _ARRIVED, _DEADLINE):
        column = batch.column(name)
        tied &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return tied


def _with_whole_ties(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Divide batches between rows that are not tied."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        kept.append(batch)
        rows = pa.concat_batches(kept)
        untied = np.flatnonzero(~_is_tied(rows))
        if len(untied):
            end = int(untied[-1]) + 1
            yield rows.slice(0, end)
            kept = [rows.slice(end)]
    if kept:
        yield pa.concat_batches(kept)


def _in_order_of_ties(batch: pa.RecordBatch) -> list[int]:
    """Return the rows of a batch in its order, tied ones in that of their `tie_numbers`.

    Those that are equal as requests are in order of their ends, and then of their texts.
    """
    tied = _is_tied(batch)
    if not tied.any():
        return list(range(batch.num_rows))
    rows = pa.Table.from_batches([batch])
    if "watch_keys" not in rows.schema.names:
        no_keys = pa.array([[]] * rows.num_rows, pa.list_(pa.string()))
        rows = rows.append_column("watch_keys", no_keys)
    group = np.cumsum(np.concatenate([[True], ~tied]))
    text = pc.rank(rows.column(RAW)).to_numpy()
    ended = np.zeros(rows.num_rows)
    if "ended_us" in rows.schema.names:
        ended = pc.fill_null(rows.column("ended_us"), _NO_END_US).to_numpy()
    order: list[int] = np.lexsort((text, ended, tie_numbers(rows), group)).tolist()
    return order
