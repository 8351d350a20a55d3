"""Kafka topics as a stream's inputs and output, by Spark's own connector; values are JSON rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._errors import require_at_least, require_one_of
from purgatory_spark._spark.files import CORRUPT, RAW, quote_column
from purgatory_spark._stream.endpoints.avro_rows import AvroMessages, read_avro_fields
from purgatory_spark._stream.endpoints.connector import spark_jvm
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from purgatory_spark._stream.endpoints.json_rows import (
    read_json_fields,
    read_json_rows,
    text_or_base64,
    to_json_row,
)
from request_purgatory.errors import InvalidArgumentError

LATE_SUFFIX = ".late"
#: Columns of outcomes that may be the keys of messages.
KEYS = ("host", "request_id")

#: Options of Spark's source that may be given. All others are Kafka's, whose names have no capital
#: letters.
_SPARK_OPTIONS = ("startingOffsets", "startingTimestamp", "minPartitions", "groupIdPrefix")
#: Kafka's options that may not be given, and what to do instead.
_FORBIDDEN_OPTIONS = {
    "bootstrap.servers": "given in the topic's address",
    "transactional.id": "left out: Spark's sink does not support transactions",
    "acks": "left out: Spark may go on only when all in-sync replicas have a row",
}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}")
#: Timeouts of the check before the start. With Kafka's own defaults a wrong port would look like a
#: stream without input.
_CHECK_TIMEOUTS = {"request.timeout.ms": "10000", "default.api.timeout.ms": "15000"}

_KEY = "kafka_key"
_HEADERS = "kafka_headers."
#: Columns of a record beside its value, by the names of Spark's source. Headers are `_HEADERS` and
#: a name.
_OTHERS = {
    "kafka_timestamp": "timestamp",
    "kafka_partition": "partition",
    "kafka_offset": "offset",
}
_NOT_TEXT = "_purgatory_not_text"


@dataclass(frozen=True)
class KafkaCluster:
    """A Kafka cluster, and the options of its clients.

    Attributes:
        servers: bootstrap servers, as `host:port` with commas between them.
        options: options of Kafka's consumers and producers, such as `security.protocol`; and of
            Spark's source `startingOffsets`, `startingTimestamp`, `minPartitions` and
            `groupIdPrefix`.
    """

    servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not all(_SERVER.fullmatch(server) for server in self.servers.split(",")):
            raise InvalidArgumentError(
                "servers", "HOST:PORT, with commas between several", self.servers
            )
        for name in self.options:
            if name in _FORBIDDEN_OPTIONS:
                raise InvalidArgumentError(
                    f"the Kafka option {name}", _FORBIDDEN_OPTIONS[name], self.options[name]
                )
            if name != name.lower() and name not in _SPARK_OPTIONS:
                raise InvalidArgumentError(
                    "a Kafka option", f"one of Kafka's, or of {', '.join(_SPARK_OPTIONS)}", name
                )

    def kafka_options(self) -> dict[str, str]:
        options = {
            name: value for name, value in self.options.items() if name not in _SPARK_OPTIONS
        }
        return {"bootstrap.servers": self.servers, **options}

    def spark_options(self) -> dict[str, str]:
        return {f"kafka.{name}": value for name, value in self.kafka_options().items()}

    def require_topics(self, jvm: Any, *topics: str) -> str:
        config = jvm.java.util.HashMap()
        for name, value in {**_CHECK_TIMEOUTS, **self.kafka_options()}.items():
            config.put(name, value)
        try:
            admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(config)
            try:
                cluster = admin.describeCluster().clusterId().get()
                existing = admin.listTopics().names().get()
                missing = [topic for topic in topics if not existing.contains(topic)]
            finally:
                admin.close()
        except Py4JJavaError as error:
            raise EndpointError(
                f"kafka://{self.servers}: {_root_cause(error.java_exception)}"
            ) from error
        if missing:
            raise EndpointError(
                f"kafka://{self.servers}: no topic {', '.join(missing)}, or no permission to "
                "describe it; create it before the stream starts"
            )
        return str(cluster)


@dataclass(frozen=True)
class KafkaSource:
    """A topic whose values are JSON rows, or with a mapping Avro records, one for each message.

    Without a mapping, keys and headers are ignored.

    A new checkpoint starts at the earliest message, or at `startingOffsets`. An existing one
    resumes where it stopped. Messages that Kafka has deleted before they were read end the stream
    with an error.
    """

    cluster: KafkaCluster
    topic: str
    rows_per_batch: int | None = None
    avro: AvroMessages | None = None
    unbounded = False

    def __post_init__(self) -> None:
        _check_topic(self.topic)
        if self.rows_per_batch is not None:
            require_at_least(1, rows_per_batch=self.rows_per_batch)

    def identity(self, spark: SparkSession) -> str:
        """Return the topic and the cluster's id, which stays when brokers change, as text."""
        cluster = self.cluster.require_topics(spark_jvm(spark), self.topic)
        return f"topic {self.topic} of Kafka cluster {cluster}"

    def read(self, spark: SparkSession, schema: T.StructType) -> DataFrame:
        return read_json_rows(self._records(spark).select("value"), schema)

    def read_columns(
        self, spark: SparkSession, columns: Iterable[str], lists: Collection[str]
    ) -> DataFrame:
        columns = list(columns)
        headers = {"includeHeaders": "true"} if needs_headers(columns) else {}
        return read_records(self._records(spark, **headers), columns, lists, self.avro)

    def _records(self, spark: SparkSession, **more: str) -> DataFrame:
        given = self.cluster.options
        options = {
            **more,
            "startingOffsets": "earliest",
            "failOnDataLoss": "true",
            # Messages of aborted transactions are not rows.
            "kafka.isolation.level": "read_committed",
            **{name: given[name] for name in _SPARK_OPTIONS if name in given},
            **self.cluster.spark_options(),
        }
        if self.rows_per_batch is not None:
            options["maxOffsetsPerTrigger"] = str(self.rows_per_batch)
        reader = spark.readStream.format("kafka").options(**options).option("subscribe", self.topic)
        return reader.load()


