"""Which timeout a trace asks for, computed by this process alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.cut_off import censoring_of, find_cut_off, timeouts_in_use
from purgatory_spark._analysis.recommendation import Recommendation, recommend
from purgatory_spark._analysis.timeout_trials import (
    SUGGESTED_QUANTILES,
    slice_what_if,
    timeouts_for,
)
from purgatory_spark._analysis.wait_scale import bucket_numbers
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._outcomes.condition import NEVER
from purgatory_spark._outcomes.satisfied import LEAST_SHARDS, satisfy_shard
from purgatory_spark._outcomes.shards import Sharding, pack_batches
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._spark.memory import bytes_per_pending_operation

if TYPE_CHECKING:
    from purgatory_spark._analysis.small_tables import WhatIfRow

#: Shards of more requests are larger than a core's cache.
_SHARD_ROWS = 40_000


@dataclass(frozen=True)
class EndedRequests:
    """The requests of a shard, by host; times are microseconds since the epoch, or `NEVER`."""

    host: Ints
    arrived_us: Ints
    deadline_us: Ints
    satisfied_us: Ints

    @classmethod
    def of(cls, satisfied: pa.Table) -> EndedRequests:
        encoded = pc.dictionary_encode(satisfied.column("host").combine_chunks())
        host: Ints = encoded.indices.to_numpy().astype(np.int64)
        order = np.argsort(host, kind="stable")
        columns = [
            pc.fill_null(satisfied.column(name), int(NEVER)).to_numpy()[order]
            for name in ("arrived_us", "deadline_us", "satisfied_us")
        ]
        return cls(host[order], *columns)

    def what_if(self, timeouts_ms: list[int]) -> list[pa.Table]:
        """Return what each timeout would have done to each host."""
        starts = np.flatnonzero(np.append(True, np.diff(self.host) != 0)[: len(self.host)])
        bounds = [*starts.tolist(), len(self.host)]
        return [
            slice_what_if(self._host_table(start, end), timeouts_ms)
            for start, end in pairwise(bounds)
        ]

    def _host_table(self, start: int, end: int) -> pa.Table:
        never = int(NEVER)
        rows = end - start
        whole = {"group": 0, "slice": 0, "start_us": -never, "end_us": never}
        columns = {name: pa.repeat(value, rows) for name, value in whole.items()}
        columns["arrived_us"] = pa.array(self.arrived_us[start:end])
        columns["satisfied_us"] = pa.array(self.satisfied_us[start:end])
        return pa.table(columns)


@dataclass(frozen=True)
class TraceAnswer:
    """What timeouts do to a trace, and which one to choose.

    Attributes:
        requests: The number of requests.
        expired: Those that expired under their own timeouts.
        timeouts_in_use: The shortest and the longest timeout of the trace in ms.
        what_if: A row for each timeout that was tried, ascending.
        recommendation: The timeout to choose, and why.
    """

    requests: int
    expired: int
    timeouts_in_use: list[int]
    what_if: list[WhatIfRow]
    recommendation: Recommendation


def end_requests(
    requests: Iterable[pa.RecordBatch], events: Iterable[pa.RecordBatch], num_requests: int
) -> list[EndedRequests]:
    """Compute when requests are satisfied, from rows of `ARROW_SCHEMAS`, one result a shard.

    Raises:
        TraceFormatError: A row breaks a rule of a trace.
    """
    sharding = Sharding(min(LEAST_SHARDS, 1 + num_requests // _SHARD_ROWS))
    blobs: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for kind, batches in (("requests", requests), ("events", events)):
        for packed in pack_batches(batches, kind, sharding):
            for row, shard in enumerate(packed.column("shard").to_pylist()):
                blobs[shard].append(packed.slice(row, 1))
    with ThreadPoolExecutor() as threads:
        shards = [pa.Table.from_batches(blobs[shard]) for shard in sorted(blobs)]
        blobs.clear()
        satisfied = list(threads.map(satisfy_shard, shards))
    reasons = [table.column("reason").drop_null() for table in satisfied]
    rejects = sum(map(len, reasons))
    if rejects:
        example = min(pc.min(reason).as_py() for reason in reasons if len(reason))
        raise TraceFormatError(
            f"{rejects:,} rows break the rules of a trace (such as: {example}); import it again "
            "with `purgatory import`, which keeps such rows apart"
        )
    return [EndedRequests.of(table) for table in satisfied if table.num_rows]


def answer(
    shards: Sequence[EndedRequests],
    parameters: Mapping[str, Any],
    timeouts: Sequence[int] | None,
    keys_per_request: int,
) -> TraceAnswer:
    """Try timeouts, and recommend one, as `analysis.analyze` and `findings.find` do.

    `parameters`: those of the trace. `timeouts`: in ms; None chooses them.
    """
    arrived_us, deadline_us, satisfied_us = (
        np.concatenate([getattr(shard, name) for shard in shards])
        for name in ("arrived_us", "deadline_us", "satisfied_us")
    )
    timeout_us = deadline_us - arrived_us
    of_requests = [int(timeout_us.min()) // 1000, int(timeout_us.max()) // 1000]
    in_use = timeouts_in_use(parameters, of_requests)
    times = _answer_times(arrived_us, timeout_us, satisfied_us)
    cut_off = find_cut_off(times, in_use)
    suggested = timeouts or timeouts_for(times.quantiles_ms(SUGGESTED_QUANTILES))
    timeouts_ms = sorted({*suggested, *in_use} | ({cut_off.at_ms} if cut_off else set()))
    with ThreadPoolExecutor() as threads:
        of_shards = list(threads.map(lambda shard: shard.what_if(timeouts_ms), shards))
    tables = [table for tables in of_shards for table in tables]
    rows = _added_up(pa.concat_tables(tables), _bytes_per_operation(keys_per_request))
    in_use = sorted(set(in_use))
    is_late = (satisfied_us != NEVER) & (satisfied_us > deadline_us)
    recommendation = recommend(
        rows, in_use, int(is_late.sum()), censoring_of(times, in_use, parameters)
    )
    expired = int((satisfied_us > deadline_us).sum())
    return TraceAnswer(len(arrived_us), expired, in_use, rows, recommendation)


@cache
def _bytes_per_operation(keys: int) -> float:
    return bytes_per_pending_operation(keys)


def _answer_times(arrived_us: Ints, timeout_us: Ints, satisfied_us: Ints) -> AnswerTimes:
    """Return what `aggregates.count_answers` counts."""
    is_answered = satisfied_us != NEVER
    wait_us = np.where(is_answered, satisfied_us - arrived_us, timeout_us)
    bucket = bucket_numbers(wait_us)
    least = int(bucket.min())
    at = bucket - least
    counts = np.bincount(at)
    answered = np.bincount(at[is_answered], minlength=len(counts))
    longest = np.zeros(len(counts), dtype=np.int64)
    np.maximum.at(longest, at, wait_us)
    filled = np.flatnonzero(counts)
    given_up = (counts - answered)[filled]
    return AnswerTimes(filled + least, longest[filled] / 1000, answered[filled], given_up)


def _added_up(tables: pa.Table, bytes_per_operation: float) -> list[WhatIfRow]:
    sums = ("requests", "expired", "expired_waited_ms", "waited_ms")
    grouped = tables.group_by("timeout_ms").aggregate(
        [*[(name, "sum") for name in sums], ("rise", "max")]
    )
    return [
        {
            "timeout_ms": row["timeout_ms"],
            "requests": row["requests_sum"],
            "expired": row["expired_sum"],
            "expired_share": row["expired_sum"] / row["requests_sum"],
            "expired_waited_ms": row["expired_waited_ms_sum"],
            "mean_waited_ms": row["waited_ms_sum"] / row["requests_sum"],
            "peak_pending": row["rise_max"],
            "peak_bytes": row["rise_max"] * bytes_per_operation,
        }
        for row in grouped.sort_by("timeout_ms").to_pylist()
    ]
