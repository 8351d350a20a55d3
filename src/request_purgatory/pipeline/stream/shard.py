"""One shard of a stream: the requests and events of some hosts or keys, taken in as they come and settled as the watermark moves.

Nothing is decided before the watermark has passed it: then all that happened up to that moment is known, and it is worked
through in the order of its times, whatever the order in which it came and the batches it came in. That is why the outcomes do not
depend on micro-batches, and are those of the batch job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from request_purgatory.pipeline.condition import Ints
from request_purgatory.pipeline.stream.keys import IDLE_KEYS, WATCHED_KEYS, EventRun, KeyTable, find
from request_purgatory.pipeline.stream.pending import PAIRS, PENDING, Pairs, settle
from request_purgatory.pipeline.stream.rows import (
    EVENT_ROWS,
    EVENTS,
    REJECTS,
    REQUEST_ROWS,
    REQUESTS,
    late_rows,
    results,
)
from request_purgatory.pipeline.stream.store import ShardStore

_IDLE = "idle"
_ENDED = "ended"
#: So many segments of idle keys, or of ended ids, are made into one.
_MOST_SEGMENTS = 16
#: The ids of requests that ended before their deadline, which is `until_us`: not to be used again before.
ENDED_IDS = pa.schema({"id": pa.int64(), "until_us": pa.int64()})
_SUM = 1  # `sum` in `schema.AGGREGATES`; `max` is above it


#: Before every time.
NO_WATERMARK_US = -(2**62)


class ShardTooLargeError(MemoryError):
    """A shard's rows do not fit the memory that a worker may use."""


