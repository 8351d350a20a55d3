"""Kafka's topics, by Spark's own connector. Values are rows as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.stream.endpoints.endpoint import EndpointError
from request_purgatory.pipeline.stream.endpoints.json_rows import read_json_rows, to_json_row

LATE_SUFFIX = ".late"

#: Options of Spark's source that may be given; all others are Kafka's own. Kafka's have no capital
#: letters.
_SPARKS = ("startingOffsets", "startingTimestamp", "minPartitions", "groupIdPrefix")
#: Kafka's options that are not for the user to set, and why.
_REFUSED = {
    "bootstrap.servers": "in the address of the topic",
    "transactional.id": "left out: Spark's sink knows no transactions",
    "acks": "left out: all of a partition's replicas have to have a row before Spark goes on",
}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}")
#: For the first question, in ms. Kafka's own default lets a wrong port look like a stream that has
#: nothing to do.
_ANSWER_WITHIN_MS = {"request.timeout.ms": "10000", "default.api.timeout.ms": "15000"}


@dataclass(frozen=True)
class KafkaCluster:
    """Brokers, and how to talk to them.

    Attributes:
        servers: `host:port`, with commas between them.
        options: of Kafka's consumers and producers, such as `security.protocol`; and of Spark's
            source those of `_SPARKS`.
    """

    servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not all(_SERVER.fullmatch(server) for server in self.servers.split(",")):
            raise InvalidArgumentError(
                "servers", "HOST:PORT, with commas between them", self.servers
            )
        for name in self.options:
            if name in _REFUSED:
                raise InvalidArgumentError(
                    f"the Kafka option {name}", _REFUSED[name], self.options[name]
                )
            if name != name.lower() and name not in _SPARKS:
                raise InvalidArgumentError(
                    "a Kafka option", f"one of Kafka's, or of {', '.join(_SPARKS)}", name
                )

    def kafka_options(self) -> dict[str, str]:
        """For a client of Kafka's."""
        kafkas = {name: value for name, value in self.options.items() if name not in _SPARKS}
        return {"bootstrap.servers": self.servers, **kafkas}

    def spark_options(self, **more: str) -> dict[str, str]:
        """For Spark's reader or writer.

        Kafka's options under the names that Spark has for them, `more` below the user's.
        """
        return {**more, **{f"kafka.{name}": value for name, value in self.kafka_options().items()}}

    def require_topics(self, jvm: Any, *topics: str) -> str:
        """The cluster's id, if it answers and has these topics.

        Args:
            jvm: Spark's, by Py4J, or any with Kafka's clients.

        Raises:
            EndpointError: it does not, or has not.
        """
        config = jvm.java.util.HashMap()
        for name, value in {**_ANSWER_WITHIN_MS, **self.kafka_options()}.items():
            config.put(name, value)
        try:
            admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(config)
            try:
                cluster = admin.describeCluster().clusterId().get()
                there = admin.listTopics().names().get()
                missing = [topic for topic in topics if not there.contains(topic)]
            finally:
                admin.close()
        except Py4JJavaError as error:
            raise EndpointError(
                f"kafka://{self.servers}: {_innermost(error.java_exception)}"
            ) from error
        if missing:
            raise EndpointError(
                f"kafka://{self.servers}: no topic {', '.join(missing)}, or no right to see it; make it first"
            )
        return str(cluster)


@dataclass(frozen=True)
class KafkaSource:
    """A topic whose values are rows as JSON, one a message. Keys and headers are not looked at.

    With a new checkpoint it is read from its beginning, or from `startingOffsets`; with another one
    from where that was. Messages that were deleted before they were read end the stream.

    Attributes:
        cluster: where it is.
        topic: its name.
        rows_per_batch: how many messages one micro-batch takes at most, of all partitions together;
            all unless given.
    """

    cluster: KafkaCluster
    topic: str
    rows_per_batch: int | None = None
    endless = False

    def __post_init__(self) -> None:
        _check_topic(self.topic)
        if self.rows_per_batch is not None and self.rows_per_batch < 1:
            raise InvalidArgumentError("rows_per_batch", "at least 1", self.rows_per_batch)

    def described(self, spark: SparkSession) -> str:
        """The topic and the cluster's own id, as brokers come and go.

        EndpointError if they are not there.
        """
        cluster = self.cluster.require_topics(spark.sparkContext._jvm, self.topic)
        return f"topic {self.topic} of Kafka cluster {cluster}"

    def read(self, spark: SparkSession, schema: T.StructType) -> DataFrame:
        """The rows as a stream; what is no JSON of the table is told as `read_json_rows` says."""
        options = self.cluster.spark_options(
            **{
                "startingOffsets": "earliest",
                "failOnDataLoss": "true",
                # Rows of transactions that were taken back are no rows.
                "kafka.isolation.level": "read_committed",
                **{
                    name: self.cluster.options[name]
                    for name in _SPARKS
                    if name in self.cluster.options
                },
            }
        )
        if self.rows_per_batch is not None:
            options["maxOffsetsPerTrigger"] = str(self.rows_per_batch)
        reader = spark.readStream.format("kafka").options(**options).option("subscribe", self.topic)
        return read_json_rows(reader.load().select("value"), schema)


@dataclass(frozen=True)
class KafkaSink:
    """A topic for outcomes, and one for late rows, whose name is the same with `.late` behind it.

    Values are rows of `job.STREAMED` as JSON, and keys their hosts. Each row is there at least
    once: after a failure a batch is written again, with the same rows.

    Attributes:
        cluster: where they are.
        topic: the name of the first.
    """

    cluster: KafkaCluster
    topic: str

    def __post_init__(self) -> None:
        _check_topic(self.topic)
        _check_topic(self.late_topic)

    @property
    def late_topic(self) -> str:
        """The name of the topic for late rows."""
        return self.topic + LATE_SUFFIX

    @property
    def places(self) -> tuple[str, str]:
        """The two topics."""
        return (
            f"kafka://{self.cluster.servers}/{self.topic}",
            f"kafka://{self.cluster.servers}/{self.late_topic}",
        )

    def described(self, spark: SparkSession) -> str:
        """As a source's."""
        cluster = self.cluster.require_topics(spark.sparkContext._jvm, self.topic, self.late_topic)
        return f"topic {self.topic} of Kafka cluster {cluster}"

    def write(self, results: DataFrame) -> Any:
        """The output as a stream writer."""
        late = F.col("kind") == "late"
        messages = results.select(
            F.coalesce("host", F.get_json_object("row", "$.host")).alias("key"),
            to_json_row(results.columns).alias("value"),
            F.when(late, F.lit(self.late_topic)).otherwise(F.lit(self.topic)).alias("topic"),
        )
        return (
            messages.writeStream.format("kafka")
            .options(**self.cluster.spark_options())
            .outputMode("append")
        )


def _check_topic(name: str) -> None:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise InvalidArgumentError("topic", "up to 249 letters, digits, '.', '_' and '-'", name)


def _innermost(exception: Any) -> str:
    """What a Java exception says that others were wrapped around."""
    while exception.getCause() is not None:
        exception = exception.getCause()
    return f"{exception.getClass().getSimpleName()}: {exception.getMessage()}"
