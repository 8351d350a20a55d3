"""One shard of a stream: the requests and events of some hosts or keys, taken in as they come and settled as the watermark moves.

Nothing is decided before the watermark has passed it: then all that happened up to that moment is
known, and it is worked through in the order of its times, whatever the order in which it came and
the batches it came in. That is why the outcomes do not depend on micro-batches, and are those of
the batch job.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from request_purgatory.pipeline.stream.state.columns import column
from request_purgatory.pipeline.stream.state.key_history import KeyRecords
from request_purgatory.pipeline.stream.state.keys import EventRun
from request_purgatory.pipeline.stream.state.pending import Generation, Pending
from request_purgatory.pipeline.stream.state.request_ids import TakenIds
from request_purgatory.pipeline.stream.state.rows import (
    EVENT_ROWS,
    EVENTS,
    REJECTS,
    REQUEST_ROWS,
    REQUESTS,
    late_rows,
    results,
)
from request_purgatory.pipeline.stream.state.store import ShardStore

#: Before every time.
NO_WATERMARK_US = -(2**62)


#: What a Python worker takes for each byte of the rows that a shard looks at together, with all
#: that is made of them on the way; measured as 15 with 100,000 to 400,000 requests and as many
#: events.
_MEMORY_FACTOR = 16


class ShardTooLargeError(MemoryError):
    """A shard's rows do not fit the memory that a worker may use."""


@dataclass
class Step:
    """What one step of a shard gave.

    Attributes:
        results: tables of `rows.RESULT_ROWS`.
        next_us: when, in event time, there is something to do without further rows; None if never.
        pending: requests that have arrived and not ended.
        pending_change: how many more than before the step.
    """

    results: list[pa.Table] = field(default_factory=list)
    next_us: int | None = None
    pending: int = 0
    pending_change: int = 0


class Shard:
    """A shard's state, and what a batch of rows and a watermark do to it."""

    def __init__(self, store: ShardStore, *, remember_us: int, max_bytes: int) -> None:
        """A shard with the state that is in `store`.

        Args:
            remember_us: how long after its last event a key that nobody watches is remembered.
            max_bytes: what the rows of one step may take.
        """
        self._store = store
        self._remember_us = remember_us
        self._max_bytes = max_bytes

    def step(self, inputs: dict[str, list[pa.Table]], watermark_us: int) -> Step:
        """Take rows in (`rows.INPUTS`), and settle all that happened up to the watermark.

        Raises:
            ShardTooLargeError: what has to be looked at together does not fit into `max_bytes`.
        """
        step = Step()
        self._require_fit([table for tables in inputs.values() for table in tables])
        for table in inputs.get(REJECTS, ()):
            step.results.append(
                results(kind="late", reason=table.column("reason"), row=table.column("row"))
            )
        requests = self._take_in(REQUESTS, REQUEST_ROWS, "arrived_us", inputs, watermark_us, step)
        events = self._take_in(EVENTS, EVENT_ROWS, "us", inputs, watermark_us, step)
        pending = Pending(self._store)
        before = pending.count
        if requests.num_rows or events.num_rows or pending.first_deadline_us <= watermark_us:
            self._settle(pending, requests, events, watermark_us, step)
        step.pending = pending.count
        step.pending_change = step.pending - before
        step.next_us = self._next_us(pending)
        return step

    # -- what comes

    def _take_in(
        self,
        kind: str,
        schema: pa.Schema,
        time: str,
        inputs: dict[str, list[pa.Table]],
        watermark_us: int,
        step: Step,
    ) -> pa.Table:
        """Rows that the watermark has reached, out of those that are kept.

        New ones are kept until it does.
        """
        new = inputs.get(kind)
        if new:
            table = pa.concat_tables(new).combine_chunks()
            late = column(table, time) <= watermark_us
            if late.any():
                step.results.append(late_rows(kind, table.filter(pa.array(late)), "late"))
                table = table.filter(pa.array(~late))
            self._keep(kind, table.select(schema.names), time)
        reached = []
        for segment in [
            segment for segment in self._store.segments(kind) if segment["first_us"] <= watermark_us
        ]:
            table = self._store.read_segment(kind, segment)
            self._store.drop_segment(kind, segment)
            if segment["last_us"] > watermark_us:
                passed = pc.less_equal(table.column(time), watermark_us)
                self._keep(kind, table.filter(pc.invert(passed)), time)
                table = table.filter(passed)
            reached.append(table)
            self._require_fit(reached)
        return pa.concat_tables(reached).combine_chunks() if reached else schema.empty_table()

    def _keep(self, kind: str, table: pa.Table, time: str) -> None:
        if table.num_rows:
            span = pc.min_max(table.column(time)).as_py()
            self._store.add_segment(
                kind, known={"first_us": span["min"], "last_us": span["max"]}, rows=table
            )

    def _require_fit(self, tables: list[pa.Table]) -> None:
        size = _MEMORY_FACTOR * sum(table.nbytes for table in tables)
        if size > self._max_bytes:
            rows = sum(table.num_rows for table in tables)
            raise ShardTooLargeError(
                f"one shard has {rows:,} rows to look at together, which take about {size:,} bytes of memory, and may take "
                f"{self._max_bytes:,} bytes (max_shard_mb): use more shards, or, if a single "
                "host is that large and each request has one watch key, shards by key"
            )

    # -- what happened

    def _settle(
        self, pending: Pending, requests: pa.Table, events: pa.Table, watermark_us: int, step: Step
    ) -> None:
        requests = self._admit(requests, watermark_us, step)
        records = KeyRecords(self._store, self._remember_us)
        key = column(events, "key")
        new = Generation.of(requests)
        before, had_record = records.lookup(np.unique(np.concatenate([key, new.pairs.key])))
        run = EventRun(key, column(events, "us"), column(events, "amount"), before)
        step.results += pending.settle(new, run, watermark_us)
        records.put(run.after(), had_record[run.ends > run.starts], pending.watched, watermark_us)

    def _admit(self, requests: pa.Table, watermark_us: int, step: Step) -> pa.Table:
        """The requests in the order of their arrivals, without those whose id was taken by one that came before them, and whose
        deadline they came before."""
        if not requests.num_rows:
            return requests
        # Equal times in an order that does not depend on batches either.
        requests = requests.sort_by(
            [("arrived_us", "ascending"), ("request_id", "ascending"), ("deadline_us", "ascending")]
        )
        taken = TakenIds(self._store)
        ids, arrived, deadlines = (
            column(requests, name) for name in ("id", "arrived_us", "deadline_us")
        )
        until = taken.until_us(ids)
        repeated = arrived <= until
        _, inverse, count = np.unique(ids, return_inverse=True, return_counts=True)
        several = np.flatnonzero(count[inverse] > 1)
        if len(several):
            latest: dict[int, int] = {}
            for row in several.tolist():
                number = int(ids[row])
                last = latest.get(number, int(until[row]))
                repeated[row] = arrived[row] <= last
                latest[number] = last if repeated[row] else int(deadlines[row])
        if repeated.any():
            step.results.append(
                late_rows(REQUESTS, requests.filter(pa.array(repeated)), "repeated")
            )
            requests = requests.filter(pa.array(~repeated))
        taken.put(ids[~repeated], deadlines[~repeated], watermark_us)
        return requests.combine_chunks()

    # -- what comes next

    def _next_us(self, pending: Pending) -> int | None:
        moments: list[int] = [
            segment["first_us"]
            for kind in (REQUESTS, EVENTS)
            for segment in self._store.segments(kind)
        ]
        first = min([*moments, pending.first_deadline_us])
        return None if first == 2**63 - 1 else first
