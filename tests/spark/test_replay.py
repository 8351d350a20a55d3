"""Replay through real purgatories against the plain model and the vectors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from request_purgatory import InvalidArgumentError, ManualClock
from request_purgatory.pipeline.outcomes.batch import batch_outcomes
from request_purgatory.pipeline.outcomes.replay import HostReplay, ReplaySettings, replay
from request_purgatory.pipeline.traces.schema import EVENTS as EVENTS_SCHEMA
from request_purgatory.pipeline.traces.schema import OUTCOMES, REQUESTS, SchemaError
from tests.model.naive_trace import TraceEvent, TraceRequest, outcome
from tests.spark.trace_strategies import EVENTS, events_table, requests, requests_table
from tests.support.profiles import examples
from tests.support.requests import Request

SETTINGS = [
    ReplaySettings(),
    ReplaySettings(tick_ms=7, wheel_size=2, purge_interval=0, shards=1),
    ReplaySettings(design="legacy"),
    ReplaySettings(design="legacy", purge_interval=2),
]


def replayed(
    found: list[TraceRequest], events: list[TraceEvent], settings: ReplaySettings
) -> tuple[list[Any], dict[str, Any]]:
    """The outcomes of a host's replay, and its statistics."""
    host = HostReplay(requests_table(found), events_table(events), settings)
    host.run()
    return host.outcomes().to_pylist(), host.stats(1.0)["stats"]


def microseconds(moment: datetime) -> int:
    """A moment as microseconds since the epoch."""
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@pytest.mark.parametrize(
    "chosen",
    SETTINGS,
    ids=lambda chosen: f"{chosen.design}-{chosen.tick_ms}-{chosen.purge_interval}",
)
@examples(150)
@given(found=requests(), events=st.lists(EVENTS, max_size=25))
def test_replay_ends_every_request_as_the_plain_model_does(
    chosen: ReplaySettings, found: list[TraceRequest], events: list[TraceEvent]
) -> None:
    """In both designs, whatever their ticks, sizes and purges."""
    rows, stats = replayed(found, events, chosen)
    for request, row in zip(found, rows, strict=True):
        assert (row["outcome"], microseconds(row["ended_at"])) == outcome(request, events)
        assert row["waited_ms"] == (microseconds(row["ended_at"]) - request.arrived_us) / 1000
    assert stats["completed"] + stats["expired"] == len(found)
    assert stats["expired"] == sum(row["outcome"] == "expired" for row in rows)
    assert stats["callbacks"] == stats["completed"] + 2 * stats["expired"]
    assert stats["callback_errors"] == 0


@given(found=requests(), events=st.lists(EVENTS, max_size=25))
def test_timeouts_fire_at_most_a_tick_and_a_millisecond_late(
    found: list[TraceRequest], events: list[TraceEvent]
) -> None:
    """A deadline between two milliseconds waits for the next one, and that one for its tick.

    Never early.
    """
    rows, _ = replayed(found, events, ReplaySettings(tick_ms=5))
    for request, row in zip(found, rows, strict=True):
        if row["outcome"] == "expired":
            assert 0 <= row["late_ms"] < (6 if request.timeout_ms else 0.001)
        else:
            assert row["late_ms"] is None


def acknowledged(
    count: int, every_us: int, service_us: int
) -> tuple[list[TraceRequest], list[TraceEvent]]:
    """Requests that each get their own event after the same time, and watch a shared key besides."""
    found = [
        TraceRequest(
            f"{number}", number * every_us, 1000, [f"own-{number}", "shared"], "count", 1.0, "any"
        )
        for number in range(count)
    ]
    return found, [
        TraceEvent(f"own-{number}", number * every_us + service_us, 1.0) for number in range(count)
    ]


