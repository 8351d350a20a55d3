"""The one place where Spark sessions are made."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from request_purgatory.pipeline.java import require_java

#: Every setting and why. A cluster's own values (spark-submit, SPARK_CONF_DIR) win over the ones marked "local".
SETTINGS: Mapping[str, str] = {
    # Timestamps mean UTC, whatever the machine's zone; traces are compared to the microsecond.
    "spark.sql.session.timeZone": "UTC",
    # Parquet's default, INT96, is deprecated, and few other readers keep its microseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A shuffle by host must keep hosts apart: adaptive execution would join small partitions into one task, and the hosts of
    # a small but slow replay would run one after the other.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    # Few enough to be cheap on two cores, enough that a handful of hosts seldom hash to one partition.
    "spark.sql.shuffle.partitions": "16",
    # With column pruning, the CSV reader does not look at columns that nobody asks for, and a malformed row passes as good.
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    # pandas and Arrow write timestamps of nanoseconds, which Spark reads as whole numbers or not at all.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    # pandas only where we ask for it; when we do, by Arrow.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A Python worker that raises tells its own traceback, without the JVM's hundred lines around it.
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}

LOCAL_SETTINGS: Mapping[str, str] = {
    # Nothing listens beyond this machine.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Progress is shown by this package; the page would only occupy a port.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # In local mode the driver's heap is the executors', too. Replays live in Python workers, outside of it.
    "spark.driver.memory": "3g",
}

#: What streams add, and why. They may be set while a session is running, and stay set.
STREAM_SETTINGS: Mapping[str, str] = {
    # State outside of the JVM's heap, and commits that write what has changed instead of all; maps and timers need it.
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A batch in Arrow is packed into one blob for each shard: larger ones make fewer blobs.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


def stream_settings(spark: SparkSession) -> None:
    """Set what streams need in a session, and no more shuffle partitions than there are cores."""
    for name, value in STREAM_SETTINGS.items():
        spark.conf.set(name, value)
    # Shards are spread over these; each partition costs a state store, and a task a batch. A checkpoint keeps its number.
    partitions = min(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), spark.sparkContext.defaultParallelism)
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def create_session(
    app_name: str = "request-purgatory", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one.

    Args:
        app_name: shown by cluster managers.
        master: as Spark's; unless given, that of the environment (spark-submit), or else `local[*]`.
        settings: further ones of Spark's, for a new session.

    Raises:
        JavaNotFoundError: no Java 17 or newer; says what to install.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    require_java()
    # Workers must run this very interpreter: another one's NumPy or Arrow, or none, would fail far from here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName(app_name)
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    submitted = "MASTER" in os.environ or "SPARK_REMOTE" in os.environ or "SPARK_ENV_LOADED" in os.environ
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
        for name, value in LOCAL_SETTINGS.items():
            builder = builder.config(name, value)
        log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
        builder = builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log_settings}")
    session: SparkSession = builder.getOrCreate()
    return session