@dataclass(frozen=True)
class KafkaSink:
    """A topic for outcomes, and one for late rows, named like the first with the suffix `.late`.

    Values are rows of `job.RESULTS` as JSON. Each row is written at least once: after a failure a
    batch is written again, with the same rows. A late row without the field `key` has no key.
    """

    cluster: KafkaCluster
    topic: str
    key: str = "host"

    def __post_init__(self) -> None:
        require_one_of(KEYS, kafka_key=self.key)
        _check_topic(self.topic)
        _check_topic(self.late_topic)

    @property
    def late_topic(self) -> str:
        return self.topic + LATE_SUFFIX

    @property
    def locations(self) -> tuple[str, str]:
        return (
            f"kafka://{self.cluster.servers}/{self.topic}",
            f"kafka://{self.cluster.servers}/{self.late_topic}",
        )

    def identity(self, spark: SparkSession) -> str:
        cluster = self.cluster.require_topics(spark_jvm(spark), self.topic, self.late_topic)
        return f"topic {self.topic} of Kafka cluster {cluster}"

    def write(self, results: DataFrame) -> Any:
        is_late = F.col("kind") == "late"
        messages = results.select(
            F.coalesce(self.key, F.get_json_object("row", f"$.{self.key}")).alias("key"),
            to_json_row(results.columns).alias("value"),
            F.when(is_late, F.lit(self.late_topic)).otherwise(F.lit(self.topic)).alias("topic"),
        )
        return (
            messages.writeStream.format("kafka")
            .options(**self.cluster.spark_options())
            .outputMode("append")
        )


def _check_topic(name: str) -> None:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise InvalidArgumentError("topic", "up to 249 letters, digits, '.', '_' and '-'", name)


def _root_cause(exception: Any) -> str:
    """Return class and message of the Java exception that others wrap."""
    while exception.getCause() is not None:
        exception = exception.getCause()
    return f"{exception.getClass().getSimpleName()}: {exception.getMessage()}"


def needs_headers(columns: Iterable[str]) -> bool:
    return any(name.startswith(_HEADERS) for name in columns)


def read_records(
    records: DataFrame,
    columns: Iterable[str],
    lists: Collection[str],
    avro: AvroMessages | None,
) -> DataFrame:
    """Return columns of records.

    `columns`: fields of the value, and of the record: `kafka_key`, `kafka_timestamp`,
    `kafka_partition`, `kafka_offset`, and `kafka_headers.NAME`, the last header of that name. Key
    and headers are text. Without fields of the value, any value is valid. `avro`: how values are
    written in Avro; None for JSON. Returns the columns; `files.RAW`, the value as text, in an
    object with the columns of the record if there are any; and `files.CORRUPT`, the reason if the
    value is no row, or a key or header is not UTF-8.
    """
    columns = list(dict.fromkeys(columns))
    own = [name for name in columns if name == _KEY or name in _OTHERS or name.startswith(_HEADERS)]
    fields = [name for name in columns if name not in own]
    texts = [name for name in own if name not in _OTHERS]
    not_text = [
        F.when(~F.is_valid_utf8(_bytes(name).cast("string")), F.lit(f"{name} is not UTF-8"))
        for name in texts
    ]
    rows = records.select(
        "value",
        *[F.col(column).alias(name) for name, column in _OTHERS.items() if name in own],
        *[_bytes(name).alias(name) for name in texts],
        F.coalesce(*not_text, F.lit(None).cast("string")).alias(_NOT_TEXT),
    )
    for name in texts:
        rows = rows.withColumn(name, text_or_base64(quote_column(name)))
    if avro is not None and fields:
        rows = read_avro_fields(rows, fields, avro)
    elif fields:
        rows = read_json_fields(rows, fields, lists)
    else:
        rows = rows.select(
            "*",
            F.lit(None).cast("string").alias(CORRUPT),
            text_or_base64("value").alias(RAW),
        )
    raw = F.col(RAW)
    if own:
        parts = [F.col(quote_column(name)).alias(name) for name in own]
        raw = F.to_json(F.struct(*parts, raw.alias("value")))
    return rows.select(
        *[quote_column(name) for name in columns],
        F.coalesce(CORRUPT, _NOT_TEXT).alias(CORRUPT),
        raw.alias(RAW),
    )


def _bytes(name: str) -> Column:
    """Return the key, or the last header of a name."""
    if name == _KEY:
        return F.col("key")
    header = name.removeprefix(_HEADERS)
    named = F.filter("headers", lambda one: one["key"] == header)
    return F.try_element_at(named, F.lit(-1))["value"]