def test_designs_agree_on_outcomes_and_differ_in_what_they_keep() -> None:
    """The delay queue of 0.8 keeps what completed; the wheel holds exactly what is pending."""
    found, events = acknowledged(3000, 100, 2000)
    wheel_rows, wheel = replayed(found, events, ReplaySettings(purge_interval=500))
    legacy_rows, legacy = replayed(
        found, events, ReplaySettings(design="legacy", purge_interval=500)
    )
    assert wheel_rows == legacy_rows
    # A request arrives just as the one that came 2 ms before it completes: 20 wait, and it is the
    # 21st.
    assert wheel["peak_pending"] == legacy["peak_pending"] == 21
    assert wheel["peak_queued"] == 21
    # 0.8's reaper finds 2,000 requests added when it first looks, after 200 ms, and the last 1,000
    # at 400 ms.
    assert legacy["peak_queued"] == 2001
    assert legacy["purges"] == 2
    # Each time that 501 have completed and stand in the shared list.
    assert wheel["purges"] == 5
    assert wheel["estimate_error_max"] == 0
    assert legacy["estimate_error_max"] is None


def test_counting_what_is_held_is_bounded_however_many_wait() -> None:
    """A thousand wait, and one at a time ends and is purged.

    At 20 for each that ended, every 50th or so counts them.
    """
    purgatory = ReplaySettings(purge_interval=1).purgatory(ManualClock(), measured=True)
    held = [Request(100) for _ in range(1000)]
    for number, operation in enumerate(held):
        purgatory.try_complete_else_watch(operation, [number])
    for operation in held[:120]:
        operation.force_complete()
        purgatory.purge()
    assert getattr(purgatory, "estimate_errors", None) == [0, 0]
    assert len(purgatory.shutdown()) == 880


def test_wheel_occupancy_is_sampled_by_level() -> None:
    """Timeouts of a second stand in the wheel of 400 ms ticks."""
    _, stats = replayed(*acknowledged(3000, 100, 2000), ReplaySettings())
    assert [(level["tick_ms"], level["buckets"]) for level in stats["wheel"]] == [
        (1, 20),
        (20, 20),
        (400, 20),
    ]
    assert stats["wheel"][2]["peak_used"] >= 1


def test_unknown_design_is_refused_by_name() -> None:
    """The message lists what there is."""
    with pytest.raises(
        InvalidArgumentError, match="design must be one of wheel, legacy, got 'heap'"
    ):
        ReplaySettings(design="heap")


@examples(
    4, times=10, phases=[Phase.explicit, Phase.generate]
)  # to shrink would run hundreds of Spark jobs
@given(
    data=st.lists(st.tuples(requests(), st.lists(EVENTS, max_size=40)), min_size=4, max_size=6),
    chosen=st.sampled_from(SETTINGS),
)
def test_replay_and_batch_agree_row_for_row_on_spark(
    spark: SparkSession,
    data: list[tuple[list[TraceRequest], list[TraceEvent]]],
    chosen: ReplaySettings,
) -> None:
    """Several hosts side by side, with the same ids and keys on each."""
    import pyarrow as pa

    requests_all = pa.concat_tables(
        [requests_table(found, f"host-{number}") for number, (found, _) in enumerate(data)]
    )
    events_all = pa.concat_tables(
        [events_table(events, f"host-{number}") for number, (_, events) in enumerate(data)]
    )
    # In one chunk: PySpark 4.3 silently loses what follows an empty chunk, which a host without
    # events would be.
    requests_frame = spark.createDataFrame(requests_all.combine_chunks(), REQUESTS)
    events_frame = spark.createDataFrame(events_all.combine_chunks(), EVENTS_SCHEMA)
    outcomes = (
        replay(requests_frame, events_frame, chosen)
        .where("kind = 'outcomes'")
        .select(*OUTCOMES.names)
    )
    batch = batch_outcomes(requests_frame, events_frame)
    rows = sorted(batch.collect())
    assert sorted(outcomes.collect()) == rows
    assert len(rows) == requests_all.num_rows
    expected = {
        (f"host-{number}", request.request_id): outcome(request, events)[0]
        for number, (found, events) in enumerate(data)
        for request in found
    }
    assert {(row["host"], row["request_id"]): row["outcome"] for row in rows} == expected


def test_missing_column_is_named(spark: SparkSession) -> None:
    """With the type that it should have."""
    requests_frame = spark.createDataFrame([], REQUESTS).drop("quantifier")
    with pytest.raises(SchemaError, match=r"requests: quantifier \(string\) is missing"):
        replay(requests_frame, spark.createDataFrame([], EVENTS_SCHEMA))
