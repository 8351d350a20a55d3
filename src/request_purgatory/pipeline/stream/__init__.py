"""The rules of the purgatory as a Spark Structured Streaming job."""

from request_purgatory.pipeline.stream.job import StreamSettings, delayed_operations

__all__ = ["StreamSettings", "delayed_operations"]
