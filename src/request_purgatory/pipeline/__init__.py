"""The data pipeline on Spark: traces, replays, batch outcomes, streams, simulations and reports.

Needs the optional dependencies `request-purgatory[spark]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from request_purgatory.pipeline.notebook.trace import Trace

__all__ = ["Trace"]


def __getattr__(name: str) -> Any:
    # Spark's Python workers import modules of this package, and need neither charts nor reports.
    if name == "Trace":
        from request_purgatory.pipeline.notebook.trace import Trace

        return Trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
