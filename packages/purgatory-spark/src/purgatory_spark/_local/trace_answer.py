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
    WhatIf,
    timeouts_for,
    what_if_of,
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
    """The requests of a shard, by host and in order of arrival.

    Times are microseconds since the epoch, or `NEVER`.
    """

    host: Ints
    arrived_us: Ints
    deadline_us: Ints
    satisfied_us: Ints

    @classmethod
    def of(cls, satisfied: pa.Table) -> EndedRequests:
        encoded = pc.dictionary_encode(satisfied.column("host").combine_chunks())
        host: Ints = encoded.indices.to_numpy().astype(np.int64)
        order = np.lexsort((satisfied.column("arrived_us").to_numpy(), host))
        columns = [
            pc.fill_null(satisfied.column(name), int(NEVER)).to_numpy()[order]
            for name in ("arrived_us", "deadline_us", "satisfied_us")
        ]
        return cls(host[order], *columns)

    def what_if(self, timeouts_ms: list[int]) -> list[WhatIf]:
        """Return what each timeout would have done to each host."""
        never = int(NEVER)
        starts = np.flatnonzero(np.append(True, np.diff(self.host) != 0)[: len(self.host)])
        hosts = [slice(*bounds) for bounds in pairwise([*starts.tolist(), len(self.host)])]
        return [
            what_if_of(self.arrived_us[host], self.satisfied_us[host], timeouts_ms, -never, never)
            for host in hosts
        ]


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
    of_hosts = [host for hosts in of_shards for host in hosts]
    rows = _added_up(of_hosts, timeouts_ms, _bytes_per_operation(keys_per_request))
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


def _added_up(
    of_hosts: Sequence[WhatIf], timeouts_ms: Sequence[int], bytes_per_operation: float
) -> list[WhatIfRow]:
    requests, expired, waited_us = (
        np.sum([getattr(host, name) for host in of_hosts], axis=0).tolist()
        for name in ("requests", "expired", "waited_us")
    )
    peaks = np.max([host.rise for host in of_hosts], axis=0).tolist()
    return [
        {
            "timeout_ms": timeout_ms,
            "requests": requests[at],
            "expired": expired[at],
            "expired_share": expired[at] / requests[at],
            "expired_waited_ms": float(expired[at] * timeout_ms),
            "mean_waited_ms": waited_us[at] / 1000 / requests[at],
            "peak_pending": peaks[at],
            "peak_bytes": peaks[at] * bytes_per_operation,
        }
        for at, timeout_ms in enumerate(timeouts_ms)
    ]
