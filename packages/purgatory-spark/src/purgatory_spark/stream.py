"""The rules of the purgatory as a Spark Structured Streaming job."""

from __future__ import annotations

from purgatory_spark._spark.session import apply_stream_settings
from purgatory_spark._stream.endpoints.address import AddressOptions, parse_endpoints
from purgatory_spark._stream.endpoints.connector import ConnectorError
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from purgatory_spark._stream.endpoints.ticks import clock_ticks
from purgatory_spark._stream.job import StreamSettings, delayed_operations
from purgatory_spark._stream.mapped_streams import map_streams
from purgatory_spark._stream.run import DrainError, StreamPlan, run_stream
from purgatory_spark._stream.stored_state import read_stream_state

__all__ = [
    "AddressOptions",
    "ConnectorError",
    "DrainError",
    "EndpointError",
    "StreamPlan",
    "StreamSettings",
    "apply_stream_settings",
    "clock_ticks",
    "delayed_operations",
    "map_streams",
    "parse_endpoints",
    "read_stream_state",
    "run_stream",
]
