"""The rules of the purgatory as a Spark Structured Streaming job."""

from request_purgatory.pipeline.stream.job import StreamSettings, delayed_operations
from request_purgatory.pipeline.stream.mapped_streams import map_streams
from request_purgatory.pipeline.stream.stored_state import read_stream_state

__all__ = ["StreamSettings", "delayed_operations", "map_streams", "read_stream_state"]
