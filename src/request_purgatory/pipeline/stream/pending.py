"""The requests of a shard that wait, and the keys that each of them still waits for, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from request_purgatory.pipeline.condition import NEVER, Bools, Floats, Ints, first_index
from request_purgatory.pipeline.schema import COMPLETED, EXPIRED
from request_purgatory.pipeline.stream.columns import Columns
from request_purgatory.pipeline.stream.keys import EventRun, find
from request_purgatory.pipeline.stream.rows import REQUEST_ROWS, RESULT_ROWS, results

#: A request that waits: `left` counts the keys it still waits for, `latest_us` is when the last of the others was satisfied.
PENDING = pa.schema(
    [field for field in REQUEST_ROWS if field.name not in ("keys", "aggregate", "threshold")]
    + [pa.field("left", pa.int32()), pa.field("latest_us", pa.int64())]
)
#: A key that a request waits for: it is satisfied once the key's aggregate less `before` reaches `need`. `request` is a row of
#: the table of requests.
PAIRS = pa.schema(
    {"request": pa.int64(), "key": pa.int64(), "aggregate": pa.int8(), "before": pa.float64(), "need": pa.float64()}
)

_HIGH = 2  # `max` in `schema.AGGREGATES`


@dataclass
class Pairs(Columns):
    """Keys that requests wait for."""

    SCHEMA = PAIRS

    request: Ints
    key: Ints
    aggregate: Ints
    before: Floats
    need: Floats

    @classmethod
    def of_requests(cls, requests: pa.Table, first_row: int) -> Pairs:
        """Every key of new requests (`REQUEST_ROWS`), whose rows are numbered from `first_row`; `before` is not known yet."""
        keys = requests.column("keys").combine_chunks()
        if isinstance(keys, pa.ChunkedArray):
            keys = pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], keys.type)
        lengths = np.diff(keys.offsets.to_numpy()) if len(keys) else np.array([], dtype=np.int64)
        row = np.repeat(np.arange(len(keys)), lengths)
        return cls(
            row + first_row,
            np.asarray(keys.flatten().to_numpy(), dtype=np.int64),
            np.asarray(requests.column("aggregate").to_numpy())[row],
            np.zeros(len(row)),
            np.asarray(requests.column("threshold").to_numpy())[row],
        )

    def satisfied_us(self, run: EventRun, arrived: Ints | None) -> Ints:
        """When each pair is satisfied by the events of `run`, or NEVER.

        Args:
            arrived: when each pair's request arrived, if that is within the time of `run`; `before` is filled in then. None for
                requests that were here before.
        """
        at, known = find(run.keys.key, self.key)
        start, end = np.where(known, run.starts[at], 0), np.where(known, run.ends[at], 0)
        times = np.full(len(self.key), NEVER)
        search_from = start
        if arrived is not None:
            times[self.need <= 0] = arrived[self.need <= 0]
            since = first_index(start, end, lambda pairs, index: run.us[index] >= arrived[pairs])
            for aggregate, base in ((0, run.keys.count), (1, run.keys.total)):
                chosen = self.aggregate == aggregate
                before = base[at[chosen]].astype(np.float64)
                passed = since[chosen] > start[chosen]
                before[passed] = run.values[aggregate][since[chosen][passed] - 1]
                self.before[chosen] = before
            # A high watermark counts from the beginning of time: what it was may be enough.
            high = self.aggregate == _HIGH
            enough = high & (times == NEVER) & (np.where(known, run.keys.high[at], 0) >= self.need)
            times[enough] = arrived[enough]
            search_from = np.where(high, start, since)
        for aggregate, values in enumerate(run.values):
            pairs = np.flatnonzero((self.aggregate == aggregate) & (times == NEVER) & (search_from < end))
            if len(pairs):
                self._search(pairs, search_from, end, values, run.us, times)
        if arrived is not None:
            times = np.where(times == NEVER, NEVER, np.maximum(times, arrived))
        return times

    def _search(self, pairs: Ints, start: Ints, end: Ints, values: Floats, us: Ints, times: Ints) -> None:
        before, need = self.before[pairs], self.need[pairs]
        index = first_index(start[pairs], end[pairs], lambda at, index: values[index] - before[at] >= need[at])
        found = index < end[pairs]
        times[pairs[found]] = us[index[found]]


def settle(requests: pa.Table, pairs: Pairs, times: Ints, watermark_us: int) -> tuple[pa.Table, pa.Table, Pairs]:
    """What has ended once the watermark is reached, and what goes on waiting.

    Args:
        requests: of `PENDING`.
        pairs: the keys that they wait for.
        times: when each pair was satisfied, or NEVER.

    Returns:
        Outcomes (`RESULT_ROWS`), and the requests and pairs that still wait.
    """
    count = requests.num_rows
    every = np.asarray(requests.column("every").to_numpy(), dtype=bool)
    deadline = np.asarray(requests.column("deadline_us").to_numpy())
    arrived = np.asarray(requests.column("arrived_us").to_numpy())
    left = np.array(requests.column("left").to_numpy())
    latest = np.array(requests.column("latest_us").to_numpy())

    done = times != NEVER
    rows = pairs.request[done]
    np.subtract.at(left, rows, 1)
    np.maximum.at(latest, rows, times[done])
    first = np.full(count, NEVER)
    np.minimum.at(first, rows, times[done])
    satisfied = np.where(every, np.where(left == 0, np.maximum(latest, arrived), NEVER), first)

    completed = satisfied <= deadline
    ended = completed | (deadline <= watermark_us)
    outcomes = _outcomes(requests, arrived, np.where(completed, satisfied, deadline), completed, ended)
    waits = ~ended
    renumbered = np.cumsum(waits) - 1
    kept = waits[pairs.request] & ~done
    pairs = pairs.where(kept)
    pairs.request = renumbered[pairs.request]
    requests = requests.set_column(requests.schema.get_field_index("left"), "left", pa.array(left, pa.int32()))
    requests = requests.set_column(requests.schema.get_field_index("latest_us"), "latest_us", pa.array(latest))
    return outcomes, requests.filter(pa.array(waits)), pairs


def _outcomes(requests: pa.Table, arrived: Ints, ended_at: Ints, completed: Bools, ended: Bools) -> pa.Table:
    chosen = requests.filter(pa.array(ended))
    arrived, ended_at, completed = arrived[ended], ended_at[ended], completed[ended]
    if not len(arrived):
        return RESULT_ROWS.empty_table()
    moment = pa.timestamp("us", tz="UTC")
    return results(
        kind="outcomes",
        host=chosen.column("host"),
        request_id=chosen.column("request_id"),
        request_type=chosen.column("request_type"),
        arrived_at=pa.array(arrived, moment),
        ended_at=pa.array(ended_at, moment),
        outcome=pa.array([EXPIRED, COMPLETED]).take(pa.array(completed.astype(np.int64))),
        waited_ms=pa.array((ended_at - arrived) / 1000),
    )
