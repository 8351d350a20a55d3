"""Tests of replays through real purgatories, against a naive model and the batch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from purgatory_spark._errors import SchemaError
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.replay import HostReplay, ReplaySettings, replay
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import EVENTS as EVENTS_SCHEMA
from purgatory_spark._rows.schema import OUTCOMES, REQUESTS
from request_purgatory import InvalidArgumentError, ManualClock
from tests.spark.naive_trace import TraceEvent, TraceRequest, outcome
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
    generated: list[TraceRequest], events: list[TraceEvent], settings: ReplaySettings
) -> tuple[list[Any], dict[str, Any]]:
    """Return the outcomes and the statistics of a host's replay."""
    host = HostReplay(requests_table(generated), events_table(events), settings)
    host.run()
    return host.outcomes().to_pylist(), host.stats(1.0)["stats"]


@pytest.mark.parametrize(
    "chosen",
    SETTINGS,
    ids=lambda chosen: f"{chosen.design}-{chosen.tick_ms}-{chosen.purge_interval}",
)
@examples(60)
@given(generated=requests(), events=st.lists(EVENTS, max_size=25))
def test_replay_agrees_with_the_naive_model(
    chosen: ReplaySettings, generated: list[TraceRequest], events: list[TraceEvent]
) -> None:
    rows, stats = replayed(generated, events, chosen)
    for request, row in zip(generated, rows, strict=True):
        assert (row["outcome"], row["ended_at"]) == outcome(request, events)
        assert row["waited_ms"] == (row["ended_at"] - request.arrived_us) / 1000
    assert stats["completed"] + stats["expired"] == len(generated)
    assert stats["expired"] == sum(row["outcome"] == "expired" for row in rows)
    assert stats["callbacks"] == stats["completed"] + 2 * stats["expired"]
    assert stats["callback_errors"] == 0


@given(generated=requests(), events=st.lists(EVENTS, max_size=25))
def test_timeouts_fire_at_most_a_tick_and_a_millisecond_late(
    generated: list[TraceRequest], events: list[TraceEvent]
) -> None:
    rows, _ = replayed(generated, events, ReplaySettings(tick_ms=5))
    for request, row in zip(generated, rows, strict=True):
        if row["outcome"] == "expired":
            assert 0 <= row["late_ms"] < (6 if request.timeout_ms else 0.001)
        else:
            assert row["late_ms"] is None


def acknowledged(
    count: int, every_us: int, service_us: int
) -> tuple[list[TraceRequest], list[TraceEvent]]:
    """Make requests that complete after the same time, and also watch a shared key."""
    sample_requests = [
        TraceRequest(
            f"{number}", number * every_us, 1000, [f"own-{number}", "shared"], "count", 1.0, "any"
        )
        for number in range(count)
    ]
    return sample_requests, [
        TraceEvent(f"own-{number}", number * every_us + service_us, 1.0) for number in range(count)
    ]


def test_designs_agree_on_outcomes_and_differ_in_queued_requests() -> None:
    sample_requests, events = acknowledged(3000, 100, 2000)
    wheel_rows, wheel = replayed(sample_requests, events, ReplaySettings(purge_interval=500))
    legacy_rows, legacy = replayed(
        sample_requests, events, ReplaySettings(design="legacy", purge_interval=500)
    )
    assert wheel_rows == legacy_rows
    # Each request completes 2 ms after its arrival, at an instant when another one arrives. 20
    # requests are pending then, and the arriving one is the 21st.
    assert wheel["peak_pending"] == legacy["peak_pending"] == 21
    assert wheel["peak_queued"] == 21
    # The 0.8 design's reaper runs every 200 ms. It finds 2,000 more requests at 200 ms, and the
    # last 1,000 at 400 ms.
    assert legacy["peak_queued"] == 2001
    assert legacy["purges"] == 2
    # A purge is due whenever 501 completed requests are in the shared key's list.
    assert wheel["purges"] == 5
    assert wheel["estimate_error_max"] == 0
    assert legacy["estimate_error_max"] is None


def test_measuring_the_estimate_has_a_bounded_cost() -> None:
    purgatory = ReplaySettings(purge_interval=1).purgatory(ManualClock(), measured=True)
    held = [Request(100) for _ in range(1000)]
    for number, operation in enumerate(held):
        purgatory.try_complete_else_watch(operation, [number])
    for operation in held[:120]:
        operation.force_complete()
        purgatory.purge()
    assert getattr(purgatory, "estimate_errors", None) == [0, 0]
    assert len(purgatory.close()) == 880


def test_wheel_occupancy_is_sampled_by_level() -> None:
    _, stats = replayed(*acknowledged(3000, 100, 2000), ReplaySettings(wheel_size=20))
    assert [(level["tick_ms"], level["buckets"]) for level in stats["wheel"]] == [
        (1, 20),
        (20, 20),
        (400, 20),
    ]
    assert stats["wheel"][2]["peak_used"] >= 1


def test_unknown_design_is_an_error() -> None:
    with pytest.raises(
        InvalidArgumentError, match="design must be one of wheel, legacy, got 'heap'"
    ):
        ReplaySettings(design="heap")


# Without shrinking, which would run hundreds of Spark jobs.
@examples(4, times=10, phases=[Phase.explicit, Phase.generate])
@given(
    data=st.lists(st.tuples(requests(), st.lists(EVENTS, max_size=40)), min_size=4, max_size=6),
    chosen=st.sampled_from(SETTINGS),
)
def test_replay_and_batch_agree_on_spark(
    spark: SparkSession,
    data: list[tuple[list[TraceRequest], list[TraceEvent]]],
    chosen: ReplaySettings,
) -> None:
    import pyarrow as pa

    requests_all = pa.concat_tables(
        [requests_table(generated, f"host-{number}") for number, (generated, _) in enumerate(data)]
    )
    events_all = pa.concat_tables(
        [events_table(events, f"host-{number}") for number, (_, events) in enumerate(data)]
    )
    # PySpark 4.3 silently drops the rows after an empty chunk, such as that of a host without
    # events, so the tables are combined to one chunk.
    requests_frame = spark.createDataFrame(requests_all.combine_chunks(), REQUESTS)
    events_frame = spark.createDataFrame(events_all.combine_chunks(), EVENTS_SCHEMA)
    outcomes = (
        replay(requests_frame, events_frame, chosen)
        .where("kind = 'outcomes'")
        .select(*OUTCOMES.names)
    )
    batch = outcomes_of(batch_outcomes(requests_frame, events_frame))
    rows = sorted(batch.collect())
    assert sorted(outcomes.collect()) == rows
    assert len(rows) == requests_all.num_rows
    expected = {
        (f"host-{number}", request.request_id): outcome(request, events)[0]
        for number, (generated, events) in enumerate(data)
        for request in generated
    }
    assert {(row["host"], row["request_id"]): row["outcome"] for row in rows} == expected


def test_missing_column_is_an_error(spark: SparkSession) -> None:
    requests_frame = spark.createDataFrame([], REQUESTS).drop("quantifier")
    with pytest.raises(SchemaError, match=r"requests: quantifier \(string\) is missing"):
        replay(requests_frame, spark.createDataFrame([], EVENTS_SCHEMA))
