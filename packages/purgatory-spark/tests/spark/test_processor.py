"""The stateful processor between Spark's timers and a shard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from purgatory_spark._rows.packing import to_blob
from purgatory_spark._stream.processor import COUNTS, ShardProcessor
from purgatory_spark._stream.state import rows
from purgatory_spark._stream.state.layout import StateLayoutError
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.test_shard import event_rows, request_rows

LABEL = -1_693_959_553


class SparkTask:
    """What Spark does for one shard: state, timers, and the order of a batch's steps.

    As in `TransformWithStateInPandas` of Spark 4: timers that the watermark has reached are looked
    up after the rows of the batch, and each is deleted once it has been handled.
    """

    def __init__(self, label: int = LABEL) -> None:
        self.timers: set[int] = set()
        self.steps = 0
        self._label = (label,)
        self._blobs: dict[tuple[str], tuple[str]] = {}
        self.processor = ShardProcessor(labels=(LABEL,), key_retention_ms=0, max_shard_mb=100)
        self.processor.init(self)

    def getMapState(self, *_: Any) -> Any:  # noqa: N802 - the names are Spark's
        """Return the state, a map."""
        return SimpleNamespace(
            getValue=self._blobs.get,
            updateValue=self._blobs.__setitem__,
            removeKey=self._blobs.__delitem__,
        )

    def registerTimer(self, at_ms: int) -> None:  # noqa: N802
        """Add a timer."""
        self.timers.add(at_ms)

    def deleteTimer(self, at_ms: int) -> None:  # noqa: N802
        """Delete a timer, which exists."""
        self.timers.remove(at_ms)

    def batch(
        self, watermark_ms: int, inputs: dict[str, pa.Table] | None = None
    ) -> list[dict[str, Any]]:
        """Run a batch, and return the rows of results."""
        now = SimpleNamespace(getCurrentWatermarkInMs=lambda: watermark_ms)
        frames = []
        if inputs:
            packed = [(kind, to_blob(table).to_pybytes()) for kind, table in inputs.items()]
            frame = pd.DataFrame(packed, columns=["kind", "blob"])
            frames += self.processor.handleInputRows(self._label, iter([frame]), now)
        for at_ms in sorted(at_ms for at_ms in self.timers if at_ms <= watermark_ms):
            expired = SimpleNamespace(getExpiryTimeInMs=lambda at_ms=at_ms: at_ms)
            frames += self.processor.handleExpiredTimer(self._label, now, expired)
            self.timers.remove(at_ms)
        self.steps += len(frames)
        found = [row for frame in frames for row in pa.Table.from_pandas(frame).to_pylist()]
        counts = [row["counts"].split(",") for row in found if row["counts"] is not None]
        sums = [sum(map(int, values)) for values in zip(*counts, strict=True)]
        self.counts = dict(zip(COUNTS, sums, strict=False))
        return [row for row in found if row["counts"] is None]


def waiting(name: str, arrived_ms: int) -> TraceRequest:
    """Return a request that waits a second for one event of the key `k`."""
    return TraceRequest(name, arrived_ms * 1000, 1_000, ["k"], "count", 1, "all")


def test_due_shard_with_rows_is_stepped_once() -> None:
    task = SparkTask()
    task.batch(0, {rows.REQUESTS: request_rows([waiting("first", 5_000)])})
    assert (task.steps, task.timers) == (1, {5_000})
    inputs = {
        rows.REQUESTS: request_rows([waiting("second", 9_000)]),
        rows.EVENTS: event_rows([TraceEvent("k", 9_500_000, 1.0)]),
    }
    (expired,) = task.batch(8_000, inputs)
    assert (expired["request_id"], expired["outcome"]) == ("first", "expired")
    assert task.counts == {
        "rows": 2,
        "completed": 0,
        "expired": 1,
        "late": 0,
        "pending_change": 0,
        "state_change": task.counts["state_change"],
    }
    assert (task.steps, task.timers) == (2, {9_000})


def test_due_shard_without_rows_is_stepped_by_its_timer() -> None:
    task = SparkTask()
    inputs = {
        rows.REQUESTS: request_rows([waiting("early", 5_000), waiting("later", 5_500)]),
        rows.EVENTS: event_rows([TraceEvent("k", 6_100_000, 1.0)]),
    }
    assert task.batch(0, inputs) == []
    assert task.counts["state_change"] > 0
    assert task.batch(4_000) == []
    assert (task.steps, task.timers) == (1, {5_000})
    assert task.batch(5_999) == []
    assert (task.counts["pending_change"], task.timers) == (2, {6_000})
    assert [row["outcome"] for row in task.batch(6_050)] == ["expired"]
    assert task.timers == {6_100}
    assert [row["outcome"] for row in task.batch(7_000)] == ["completed"]
    assert (task.counts["completed"], task.counts["pending_change"]) == (1, -1)
    assert task.counts["state_change"] < 0
    assert (task.steps, task.timers) == (4, set())


def test_state_of_a_shard_that_the_stream_does_not_have_is_an_error() -> None:
    task = SparkTask(label=0)
    task.batch(0, {rows.REQUESTS: request_rows([waiting("first", 5_000)])})
    with pytest.raises(StateLayoutError, match=r"a shard with the label 0, .* even_shards"):
        task.batch(8_000)
