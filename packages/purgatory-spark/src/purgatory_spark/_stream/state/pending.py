"""The pending requests of a shard: those that have arrived and not ended."""

from __future__ import annotations

import base64
import zlib
from functools import cached_property

import numpy as np
import pyarrow as pa

from purgatory_spark._outcomes.condition import NEVER
from purgatory_spark._rows.schema import COMPLETED, EXPIRED, IDENTITY
from purgatory_spark._spark.arrays import Bools, Ints
from purgatory_spark._stream.state.columns import find_sorted, numpy_column
from purgatory_spark._stream.state.compaction import segments_to_merge
from purgatory_spark._stream.state.keys import KeyedEvents
from purgatory_spark._stream.state.pairs import Pairs
from purgatory_spark._stream.state.rows import REQUEST_SCHEMA, RESULT_SCHEMA, result_rows
from purgatory_spark._stream.state.store import Segment, ShardStore

KIND = "pending"
#: A pending request: `left` is the number of keys that must still be satisfied.
PENDING_SCHEMA = pa.schema(
    [field for field in REQUEST_SCHEMA if field.name in (*IDENTITY, "arrived_us", "deadline_us")]
    + [pa.field("left", pa.int32())]
)
#: Later than every deadline.
NO_DEADLINE_US = 2**63 - 1

_NO_ROWS = np.array([], dtype=np.int64)


class Generation:
    """Requests that were accepted, or last changed, in the same step, and their unsatisfied pairs.

    A request that ends is not removed, only its bit in `alive` is cleared.
    """

    def __init__(self, requests: pa.Table, pairs: Pairs) -> None:
        self.requests = requests
        self.pairs = pairs
        self.alive: Bools = np.ones(requests.num_rows, dtype=bool)

    @staticmethod
    def empty() -> Generation:
        return Generation(PENDING_SCHEMA.empty_table(), Pairs.concat([]))

    @classmethod
    def from_requests(cls, requests: pa.Table) -> Generation:
        columns = {
            name: requests.column(name)
            for name in PENDING_SCHEMA.names
            if name in REQUEST_SCHEMA.names
        }
        columns["left"] = requests.column("needed")
        return cls(
            pa.table([columns[name] for name in PENDING_SCHEMA.names], schema=PENDING_SCHEMA),
            Pairs.from_requests(requests),
        )

    @classmethod
    def concat(cls, parts: list[Generation]) -> Generation:
        """Return the requests of all parts as one generation, its pairs sorted by need."""
        firsts = np.cumsum([0] + [part.requests.num_rows for part in parts])
        for part, first in zip(parts, firsts.tolist(), strict=False):
            part.pairs.request = part.pairs.request + np.int32(first)
        table = (
            pa.concat_tables([part.requests for part in parts])
            if parts
            else PENDING_SCHEMA.empty_table()
        )
        pairs = Pairs.concat([part.pairs for part in parts])
        return cls(table.combine_chunks(), pairs.sorted_by_need())

    def only_alive(self) -> Generation:
        if self.alive.all():
            return Generation(self.requests, self.pairs)
        return Generation(
            self.requests.filter(pa.array(self.alive)), self.pairs.of_requests(self.alive)
        )

    def first_deadline_us(self) -> int:
        """Return the earliest deadline of a pending request, of which there must be one."""
        return int(numpy_column(self.requests, "deadline_us")[self.alive].min())

    def settle(
        self, satisfied: Ints, times: Ints, watermark_us: int, *, new: bool = False
    ) -> tuple[pa.Table, Generation]:
        """End the requests that these pairs complete, or whose deadline the watermark has reached.

        A request completes when as many of its pairs are satisfied as it has `left`: with `left` of
        2, at the second of their times. It may complete at its deadline, but not later.

        Example: three requests arrived at 0 us. `a` waits for all of the keys x and y, `b` for any
        of them, `c` for z. The pairs (a, x) and (b, x) are satisfied at 30 us; the watermark is
        at 60 us.

        | request | deadline_us | left | met_us | result |
        |---|--:|--:|--:|---|
        | a | 100 | 2 - 1 = 1 | never | stays pending, with the pair (a, y) and left = 1 |
        | b | 100 | 1 - 1 = 0 | 30 | completed at 30 us |
        | c | 50 | 1 | never | expired at 50 us |

        `satisfied`: positions of satisfied pairs. `times`: when each was satisfied, in microseconds
        since the epoch. `new`: whether the requests arrive in this step; then those without keys
        are examined, too. Returns the outcomes (`rows.RESULT_SCHEMA`), and a generation of the
        requests that stay pending with fewer keys. Both are no longer alive in this generation.
        """
        is_alive = self.alive[self.pairs.request[satisfied]]
        satisfied, times = satisfied[is_alive], times[is_alive]
        request = self.pairs.request[satisfied]
        affected = self.alive & (numpy_column(self.requests, "deadline_us") <= watermark_us)
        if new:
            affected |= numpy_column(self.requests, "left") == 0
        affected[request] = True
        rows = np.flatnonzero(affected)
        if not len(rows):
            return RESULT_SCHEMA.empty_table(), Generation.empty()
        at = np.searchsorted(rows, request)
        needed, arrived_us, deadline_us = (
            numpy_column(self.requests, name)[rows]
            for name in ("left", "arrived_us", "deadline_us")
        )
        counts = np.bincount(at, minlength=len(rows))
        left = (needed - counts).astype(np.int32)
        # What is needed of no keys is met at the arrival.
        met_us = np.where(needed == 0, arrived_us, NEVER)
        is_met = (needed > 0) & (left <= 0)
        in_order = times[np.lexsort((times, at))]
        met_us[is_met] = in_order[(np.cumsum(counts) - counts + needed - 1)[is_met]]

        completed = met_us <= deadline_us
        ended = completed | (deadline_us <= watermark_us)
        outcomes = _outcomes(
            self._take(rows[ended]),
            np.where(completed, met_us, deadline_us)[ended],
            completed[ended],
        )
        self.alive[rows] = False
        if ended.all():
            return outcomes, Generation.empty()
        field = PENDING_SCHEMA.get_field_index("left")
        changed = self._take(rows[~ended])
        changed = changed.set_column(field, PENDING_SCHEMA.field(field), pa.array(left[~ended]))
        return outcomes, Generation(changed, self._unsatisfied_pairs(rows[~ended], satisfied))

    def _take(self, rows: Ints) -> pa.Table:
        return self.requests.take(pa.array(rows)).combine_chunks()

    def _unsatisfied_pairs(self, rows: Ints, satisfied: Ints) -> Pairs:
        is_open = np.ones(len(self.pairs), dtype=bool)
        is_open[satisfied] = False
        chosen = np.zeros(len(self.alive), dtype=bool)
        chosen[rows] = True
        return self.pairs.take(is_open).of_requests(chosen)


