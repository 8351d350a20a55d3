"""A stream's inputs and outputs: folders, Kafka topics, generated load; and its ticks."""

from purgatory_spark._stream.endpoints.avro_rows import AvroMessages
from purgatory_spark._stream.endpoints.endpoint import EndpointError, Endpoints, Sink, Source
from purgatory_spark._stream.endpoints.folders import FORMATS, FolderSink, FolderSource
from purgatory_spark._stream.endpoints.kafka import KafkaCluster, KafkaSink, KafkaSource
from purgatory_spark._stream.endpoints.rate import RateSource
from purgatory_spark._stream.endpoints.ticks import clock_ticks, folder_ticks

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
