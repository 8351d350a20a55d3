"""The rules of the purgatory as a streaming job on Spark.

`delayed_operations`, and what it is made of.
"""

from request_purgatory.pipeline.stream.job import StreamSettings, delayed_operations

__all__ = ["StreamSettings", "delayed_operations"]