@dataclass
class Step:
    """What one step of a shard gave.

    Attributes:
        results: tables of `rows.RESULT_ROWS`.
        next_us: when, in event time, there is something to do without further rows; None if never.
        pending: requests that have arrived and not ended.
    """

    results: list[pa.Table] = field(default_factory=list)
    next_us: int | None = None
    pending: int = 0


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
        for table in inputs.get(REJECTS, ()):
            step.results.append(results(kind="late", reason=table.column("reason"), row=table.column("row")))
        requests = self._take_in(REQUESTS, REQUEST_ROWS, "arrived_us", inputs, watermark_us, step)
        events = self._take_in(EVENTS, EVENT_ROWS, "us", inputs, watermark_us, step)
        if requests.num_rows or events.num_rows or self._first_deadline() <= watermark_us:
            self._settle(requests, events, watermark_us, step)
        step.pending = self._store.head.get("pending", 0)
        step.next_us = self._next_us()
        return step

    # -- what comes

    def _take_in(
        self, kind: str, schema: pa.Schema, time: str, inputs: dict[str, list[pa.Table]], watermark_us: int, step: Step
    ) -> pa.Table:
        """Rows that the watermark has reached, out of those that are kept; new ones are kept until it does."""
        new = inputs.get(kind)
        if new:
            table = pa.concat_tables(new).combine_chunks()
            late = np.asarray(table.column(time).to_numpy()) <= watermark_us
            if late.any():
                step.results.append(late_rows(kind, table.filter(pa.array(late)), "late"))
                table = table.filter(pa.array(~late))
            self._keep(kind, table.select(schema.names), time)
        due = [segment for segment in list(self._store.segments(kind)) if segment["first_us"] <= watermark_us]
        reached = []
        for segment in due:
            table = self._store.take_segment(kind, segment)
            if segment["last_us"] > watermark_us:
                passed = pc.less_equal(table.column(time), watermark_us)
                self._keep(kind, table.filter(pc.invert(passed)), time)
                table = table.filter(passed)
            reached.append(table)
        return pa.concat_tables(reached).combine_chunks() if reached else schema.empty_table()

    def _keep(self, kind: str, table: pa.Table, time: str) -> None:
        if table.num_rows:
            span = pc.min_max(table.column(time)).as_py()
            self._store.add_segment(kind, table, first_us=span["min"], last_us=span["max"])

    def _require_fit(self, *tables: pa.Table) -> None:
        size = sum(table.nbytes for table in tables)
        if size > self._max_bytes:
            rows = sum(table.num_rows for table in tables)
            raise ShardTooLargeError(
                f"one shard has {rows:,} rows of {size:,} bytes to look at together, and may have {self._max_bytes:,} bytes: "
                "use more shards, or, if a single host is that large and each request has one watch key, shards by key"
            )

    # -- what happened

    def _settle(self, requests: pa.Table, events: pa.Table, watermark_us: int, step: Step) -> None:
        store = self._store
        waiting = store.table("pending", PENDING)
        self._require_fit(requests, events, waiting)
        pairs = Pairs.of(store.table("pairs", PAIRS))
        watched = KeyTable.of(store.table("keys", WATCHED_KEYS))
        requests = self._admit(requests, waiting, watermark_us, step)
        fresh = Pairs.of_requests(requests, waiting.num_rows)
        arrived = np.asarray(requests.column("arrived_us").to_numpy())

        key = np.asarray(events.column("key").to_numpy())
        before = KeyTable.unknown(np.unique(np.concatenate([key, fresh.key, watched.key])))
        before.put(watched)
        self._recall(before, watched, fresh)
        run = EventRun(key, np.asarray(events.column("us").to_numpy()), np.asarray(events.column("amount").to_numpy()), before)

        times = np.concatenate(
            [pairs.satisfied_us(run, None), fresh.satisfied_us(run, arrived[fresh.request - waiting.num_rows])]
        )
        everyone = pa.concat_tables([waiting, _pending(requests)]).combine_chunks()
        outcomes, waiting, pairs = settle(everyone, pairs.plus(fresh), times, watermark_us)
        if outcomes.num_rows:
            step.results.append(outcomes)
            self._note_ended(everyone, waiting, watermark_us)

        store.put_table("pending", waiting)
        store.put_table("pairs", pairs.table())
        self._put_keys(run.after(), np.unique(pairs.key), watched, key, watermark_us)
        store.head["pending"] = waiting.num_rows
        store.head["deadline_us"] = pc.min(waiting.column("deadline_us")).as_py() if waiting.num_rows else None

    def _admit(self, requests: pa.Table, waiting: pa.Table, watermark_us: int, step: Step) -> pa.Table:
        """The requests in the order of their arrivals, without those whose id was taken by one that came before them, and whose
        deadline they came before."""
        ended = self._ended_ids(watermark_us)
        if not requests.num_rows:
            return requests
        # Equal times in an order that does not depend on batches either.
        requests = requests.sort_by([("arrived_us", "ascending"), ("request_id", "ascending"), ("deadline_us", "ascending")])
        ids = np.asarray(requests.column("id").to_numpy())
        taken = np.concatenate([np.asarray(table.column("id").to_numpy()) for table in (waiting, ended)])
        _, inverse, count = np.unique(ids, return_inverse=True, return_counts=True)
        doubtful = np.flatnonzero((count[inverse] > 1) | np.isin(ids, taken))
        if not len(doubtful):
            return requests.combine_chunks()
        until: dict[int, int] = {}
        for table, column in ((waiting, "deadline_us"), (ended, "until_us")):
            at = np.isin(np.asarray(table.column("id").to_numpy()), ids[doubtful])
            chosen = table.filter(pa.array(at))
            for number, deadline in zip(chosen.column("id").to_pylist(), chosen.column(column).to_pylist(), strict=True):
                until[number] = max(deadline, until.get(number, deadline))
        arrived, deadlines = requests.column("arrived_us").to_numpy(), requests.column("deadline_us").to_numpy()
        repeated = np.zeros(len(ids), dtype=bool)
        for row in doubtful.tolist():
            number = int(ids[row])
            repeated[row] = arrived[row] <= until.get(number, NO_WATERMARK_US)
            if not repeated[row]:
                until[number] = int(deadlines[row])
        if repeated.any():
            step.results.append(late_rows(REQUESTS, requests.filter(pa.array(repeated)), "repeated"))
        return requests.filter(pa.array(~repeated)).combine_chunks()

    def _ended_ids(self, watermark_us: int) -> pa.Table:
        """Ids of ended requests that are not to be used again yet; what the watermark has passed is looked at once more."""
        tables = [self._store.read_segment(_ENDED, segment) for segment in self._store.segments(_ENDED)]
        ids = pa.concat_tables(tables).combine_chunks() if tables else ENDED_IDS.empty_table()
        for segment in list(self._store.segments(_ENDED)):
            if segment["until_us"] <= watermark_us:
                self._store.drop_segment(_ENDED, segment)
        return ids

    def _note_ended(self, everyone: pa.Table, waiting: pa.Table, watermark_us: int) -> None:
        ids, until = (np.asarray(everyone.column(name).to_numpy()) for name in ("id", "deadline_us"))
        early = (until > watermark_us) & ~np.isin(ids, np.asarray(waiting.column("id").to_numpy()))
        ended = pa.table([ids[early], until[early]], schema=ENDED_IDS)
        if len(self._store.segments(_ENDED)) >= _MOST_SEGMENTS:
            kept = [self._store.take_segment(_ENDED, segment) for segment in list(self._store.segments(_ENDED))]
            ended = pa.concat_tables([*kept, ended])
            ended = ended.filter(pc.greater(ended.column("until_us"), watermark_us))
        if ended.num_rows:
            self._store.add_segment(_ENDED, ended, until_us=pc.max(ended.column("until_us")).as_py())

    # -- keys

    def _recall(self, keys: KeyTable, watched: KeyTable, fresh: Pairs) -> None:
        """Fill in what is known of keys that were not watched and are now, where it matters."""
        asked = np.unique(fresh.key[fresh.aggregate >= _SUM])
        at, known = find(watched.key, asked)
        known[known] = watched.recalled[at[known]] > 0
        asked = asked[~known]
        if not len(asked):
            return
        at, _ = find(keys.key, asked)
        keys.recalled[at] = 1
        for segment in self._store.segments(_IDLE):
            idle = self._store.read_segment(_IDLE, segment)
            _, wanted = find(asked, np.asarray(idle.column("key").to_numpy()))
            keys.add_idle(idle.filter(pa.array(wanted)))

    def _put_keys(self, after: KeyTable, kept: Ints, watched: KeyTable, touched: Ints, watermark_us: int) -> None:
        """Keep the keys that are watched; put those away that had events, or were watched, and are not any longer."""
        _, stays = find(kept, after.key)
        self._store.put_table("keys", after.where(stays).table())
        if not self._remember_us:
            return
        _, was_watched = find(watched.key, after.key)
        _, had_events = find(np.unique(touched), after.key)
        gone = after.where(~stays & (was_watched | had_events))
        forget_us = watermark_us - self._remember_us
        gone = gone.where(gone.last_us > forget_us)
        for segment in list(self._store.segments(_IDLE)):
            if segment["last_us"] <= forget_us:
                self._store.drop_segment(_IDLE, segment)
        if len(gone.key):
            self._store.add_segment(_IDLE, gone.idle(), last_us=int(gone.last_us.max()))
        if len(self._store.segments(_IDLE)) >= _MOST_SEGMENTS:
            self._merge_idle(forget_us)

    def _merge_idle(self, forget_us: int) -> None:
        segments = list(self._store.segments(_IDLE))
        rows = pa.concat_tables([self._store.take_segment(_IDLE, segment) for segment in segments])
        merged = rows.group_by("key").aggregate([("total", "sum"), ("high", "max"), ("last_us", "max")])
        merged = merged.select(["key", "total_sum", "high_max", "last_us_max"]).rename_columns(IDLE_KEYS.names).cast(IDLE_KEYS)
        merged = merged.filter(pc.greater(merged.column("last_us"), forget_us))
        if merged.num_rows:
            self._store.add_segment(_IDLE, merged, last_us=pc.max(merged.column("last_us")).as_py())

    # -- what comes next

    def _first_deadline(self) -> int:
        deadline: int | None = self._store.head.get("deadline_us")
        return 2**63 - 1 if deadline is None else deadline

    def _next_us(self) -> int | None:
        moments: list[int] = [segment["first_us"] for kind in (REQUESTS, EVENTS) for segment in self._store.segments(kind)]
        moments.append(self._first_deadline())
        first = min(moments)
        return None if first == 2**63 - 1 else first


def _pending(requests: pa.Table) -> pa.Table:
    keys = pc.list_value_length(requests.column("keys"))
    columns: dict[str, Any] = {name: requests.column(name) for name in PENDING.names if name in REQUEST_ROWS.names}
    columns["left"] = keys.cast(pa.int32())
    columns["latest_us"] = requests.column("arrived_us")
    return pa.table([columns[name] for name in PENDING.names], schema=PENDING)
