"""The metrics of purgatories."""

from request_purgatory.purgatory.counters import WAIT_BUCKETS, PurgatoryMetrics

__all__ = ["WAIT_BUCKETS", "PurgatoryMetrics"]