class StoredGeneration(Generation):
    """A generation in the shard's store, of which only the tables that are used are read."""

    def __init__(self, store: ShardStore, segment: Segment) -> None:
        self._store = store
        self.segment = segment

    @cached_property
    def requests(self) -> pa.Table:
        return self._store.read_segment(KIND, self.segment)

    @cached_property
    def pairs(self) -> Pairs:  # type: ignore[override]
        """The pairs, sorted by need."""
        return Pairs.from_table(self._store.read_segment(KIND, self.segment, "pairs"))

    @cached_property
    def alive(self) -> Bools:  # type: ignore[override]
        count = self.segment["stored"]
        if not self.segment["alive"]:
            return np.ones(count, dtype=bool)
        bits = np.frombuffer(
            zlib.decompress(base64.b64decode(self.segment["alive"])), dtype=np.uint8
        )
        return np.unpackbits(bits, count=count).astype(bool)

    def save_alive(self) -> None:
        """Write `alive` and what follows from it into the segment's entry."""
        self.segment["alive"] = base64.b64encode(
            zlib.compress(np.packbits(self.alive).tobytes(), 1)
        ).decode("ascii")
        self.segment["rows"] = int(self.alive.sum())
        self.segment["deadline_us"] = self.first_deadline_us()


class PendingRequests:
    """All pending requests of a shard, in generations.

    A step reads only the generations that its events or its watermark may change, and writes few.
    """

    def __init__(self, store: ShardStore) -> None:
        self._store = store
        self._generations = [StoredGeneration(store, segment) for segment in store.segments(KIND)]

    @property
    def count(self) -> int:
        return sum(segment["rows"] for segment in self._store.segments(KIND))

    @property
    def first_deadline_us(self) -> int:
        """The earliest deadline; NO_DEADLINE_US if nothing is pending."""
        return min(
            (segment["deadline_us"] for segment in self._store.segments(KIND)),
            default=NO_DEADLINE_US,
        )

    def watched(self, keys: Ints) -> Bools:
        """Return which of some keys are watched by a pending request.

        A key is also included if the only requests that watch it have ended, as long as their
        generation is stored.
        """
        found = np.zeros(len(keys), dtype=bool)
        for segment in self._store.segments(KIND):
            ordered = numpy_column(self._store.read_segment(KIND, segment, "pairs"), "key")
            found |= find_sorted(ordered, keys)[1]
        return found

    def settle(self, new: Generation, events: KeyedEvents, watermark_us: int) -> list[pa.Table]:
        """Add new requests, and end all requests that the events or the watermark end."""
        outcomes, remainders = [], []
        if new.requests.num_rows:
            times = new.pairs.find_satisfied_new(events, numpy_column(new.requests, "arrived_us"))
            satisfied = np.flatnonzero(times != NEVER)
            ended, fewer_keys = new.settle(satisfied, times[satisfied], watermark_us, new=True)
            outcomes.append(ended)
            remainders += [new.only_alive(), fewer_keys]
        for generation in self._generations:
            satisfied, times = (
                generation.pairs.find_satisfied(events) if len(events.us) else (_NO_ROWS, _NO_ROWS)
            )
            if len(satisfied) or generation.segment["deadline_us"] <= watermark_us:
                ended, fewer_keys = generation.settle(satisfied, times, watermark_us)
                outcomes.append(ended)
                remainders += [fewer_keys, self._save_or_dissolve(generation)]
        self._add_generation([part for part in remainders if part.requests.num_rows])
        return [table for table in outcomes if table.num_rows]

    def _save_or_dissolve(self, generation: StoredGeneration) -> Generation:
        """Save which requests are alive, or drop a generation of which fewer than half are.

        Returns the requests that are still alive in a dropped generation; otherwise none.
        """
        count = int(generation.alive.sum())
        if 2 * count >= len(generation.alive):
            generation.save_alive()
            return Generation.empty()
        remainder = generation.only_alive() if count else Generation.empty()
        self._store.drop_segment(KIND, generation.segment)
        return remainder

    def _add_generation(self, parts: list[Generation]) -> None:
        """Store the requests of all parts as one generation, merged with stored ones if due."""
        rows = sum(part.requests.num_rows for part in parts)
        if not rows:
            return
        for segment in segments_to_merge(self._store.segments(KIND), rows):
            parts.append(StoredGeneration(self._store, segment).only_alive())
            self._store.drop_segment(KIND, segment)
        merged = Generation.concat(parts)
        metadata = {
            "stored": merged.requests.num_rows,
            "deadline_us": merged.first_deadline_us(),
            "alive": None,
        }
        self._store.add_segment(
            KIND, metadata=metadata, rows=merged.requests, pairs=merged.pairs.to_table()
        )


def _outcomes(requests: pa.Table, ended_us: Ints, completed: Bools) -> pa.Table:
    """Return the outcomes of requests that ended at these microseconds, of `RESULT_SCHEMA`."""
    if not requests.num_rows:
        return RESULT_SCHEMA.empty_table()
    arrived_us = numpy_column(requests, "arrived_us")
    timestamp = pa.timestamp("us", tz="UTC")
    return result_rows(
        kind="outcomes",
        **{name: requests.column(name) for name in IDENTITY},
        arrived_at=pa.array(arrived_us, timestamp),
        ended_at=pa.array(ended_us, timestamp),
        outcome=pa.array([EXPIRED, COMPLETED]).take(pa.array(completed.astype(np.int64))),
        waited_ms=pa.array((ended_us - arrived_us) / 1000),
    )
