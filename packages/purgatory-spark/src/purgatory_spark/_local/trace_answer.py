"""Which timeout a trace asks for, computed by this process alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.cut_off import censoring_of, find_cut_off, timeouts_in_use
from purgatory_spark._analysis.recommendation import Recommendation, recommend
from purgatory_spark._analysis.timeout_trials import (
    SUGGESTED_QUANTILES,
    WhatIf,
    timeouts_for,
)
from purgatory_spark._analysis.wait_scale import bucket_numbers
from purgatory_spark._local.ended_requests import EndedRequests
from purgatory_spark._outcomes.condition import NEVER
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._spark.memory import bytes_per_pending_operation

if TYPE_CHECKING:
    from purgatory_spark._analysis.small_tables import WhatIfRow


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
