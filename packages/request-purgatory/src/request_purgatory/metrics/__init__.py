"""The metrics of purgatories: read as one object, and exported by the ecosystem's libraries.

`prometheus` needs the extra `[metrics]`, and `opentelemetry` the package `opentelemetry-api`.
docs/how_to/metrics.md has all names.
"""

from request_purgatory.purgatory._metric_table import PurgatoryMetrics

__all__ = ["PurgatoryMetrics"]
