"""When the requests of a trace are satisfied, computed by this process alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.timeout_trials import WhatIf, what_if_of
from purgatory_spark._analysis.wait_scale import bucket_numbers
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._outcomes.condition import NEVER
from purgatory_spark._outcomes.satisfied import LEAST_SHARDS, satisfy_shard
from purgatory_spark._outcomes.shards import Sharding, pack_batches
from purgatory_spark._rows.mapped_requests import own_answers_us
from purgatory_spark._spark.arrays import Ints, one_chunk

#: What a thread computes at a time. More requests are larger than a core's cache.
_PART_ROWS = 40_000
_FIRST_BUCKET, _LAST_BUCKET = bucket_numbers(np.array([0, NEVER])).tolist()


@dataclass(frozen=True)
class EndedRequests:
    """All requests of some hosts; times are microseconds since the epoch, or `NEVER`."""

    host: Ints
    arrived_us: Ints
    deadline_us: Ints
    satisfied_us: Ints

    @classmethod
    def of(cls, hosts: pa.ChunkedArray, *times_us: Ints) -> Self:
        encoded = one_chunk(hosts)
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        return cls(encoded.indices.to_numpy(), *times_us)

    def counts(self) -> list[Callable[[], EndCounts]]:
        """Return functions that count parts of the requests."""
        parts = [slice(at, at + _PART_ROWS) for at in range(0, len(self.host), _PART_ROWS)]
        return [partial(self._count, part) for part in parts]

    def _count(self, part: slice) -> EndCounts:
        arrived_us, deadline_us = self.arrived_us[part], self.deadline_us[part]
        satisfied_us = self.satisfied_us[part]
        timeout_us = deadline_us - arrived_us
        is_answered, is_expired = satisfied_us != NEVER, satisfied_us > deadline_us
        wait_us = np.where(is_answered, satisfied_us - arrived_us, timeout_us)
        at = bucket_numbers(wait_us) - _FIRST_BUCKET
        buckets = _LAST_BUCKET - _FIRST_BUCKET + 1
        longest_us: Ints = np.zeros(buckets, dtype=np.int64)
        np.maximum.at(longest_us, at, wait_us)
        return EndCounts(
            requests=np.bincount(at, minlength=buckets),
            answered=np.bincount(at[is_answered], minlength=buckets),
            longest_us=longest_us,
            expired=int(np.count_nonzero(is_expired)),
            late=int(np.count_nonzero(is_expired & is_answered)),
            timeouts_us=(int(timeout_us.min()), int(timeout_us.max())),
        )

    def what_if(self, timeouts_ms: Sequence[int]) -> list[Callable[[], list[WhatIf]]]:
        """Return functions that try timeouts on some hosts each."""
        # NumPy sorts numbers of 16 bits by counting.
        kind = np.uint16 if self.host.max(initial=0) < 2**16 else np.int64
        order = np.argsort(self.host.astype(kind), kind="stable")
        of_hosts = np.bincount(self.host)
        ends = np.cumsum(of_hosts[of_hosts > 0])
        parts = np.split(ends, np.flatnonzero(np.diff((ends - 1) // _PART_ROWS)) + 1)
        starts = [0, *[int(part[-1]) for part in parts[:-1]]]
        return [
            partial(self._what_if, order[start : part[-1]], part - start, timeouts_ms)
            for start, part in zip(starts, parts, strict=True)
        ]

    def _what_if(self, rows: Ints, ends: Ints, timeouts_ms: Sequence[int]) -> list[WhatIf]:
        never, found = int(NEVER), []
        arrived, satisfied = self.arrived_us.take(rows), self.satisfied_us.take(rows)
        for bounds in pairwise([0, *ends.tolist()]):
            host = slice(*bounds)
            of_host = arrived[host], satisfied[host]
            if (of_host[0][1:] < of_host[0][:-1]).any():
                order = np.argsort(of_host[0], kind="stable")
                of_host = of_host[0][order], of_host[1][order]
            found.append(what_if_of(*of_host, timeouts_ms, -never, never))
        return found


@dataclass(frozen=True)
class EndCounts:
    """How requests end: counts of them by buckets of time, as `aggregates.count_answers` has them.

    Attributes:
        expired: Those that expired under their own timeouts.
        late: Those of them that were answered later.
        timeouts_us: The shortest and the longest timeout.
    """

    requests: Ints
    answered: Ints
    longest_us: Ints
    expired: int
    late: int
    timeouts_us: tuple[int, int]

    @classmethod
    def total(cls, parts: Sequence[EndCounts]) -> Self:
        return cls(
            requests=np.sum([part.requests for part in parts], axis=0),
            answered=np.sum([part.answered for part in parts], axis=0),
            longest_us=np.max([part.longest_us for part in parts], axis=0),
            expired=sum(part.expired for part in parts),
            late=sum(part.late for part in parts),
            timeouts_us=(
                min(part.timeouts_us[0] for part in parts),
                max(part.timeouts_us[1] for part in parts),
            ),
        )

    def times(self) -> AnswerTimes:
        filled = np.flatnonzero(self.requests)
        answered = self.answered[filled]
        given_up = self.requests[filled] - answered
        longest_ms = self.longest_us[filled] / 1000
        return AnswerTimes(filled + _FIRST_BUCKET, longest_ms, answered, given_up)


def end_own_requests(requests: pa.Table) -> list[EndedRequests]:
    """Compute when requests are satisfied of which each waits for its own answer, `ended_at`."""
    arrived: Ints = requests.column("arrived_at").to_numpy()
    deadline = arrived + requests.column("timeout_ms").to_numpy().astype(np.int64) * 1000
    satisfied = own_answers_us(requests, int(NEVER))
    if not requests.num_rows:
        return []
    return [EndedRequests.of(requests.column("host"), arrived, deadline, satisfied)]


def end_requests(
    requests: Iterable[pa.RecordBatch], events: Iterable[pa.RecordBatch], num_requests: int
) -> list[EndedRequests]:
    """Compute when requests are satisfied, from rows of `ARROW_SCHEMAS`, one result a shard.

    Raises:
        TraceFormatError: A row breaks a rule of a trace.
    """
    sharding = Sharding(min(LEAST_SHARDS, 1 + num_requests // _PART_ROWS))
    blobs: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    with ThreadPoolExecutor() as threads:
        pack = partial(_packed, sharding=sharding)
        for packed in chain(*threads.map(pack, ("requests", "events"), (requests, events))):
            for row, shard in enumerate(packed.column("shard").to_pylist()):
                blobs[shard].append(packed.slice(row, 1))
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


def _packed(
    kind: str, batches: Iterable[pa.RecordBatch], sharding: Sharding
) -> list[pa.RecordBatch]:
    return list(pack_batches(batches, kind, sharding))


def _ended(satisfied: pa.Table) -> EndedRequests:
    times = [
        pc.fill_null(satisfied.column(name), int(NEVER)).to_numpy()
        for name in ("arrived_us", "deadline_us", "satisfied_us")
    ]
    return EndedRequests.of(satisfied.column("host"), *times)
