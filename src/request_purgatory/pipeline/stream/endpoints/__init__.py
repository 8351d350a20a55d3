"""What a stream reads and writes: folders, Kafka's topics, a load made up.

And the ticks that move its watermark.
"""

from request_purgatory.pipeline.stream.endpoints.endpoint import (
    EndpointError,
    Endpoints,
    Sink,
    Source,
)
from request_purgatory.pipeline.stream.endpoints.folders import (
    FORMATS,
    FolderSink,
    FolderSource,
)
from request_purgatory.pipeline.stream.endpoints.kafka import (
    KafkaCluster,
    KafkaSink,
    KafkaSource,
)
from request_purgatory.pipeline.stream.endpoints.rate import RateSource
from request_purgatory.pipeline.stream.endpoints.ticks import quiet_ticks, told_ticks

__all__ = [
    "FORMATS",
    "EndpointError",
    "Endpoints",
    "FolderSink",
    "FolderSource",
    "KafkaCluster",
    "KafkaSink",
    "KafkaSource",
    "RateSource",
    "Sink",
    "Source",
    "quiet_ticks",
    "told_ticks",
]
