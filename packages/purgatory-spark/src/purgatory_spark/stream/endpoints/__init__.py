"""A stream's inputs and outputs: folders, Kafka topics, generated load; and its ticks."""

from request_purgatory.pipeline.stream.endpoints.avro_rows import AvroMessages
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
from request_purgatory.pipeline.stream.endpoints.ticks import clock_ticks, folder_ticks

__all__ = [
    "FORMATS",
    "AvroMessages",
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
    "clock_ticks",
    "folder_ticks",
]
