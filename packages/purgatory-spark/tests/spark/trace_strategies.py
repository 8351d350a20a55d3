"""Hypothesis strategies for traces with many equal times, and Arrow tables of traces."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import strategies as st

from purgatory_spark._rows.schema import ARROW_SCHEMAS
from tests.spark.naive_trace import TraceEvent, TraceRequest

# With few values, mostly close together, equal times are common, and so are events at deadlines
# and arrivals, or a microsecond away.
TIMES_US = st.one_of(
    st.sampled_from(
        [
            0,
            1,
            999,
            1000,
            1001,
            2000,
            2001,
            3000,
            5000,
            39_999,
            40_000,
            40_001,
            523_456,
        ]
    ),
    st.integers(0, 6000),
)
KEYS = st.sampled_from(["a", "b", "c", ""])
# Sums of eighths are exact in any order.
AMOUNTS = st.integers(0, 32).map(lambda eighths: eighths / 8)
THRESHOLDS = st.sampled_from([-1.0, 0.0, 0.125, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 1e18, float("inf")])

EVENTS = st.builds(TraceEvent, key=KEYS, occurred_us=TIMES_US, amount=AMOUNTS)


def requests() -> st.SearchStrategy[list[TraceRequest]]:
    """Generate requests with distinct ids."""
    rows = st.lists(
        st.tuples(
            TIMES_US,
            st.sampled_from([0, 1, 2, 3, 40, 100_000]),
            st.lists(KEYS, max_size=4),
            st.sampled_from(["count", "sum", "max"]),
            THRESHOLDS,
            st.sampled_from(["all", "any", "1", "2", "3"]),
        ),
        min_size=1,
        max_size=12,
    )
    return rows.map(
        lambda found: [
            with_enough_keys(TraceRequest(f"r{number:02d}", *row))
            for number, row in enumerate(found)
        ]
    )


def with_enough_keys(request: TraceRequest) -> TraceRequest:
    """Return a usable request: one that needs no more keys than it has."""
    most = len(set(request.watch_keys))
    is_usable = not request.quantifier.isdigit() or int(request.quantifier) <= most
    return request if is_usable else replace(request, quantifier=str(most) if most else "any")


def requests_table(requests: list[TraceRequest], host: str = "h") -> pa.Table:
    """Return requests of one host as an Arrow table of the schema `REQUESTS`."""
    columns = {
        "host": pa.repeat(host, len(requests)),
        "request_id": pa.array([request.request_id for request in requests], pa.string()),
        "request_type": pa.array([request.aggregate for request in requests], pa.string()),
        "arrived_at": pa.array(
            [request.arrived_us for request in requests], pa.timestamp("us", tz="UTC")
        ),
        "timeout_ms": pa.array([request.timeout_ms for request in requests], pa.int32()),
        "watch_keys": pa.array([request.watch_keys for request in requests], pa.list_(pa.string())),
        "aggregate": pa.array([request.aggregate for request in requests], pa.string()),
        "threshold": pa.array([request.threshold for request in requests], pa.float64()),
        "quantifier": pa.array([request.quantifier for request in requests], pa.string()),
    }
    absent = pa.nulls(len(requests), pa.string())  # a column that is only passed on
    return pa.table({name: columns.get(name, absent) for name in ARROW_SCHEMAS["requests"].names})


def events_table(events: list[TraceEvent], host: str = "h") -> pa.Table:
    """Return events of one host as an Arrow table of the schema `EVENTS`."""
    return pa.table(
        {
            "host": pa.repeat(host, len(events)),
            "key": pa.array([event.key for event in events], pa.string()),
            "occurred_at": pa.array(
                [event.occurred_us for event in events], pa.timestamp("us", tz="UTC")
            ),
            "amount": pa.array([event.amount for event in events], pa.float64()),
        }
    )
