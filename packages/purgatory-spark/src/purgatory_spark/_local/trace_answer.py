"""Which timeout a trace asks for, computed by this process alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from purgatory_spark._analysis.cut_off import censoring_of, find_cut_off, timeouts_in_use
from purgatory_spark._analysis.recommendation import Recommendation, recommend
from purgatory_spark._analysis.timeout_trials import (
    SUGGESTED_QUANTILES,
    WhatIf,
    timeouts_for,
)
from purgatory_spark._local.ended_requests import EndCounts, EndedRequests
from purgatory_spark._spark.memory import bytes_per_pending_operation

if TYPE_CHECKING:
    from purgatory_spark._analysis.small_tables import WhatIfRow

T = TypeVar("T")


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
    with ThreadPoolExecutor(pa.cpu_count()) as threads:

        def in_threads(tasks: Iterable[list[Callable[[], T]]]) -> list[T]:
            return list(threads.map(lambda task: task(), chain.from_iterable(tasks)))

        ends = EndCounts.total(in_threads(shard.counts() for shard in shards))
        of_requests = [timeout_us // 1000 for timeout_us in ends.timeouts_us]
        in_use = timeouts_in_use(parameters, of_requests)
        times = ends.times()
        cut_off = find_cut_off(times, in_use)
        suggested = timeouts or timeouts_for(times.quantiles_ms(SUGGESTED_QUANTILES))
        timeouts_ms = sorted({*suggested, *in_use} | ({cut_off.at_ms} if cut_off else set()))
        of_hosts = in_threads(shard.what_if(timeouts_ms) for shard in shards)
    rows = _added_up(
        list(chain.from_iterable(of_hosts)), timeouts_ms, _bytes_per_operation(keys_per_request)
    )
    in_use = sorted(set(in_use))
    censoring = censoring_of(times, in_use, parameters)
    recommendation = recommend(rows, in_use, ends.late, censoring)
    return TraceAnswer(times.total, ends.expired, in_use, rows, recommendation)


@cache
def _bytes_per_operation(keys: int) -> float:
    return bytes_per_pending_operation(keys)


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
