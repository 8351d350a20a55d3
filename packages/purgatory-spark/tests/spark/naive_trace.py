"""The naive model of a trace, which the broker's recorder is tested with too."""

from tests.support.naive_trace import TraceEvent, TraceRequest, aggregate_at, not_repeated, outcome

__all__ = ["TraceEvent", "TraceRequest", "aggregate_at", "not_repeated", "outcome"]
