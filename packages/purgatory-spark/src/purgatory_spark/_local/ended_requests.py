"""When the requests of a trace are satisfied, computed by this process alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._analysis.timeout_trials import WhatIf, what_if_of
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._outcomes.condition import NEVER
from purgatory_spark._outcomes.satisfied import LEAST_SHARDS, satisfy_shard
from purgatory_spark._outcomes.shards import Sharding, pack_batches
from purgatory_spark._spark.arrays import Floats, Ints, one_chunk

#: What a thread computes at a time. More requests are larger than a core's cache.
_SHARD_ROWS = 40_000


@dataclass(frozen=True)
class EndedRequests:
    """Requests by host and in order of arrival, all those of a host.

    Times are microseconds since the epoch, or `NEVER`.
    """

    host: Ints
    arrived_us: Ints
    deadline_us: Ints
    satisfied_us: Ints

    @classmethod
    def of(cls, hosts: pa.ChunkedArray | pa.Array, *times_us: Ints) -> Self:
        """Sort requests by their hosts, and by the first of the times: `arrived_us`."""
        encoded = one_chunk(hosts)
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        # NumPy sorts numbers of 16 bits by counting.
        small = np.uint16 if len(encoded.dictionary) < 2**16 else np.int64
        host = encoded.indices.to_numpy().astype(small)
        order = np.lexsort((times_us[0], host))
        return cls(host.take(order).astype(np.int64), *(times.take(order) for times in times_us))

    def parts(self) -> list[EndedRequests]:
        """Divide the requests between hosts, such that parts are not larger than they must."""
        bounds, size = [0], len(self.host)
        while bounds[-1] < size:
            last = self.host[min(bounds[-1] + _SHARD_ROWS, size) - 1]
            bounds.append(int(np.searchsorted(self.host, last, side="right")))
        columns = (self.host, self.arrived_us, self.deadline_us, self.satisfied_us)
        return [
            EndedRequests(*(column[start:end] for column in columns))
            for start, end in pairwise(bounds)
        ]

    def what_if(self, timeouts_ms: Sequence[int]) -> list[WhatIf]:
        """Return what each timeout would have done to each host."""
        never = int(NEVER)
        starts = np.flatnonzero(np.append(True, np.diff(self.host) != 0)[: len(self.host)])
        hosts = [slice(*bounds) for bounds in pairwise([*starts.tolist(), len(self.host)])]
        return [
            what_if_of(self.arrived_us[host], self.satisfied_us[host], timeouts_ms, -never, never)
            for host in hosts
        ]


def end_own_requests(requests: pa.Table) -> list[EndedRequests]:
    """Compute when requests are satisfied of which each waits for its own answer, `ended_at`.

    That is one event of amount 1 on a key of no other request.
    """
    arrived: Ints = requests.column("arrived_at").to_numpy()
    deadline = arrived + requests.column("timeout_ms").to_numpy().astype(np.int64) * 1000
    satisfied: Ints = pc.fill_null(requests.column("ended_at"), int(NEVER)).to_numpy()
    threshold: Floats = requests.column("threshold").to_numpy()
    if (threshold > 1).any():
        satisfied = np.where(threshold > 1, NEVER, satisfied)
    if (threshold <= 0).any():
        satisfied = np.where(threshold <= 0, arrived, satisfied)
    return EndedRequests.of(requests.column("host"), arrived, deadline, satisfied).parts()


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
    return [_ended(table) for table in satisfied if table.num_rows]


def _ended(satisfied: pa.Table) -> EndedRequests:
    times = [
        pc.fill_null(satisfied.column(name), int(NEVER)).to_numpy()
        for name in ("arrived_us", "deadline_us", "satisfied_us")
    ]
    return EndedRequests.of(satisfied.column("host"), *times)
