"""The requests of a shard that wait."""

from __future__ import annotations

import base64
import zlib
from functools import cached_property

import numpy as np
import pyarrow as pa

from request_purgatory.pipeline.outcomes.condition import NEVER, Bools, Ints
from request_purgatory.pipeline.stream.state.columns import column, find
from request_purgatory.pipeline.stream.state.compaction import absorbed
from request_purgatory.pipeline.stream.state.keys import EventRun
from request_purgatory.pipeline.stream.state.pairs import Pairs, Rows
from request_purgatory.pipeline.stream.state.rows import REQUEST_ROWS, RESULT_ROWS, results
from request_purgatory.pipeline.stream.state.store import Segment, ShardStore
from request_purgatory.pipeline.traces.schema import COMPLETED, EXPIRED

KIND = "pending"
#: A request that waits: `left` counts the keys it still waits for, `latest_us` is when the last of
#: the others was satisfied.
PENDING = pa.schema(
    [field for field in REQUEST_ROWS if field.name not in ("id", "keys", "aggregate", "threshold")]
    + [pa.field("left", pa.int32()), pa.field("latest_us", pa.int64())]
)


class Generation:
    """Requests that were accepted, or looked at last, together.

    A row that has ended is only marked so.

    Attributes:
        alive: which of the requests wait.
    """

    def __init__(self, requests: pa.Table, pairs: Pairs) -> None:
        self.requests = requests
        self.pairs = pairs
        self.alive: Bools = np.ones(requests.num_rows, dtype=bool)

    @classmethod
    def of(cls, requests: pa.Table) -> Generation:
        """New requests (`REQUEST_ROWS`)."""
        columns = {
            name: requests.column(name) for name in PENDING.names if name in REQUEST_ROWS.names
        }
        columns["left"] = pa.compute.list_value_length(requests.column("keys")).cast(pa.int32())
        columns["latest_us"] = requests.column("arrived_us")
        return cls(
            pa.table([columns[name] for name in PENDING.names], schema=PENDING),
            Pairs.of_requests(requests),
        )

    @classmethod
    def joined(cls, parts: list[Generation]) -> Generation:
        """The rows of some generations in one."""
        firsts = np.cumsum([0] + [part.requests.num_rows for part in parts])
        for part, first in zip(parts, firsts.tolist(), strict=False):
            part.pairs.request = part.pairs.request + np.int32(first)
        table = (
            pa.concat_tables([part.requests for part in parts]) if parts else PENDING.empty_table()
        )
        return cls(table.combine_chunks(), Pairs.joined([part.pairs for part in parts]).ordered())

    def rest(self) -> Generation:
        """The requests that wait."""
        if self.alive.all():
            return Generation(self.requests, self.pairs)
        return Generation(
            self.requests.filter(pa.array(self.alive)), self.pairs.of_some(self.alive)
        )

    def first_deadline_us(self) -> int:
        """The first one of a request that waits."""
        return int(column(self.requests, "deadline_us")[self.alive].min())

    def settle(
        self, satisfied: Ints, times: Ints, watermark_us: int, *, new: bool = False
    ) -> tuple[pa.Table, Generation]:
        """End what is completed by its pairs, or expired once the watermark is reached.

        Args:
            satisfied, times: some of the pairs, and when they were satisfied.
            new: whether these requests are looked at for the first time.

        Returns:
            The outcomes (`RESULT_ROWS`), and the requests that wait for fewer keys than before,
            which are not here any longer.
        """
        waiting = self.alive[self.pairs.request[satisfied]]
        satisfied, times = satisfied[waiting], times[waiting]
        request = self.pairs.request[satisfied]
        due = self.alive & (column(self.requests, "deadline_us") <= watermark_us)
        if new:
            due |= column(self.requests, "left") == 0
        due[request] = True
        rows = np.flatnonzero(due)
        if not len(rows):
            return RESULT_ROWS.empty_table(), Generation(PENDING.empty_table(), Pairs.joined([]))
        chosen = self.requests.take(pa.array(rows)).combine_chunks()
        at = np.searchsorted(rows, request)
        left = (column(chosen, "left") - np.bincount(at, minlength=len(rows))).astype(np.int32)
        latest = column(chosen, "latest_us").copy()
        np.maximum.at(latest, at, times)
        first = np.full(len(rows), NEVER)
        np.minimum.at(first, at, times)
        ended_at = np.where(column(chosen, "every"), np.where(left == 0, latest, NEVER), first)

        deadline = column(chosen, "deadline_us")
        completed = ended_at <= deadline
        ended = completed | (deadline <= watermark_us)
        outcomes = _outcomes(
            chosen.filter(pa.array(ended)),
            np.where(completed, ended_at, deadline)[ended],
            completed[ended],
        )
        self.alive[rows] = False
        return outcomes, self._fewer_keys(chosen, rows, ~ended, left, latest, satisfied)

    def _fewer_keys(
        self, chosen: pa.Table, rows: Ints, stays: Bools, left: Rows, latest: Ints, satisfied: Ints
    ) -> Generation:
        if not stays.any():
            return Generation(PENDING.empty_table(), Pairs.joined([]))
        for name, values in (("left", left), ("latest_us", latest)):
            field = PENDING.field(name)
            chosen = chosen.set_column(
                PENDING.get_field_index(name), field, pa.array(values, field.type)
            )
        moved = np.zeros(len(self.alive), dtype=bool)
        moved[rows[stays]] = True
        waits = np.ones(len(self.pairs), dtype=bool)
        waits[satisfied] = False
        return Generation(chosen.filter(pa.array(stays)), self.pairs.where(waits).of_some(moved))


