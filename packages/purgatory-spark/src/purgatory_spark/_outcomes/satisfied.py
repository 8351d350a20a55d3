"""Compute when the requests of a shard are satisfied, from the blobs of `shards`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._outcomes.condition import NEVER, satisfied_us
from purgatory_spark._outcomes.reject_rows import REJECT_KIND, split_repeated
from purgatory_spark._outcomes.shards import unpack
from purgatory_spark._rows.repeats import REPEATED, tie_numbers
from purgatory_spark._rows.trace_columns import IDENTITY
from purgatory_spark._spark.arrays import Ints, Words
from purgatory_spark._spark.worker_gc import freeze_imported_objects

#: The columns of satisfied requests; times are microseconds since the epoch.
SATISFIED_NAMES = (*IDENTITY, "arrived_us", "deadline_us", "satisfied_us")
#: The least number of shards, but for small files. The working set of a shard of ten million
#: requests fits into a core's cache, and a hundred times as many still fit into a worker.
LEAST_SHARDS = 256


def satisfy_shard(packed: pa.Table) -> pa.Table:
    """Return when the requests of one shard are satisfied (`SATISFIED_NAMES`), and its rejects."""
    requests = unpack(packed, "requests")
    return _reject_repeated(
        _satisfied(requests, packed), lambda rows: tie_numbers(requests.take(pa.array(rows)))
    )


def satisfy_part(packed: pa.Table) -> pa.Table:
    """Return a shard that does not have all requests of its ids with the numbers of its ties."""
    requests = unpack(packed, "requests")
    satisfied = _satisfied(requests, packed)
    rejects = pa.nulls(satisfied.num_rows - requests.num_rows, pa.int64())
    ties = [pa.array(tie_numbers(requests).view(np.int64)), rejects]
    return satisfied.append_column("tie", pa.chunked_array(ties))


def reject_repeated_parts(parts: pa.Table) -> pa.Table:
    """Turn repeated requests into rejects, among all requests of their hosts and ids."""
    ties = parts.column("tie").filter(parts.column("tie").is_valid()).to_numpy().view(np.uint64)
    return _reject_repeated(parts.drop_columns(["tie"]), lambda rows: ties[rows])


def _satisfied(requests: pa.Table, packed: pa.Table) -> pa.Table:
    """Return the requests of a shard, when they are satisfied, and then its rejects."""
    freeze_imported_objects()
    events = unpack(packed, "events")
    satisfied = satisfied_us(requests, events)
    arrived_us = requests.column("arrived_at")
    timeout_us = pc.multiply(requests.column("timeout_ms").cast(pa.int64()), 1000)
    columns = [
        *requests.select(IDENTITY).columns,
        arrived_us,
        pc.add(arrived_us, timeout_us),
        pa.array(satisfied, mask=satisfied == NEVER),
    ]
    table = pa.table(columns, names=SATISFIED_NAMES)
    return pa.concat_tables([table, unpack(packed, REJECT_KIND)], promote_options="default")


def _reject_repeated(satisfied: pa.Table, ties_of: Callable[[Ints], Words]) -> pa.Table:
    requests = satisfied
    if satisfied.column("reason").null_count < satisfied.num_rows:
        requests = satisfied.filter(satisfied.column("reason").is_null())
    repeated, texts = split_repeated(
        requests,
        requests.column("arrived_us").to_numpy(),
        requests.column("deadline_us").to_numpy(),
        ties_of,
    )
    if not texts:
        return satisfied
    rejects = {"reason": pa.repeat(REPEATED, len(texts)), "row": pa.array(texts, pa.string())}
    parts = [
        requests.filter(pa.array(~repeated)),
        satisfied.filter(satisfied.column("reason").is_valid()),
        pa.table(rejects),
    ]
    return pa.concat_tables(parts, promote_options="default")
