"""The rules of the purgatory as a Spark Structured Streaming job."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    from request_purgatory.pipeline.stream.job import StreamSettings, delayed_operations
    from request_purgatory.pipeline.stream.mapped_streams import map_streams
    from request_purgatory.pipeline.stream.stored_state import read_stream_state
except ModuleNotFoundError as error:
    from request_purgatory.extras import missing_package

    raise missing_package(error, "spark") from error

if TYPE_CHECKING:
    from request_purgatory.pipeline.stream.endpoints.address import AddressOptions, parse_endpoints
    from request_purgatory.pipeline.stream.endpoints.connector import ConnectorError
    from request_purgatory.pipeline.stream.endpoints.endpoint import EndpointError
    from request_purgatory.pipeline.stream.endpoints.ticks import clock_ticks
    from request_purgatory.pipeline.stream.run import DrainError, StreamPlan, run_stream

__all__ = [
    "AddressOptions",
    "ConnectorError",
    "DrainError",
    "EndpointError",
    "StreamPlan",
    "StreamSettings",
    "clock_ticks",
    "delayed_operations",
    "map_streams",
    "parse_endpoints",
    "read_stream_state",
    "run_stream",
]

#: What the driver alone needs, imported when it is used: workers import this package, too.
_MODULE_OF = {
    "AddressOptions": "endpoints.address",
    "ConnectorError": "endpoints.connector",
    "DrainError": "run",
    "EndpointError": "endpoints.endpoint",
    "StreamPlan": "run",
    "clock_ticks": "endpoints.ticks",
    "parse_endpoints": "endpoints.address",
    "run_stream": "run",
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