class KeptGeneration(Generation):
    """A generation in the shard's store: what is not needed is not read."""

    def __init__(self, store: ShardStore, segment: Segment) -> None:
        self._store = store
        self.segment = segment

    @cached_property
    def requests(self) -> pa.Table:
        """Of `PENDING`."""
        return self._store.read_segment(KIND, self.segment)

    @cached_property
    def pairs(self) -> Pairs:  # type: ignore[override]
        """In order."""
        return Pairs.of(self._store.read_segment(KIND, self.segment, "pairs"))

    @cached_property
    def alive(self) -> Bools:  # type: ignore[override]
        """Which of the requests wait."""
        count = self.segment["stored"]
        if not self.segment["alive"]:
            return np.ones(count, dtype=bool)
        bits = np.frombuffer(
            zlib.decompress(base64.b64decode(self.segment["alive"])), dtype=np.uint8
        )
        return np.unpackbits(bits, count=count).astype(bool)

    def note(self) -> None:
        """What has ended, in what is known of the segment."""
        self.segment["alive"] = base64.b64encode(
            zlib.compress(np.packbits(self.alive).tobytes(), 1)
        ).decode("ascii")
        self.segment["rows"] = int(self.alive.sum())
        self.segment["deadline_us"] = self.first_deadline_us()


class Pending:
    """All requests of a shard that wait.

    Generations, of which a step reads what it needs, and writes few.
    """

    def __init__(self, store: ShardStore) -> None:
        self._store = store
        self._generations = [KeptGeneration(store, segment) for segment in store.segments(KIND)]

    @property
    def count(self) -> int:
        """How many wait."""
        return sum(segment["rows"] for segment in self._store.segments(KIND))

    @property
    def first_deadline_us(self) -> int:
        """Nothing expires before; 2**63 - 1 if nothing waits."""
        return min(
            (segment["deadline_us"] for segment in self._store.segments(KIND)), default=2**63 - 1
        )

    def watched(self, keys: Ints) -> Bools:
        """Which of some keys requests wait for; also some that they have waited for."""
        found = np.zeros(len(keys), dtype=bool)
        for segment in self._store.segments(KIND):
            ordered = column(self._store.read_segment(KIND, segment, "pairs"), "key")
            found |= find(ordered, keys)[1]
        return found

    def settle(self, new: Generation, run: EventRun, watermark_us: int) -> list[pa.Table]:
        """Take new requests in, and end all that the events of `run` or the watermark end.

        Their outcomes.
        """
        outcomes, young = [], []
        if new.requests.num_rows:
            times = new.pairs.arrive(run, column(new.requests, "arrived_us"))
            satisfied = np.flatnonzero(times != NEVER)
            told, fewer_keys = new.settle(satisfied, times[satisfied], watermark_us, new=True)
            outcomes.append(told)
            young += [new.rest(), fewer_keys]
        for generation in self._generations:
            satisfied, times = generation.pairs.satisfied(run) if len(run.us) else (_NONE, _NONE)
            if len(satisfied) or generation.segment["deadline_us"] <= watermark_us:
                told, fewer_keys = generation.settle(satisfied, times, watermark_us)
                outcomes.append(told)
                young.append(fewer_keys)
                self._keep(generation, young)
        self._add([part for part in young if part.requests.num_rows])
        return [table for table in outcomes if table.num_rows]

    def _keep(self, generation: KeptGeneration, young: list[Generation]) -> None:
        """With what has ended marked so.

        A generation of which less than half waits goes into the youngest one.
        """
        count = int(generation.alive.sum())
        if 2 * count >= len(generation.alive):
            generation.note()
            return
        if count:
            young.append(generation.rest())
        self._store.drop_segment(KIND, generation.segment)

    def _add(self, young: list[Generation]) -> None:
        rows = sum(part.requests.num_rows for part in young)
        if not rows:
            return
        for segment in absorbed(self._store.segments(KIND), rows):
            young.append(KeptGeneration(self._store, segment).rest())
            self._store.drop_segment(KIND, segment)
        joined = Generation.joined(young)
        known = {
            "stored": joined.requests.num_rows,
            "deadline_us": joined.first_deadline_us(),
            "alive": None,
        }
        self._store.add_segment(KIND, known=known, rows=joined.requests, pairs=joined.pairs.table())


_NONE = np.array([], dtype=np.int64)


def _outcomes(requests: pa.Table, ended_at: Ints, completed: Bools) -> pa.Table:
    if not requests.num_rows:
        return RESULT_ROWS.empty_table()
    arrived = column(requests, "arrived_us")
    moment = pa.timestamp("us", tz="UTC")
    return results(
        kind="outcomes",
        host=requests.column("host"),
        request_id=requests.column("request_id"),
        request_type=requests.column("request_type"),
        arrived_at=pa.array(arrived, moment),
        ended_at=pa.array(ended_at, moment),
        outcome=pa.array([EXPIRED, COMPLETED]).take(pa.array(completed.astype(np.int64))),
        waited_ms=pa.array((ended_at - arrived) / 1000),
    )
