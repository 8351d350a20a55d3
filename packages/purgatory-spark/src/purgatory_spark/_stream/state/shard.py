"""One shard of a stream: the requests and events of some hosts or keys.

A shard stores rows until the watermark reaches them, and decides nothing earlier. Once the
watermark has passed a moment, everything that happened up to it is known, and is processed in order
of time. So the outcomes equal those of the batch job, and depend neither on the order of the rows
nor on micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._rows.repeats import order_of_requests, repeated_in_order, tie_numbers
from purgatory_spark._stream.state.columns import numpy_column
from purgatory_spark._stream.state.key_history import KeyHistory
from purgatory_spark._stream.state.keys import KeyedEvents
from purgatory_spark._stream.state.pending import NO_DEADLINE_US, Generation, PendingRequests
from purgatory_spark._stream.state.request_ids import RequestIds
from purgatory_spark._stream.state.rows import (
    EVENT_SCHEMA,
    EVENTS,
    REJECTS,
    REQUEST_SCHEMA,
    REQUESTS,
    late_rows,
    original_requests,
    result_rows,
)
from purgatory_spark._stream.state.store import ShardStore

#: The columns that are stored of rows that the watermark has not reached, and that of their time.
_AHEAD = {REQUESTS: (REQUEST_SCHEMA, "arrived_us"), EVENTS: (EVENT_SCHEMA, "us")}

#: Before every time.
NO_WATERMARK_US = -(2**62)

#: Bytes that a Python worker takes for each byte of the rows of one step, including everything that
#: is computed from them; measured as 15 with 100,000 to 400,000 requests and as many events.
_MEMORY_FACTOR = 16


class ShardTooLargeError(MemoryError):
    """The rows of one step of a shard do not fit the memory that a worker may use."""


@dataclass
class StepResult:
    """The result of one step of a shard.

    `next_due_us` is the event time at which the shard must be stepped again even without further
    rows, in microseconds since the epoch; None if never.
    """

    tables: list[pa.Table] = field(default_factory=list)
    next_due_us: int | None = None
    pending: int = 0
    pending_change: int = 0


class Shard:
    """The rules that advance a shard's stored state by rows and a watermark."""

    def __init__(self, store: ShardStore, *, key_retention_us: int, max_bytes: int) -> None:
        self._store = store
        self._key_retention_us = key_retention_us
        self._max_bytes = max_bytes

    def step(self, inputs: dict[str, list[pa.Table]], watermark_us: int) -> StepResult:
        """Add rows, and process everything that happened up to the watermark."""
        result = StepResult()
        self._require_memory([table for tables in inputs.values() for table in tables])
        for table in inputs.get(REJECTS, ()):
            result.tables.append(
                result_rows(kind="late", reason=table.column("reason"), row=table.column("row"))
            )
        reached = []
        for kind in _AHEAD:
            self._add_rows(kind, inputs.get(kind, []), watermark_us, result)
            reached.append(self._take_reached(kind, watermark_us))
        requests, events = reached
        pending = PendingRequests(self._store)
        before = pending.count
        if requests.num_rows or events.num_rows or pending.first_deadline_us <= watermark_us:
            self._settle(pending, requests, events, watermark_us, result)
        result.pending = pending.count
        result.pending_change = result.pending - before
        result.next_due_us = self._next_due_us(pending)
        return result

    # -- rows that the watermark has not reached

    def _add_rows(
        self, kind: str, new: list[pa.Table], watermark_us: int, result: StepResult
    ) -> None:
        """Store the new rows of a kind; those that are late become results."""
        if not new:
            return
        schema, time = _AHEAD[kind]
        table = pa.concat_tables(new).combine_chunks()
        late = numpy_column(table, time) <= watermark_us
        if late.any():
            result.tables.append(late_rows(kind, table.filter(pa.array(late)), "late"))
            table = table.filter(pa.array(~late))
        self._store_rows(kind, table.select(schema.names))

    def _take_reached(self, kind: str, watermark_us: int) -> pa.Table:
        """Return the stored rows that the watermark has reached, and remove them from the store."""
        schema, time = _AHEAD[kind]
        reached = []
        for segment in [
            segment for segment in self._store.segments(kind) if segment["first_us"] <= watermark_us
        ]:
            table = self._store.read_segment(kind, segment)
            self._store.drop_segment(kind, segment)
            if segment["last_us"] > watermark_us:
                passed = pc.less_equal(table.column(time), watermark_us)
                self._store_rows(kind, table.filter(pc.invert(passed)))
                table = table.filter(passed)
            reached.append(table)
            self._require_memory(reached)
        return pa.concat_tables(reached).combine_chunks() if reached else schema.empty_table()

    def _store_rows(self, kind: str, table: pa.Table) -> None:
        if table.num_rows:
            _, time = _AHEAD[kind]
            span = pc.min_max(table.column(time)).as_py()
            self._store.add_segment(
                kind, metadata={"first_us": span["min"], "last_us": span["max"]}, rows=table
            )

    def _require_memory(self, tables: list[pa.Table]) -> None:
        size = _MEMORY_FACTOR * sum(table.nbytes for table in tables)
        if size > self._max_bytes:
            rows = sum(table.num_rows for table in tables)
            raise ShardTooLargeError(
                f"a shard has {rows:,} rows to process at once, which need about {size:,} bytes of "
                f"memory, more than the {self._max_bytes:,} bytes of max_shard_mb: use more "
                "shards, or, if a single host is that large and each request has one watch key, "
                "route by key"
            )

    # -- rows that the watermark has reached

    def _settle(
        self,
        pending: PendingRequests,
        requests: pa.Table,
        events: pa.Table,
        watermark_us: int,
        result: StepResult,
    ) -> None:
        requests = self._accept(requests, watermark_us, result)
        history = KeyHistory(self._store, self._key_retention_us)
        key = numpy_column(events, "key")
        new = Generation.from_requests(requests)
        initial, stored = history.lookup(np.unique(np.concatenate([key, new.pairs.key])))
        keyed = KeyedEvents(
            key, numpy_column(events, "us"), numpy_column(events, "amount"), initial
        )
        result.tables += pending.settle(new, keyed, watermark_us)
        history.update(
            keyed.final(), stored[keyed.ends > keyed.starts], pending.watched, watermark_us
        )

    def _accept(self, requests: pa.Table, watermark_us: int, result: StepResult) -> pa.Table:
        """Return arriving requests in order of arrival, without those whose id is still reserved.

        An id is reserved from the arrival of a request to its deadline. The refused requests are
        results.
        """
        if not requests.num_rows:
            return requests
        ids, arrived_us, deadline_us = (
            numpy_column(requests, name) for name in ("id", "arrived_us", "deadline_us")
        )
        order = order_of_requests(
            ids,
            arrived_us,
            deadline_us,
            lambda rows: tie_numbers(original_requests(requests.take(pa.array(rows)))),
        )
        requests = requests.take(pa.array(order))
        ids, arrived_us, deadline_us = ids[order], arrived_us[order], deadline_us[order]
        reserved = RequestIds(self._store)
        repeated = repeated_in_order(ids, arrived_us, deadline_us, reserved.reserved_until_us(ids))
        if repeated.any():
            result.tables.append(
                late_rows(REQUESTS, requests.filter(pa.array(repeated)), "repeated")
            )
            requests = requests.filter(pa.array(~repeated))
        reserved.reserve(ids[~repeated], deadline_us[~repeated], watermark_us)
        return requests.combine_chunks()

    def _next_due_us(self, pending: PendingRequests) -> int | None:
        """Return the time of the earliest stored row or deadline; None without any."""
        times: list[int] = [
            segment["first_us"] for kind in _AHEAD for segment in self._store.segments(kind)
        ]
        first = min([*times, pending.first_deadline_us])
        return None if first == NO_DEADLINE_US else first
