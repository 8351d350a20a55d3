"""Create Spark sessions; no other module does."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.spark.java import require_java

#: Settings that results depend on. They override a cluster's configuration.
SETTINGS: Mapping[str, str] = {
    # Timestamps are UTC in every time zone; traces are compared to the microsecond.
    "spark.sql.session.timeZone": "UTC",
    # Parquet's default, INT96, is deprecated, and few other readers keep its microseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With column pruning the CSV reader skips columns that are not selected, and accepts a
    # malformed row.
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    # pandas and Arrow write timestamps in nanoseconds. Spark reads them as integers with this
    # setting, and not at all without it.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}

#: Settings that suit this work. Those of spark-submit, of a Spark Connect server and of a cluster's
#: spark-defaults.conf override them.
DEFAULTS: Mapping[str, str] = {
    # Adaptive execution would merge small partitions into one task, and that task would replay its
    # hosts one after the other.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    # Few enough to be cheap on two cores, and enough that a few hosts rarely share a partition.
    "spark.sql.shuffle.partitions": "16",
    # Conversions to and from pandas use Arrow.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # An exception in a Python worker is reported by its own traceback, without the JVM's hundred
    # lines.
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}

#: Settings of a session that this module starts in local mode.
LOCAL_SETTINGS: Mapping[str, str] = {
    # Spark listens on the loopback interface only.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # `job_progress` shows the progress; the web page would only occupy a port.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # In local mode the driver's heap is also the executors' heap. Replays run in Python workers,
    # whose memory is not part of it.
    "spark.driver.memory": "3g",
}

#: Settings of streams. They can be set in a running session, and stay set.
STREAM_SETTINGS: Mapping[str, str] = {
    # RocksDB keeps state outside the JVM's heap, and map state and timers need it. With changelog
    # checkpoints a commit writes only what changed.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Each Arrow batch becomes one blob per shard, so larger batches make fewer blobs.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def apply_stream_settings(spark: SparkSession) -> None:
    """Apply `STREAM_SETTINGS`, and on one machine limit the shuffle partitions to the cores."""
    for name, value in STREAM_SETTINGS.items():
        spark.conf.set(name, value)
    if on_one_machine(spark):
        # Shards are spread over shuffle partitions, and each partition costs a state store and a
        # task per batch. On a cluster the number is left alone: a checkpoint fixes it, and a
        # cluster may have only a few of its cores when a session starts.
        partitions = min(
            int(spark.conf.get("spark.sql.shuffle.partitions") or 1), parallelism(spark)
        )
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def parallelism(spark: SparkSession) -> int:
    """Return Spark's default number of tasks, which is the number of cores on one machine."""
    context: Any = getattr(spark, "sparkContext", None)
    if context is not None:
        return int(context.defaultParallelism)
    # Spark Connect has no such property; an unpartitioned range has the default number of tasks.
    return spark.range(0, 2**16).select(F.spark_partition_id()).distinct().count()


def on_one_machine(spark: SparkSession) -> bool:
    """Return whether Spark runs in local mode, where driver and tasks have the same files."""
    return _is_local(spark.conf.get("spark.master", "") or "")


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _has_master(environment: Mapping[str, str]) -> bool:
    """Return whether spark-submit, the environment or spark-defaults.conf choose a master."""
    if environment.keys() & {"PYSPARK_GATEWAY_PORT", "SPARK_ENV_LOADED", "SPARK_REMOTE", "MASTER"}:
        return True
    if re.search(
        r"--master\b|--remote\b|\bspark\.(master|remote)\b",
        environment.get("PYSPARK_SUBMIT_ARGS", ""),
    ):
        return True
    folder = environment.get("SPARK_CONF_DIR") or os.path.join(
        environment.get("SPARK_HOME", ""), "conf"
    )
    try:
        text = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(r"^\s*spark\.(master|remote)[\s=:]", text, re.MULTILINE) is not None


def create_session(
    app_name: str = "request-purgatory",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the active Spark session, or create one with the settings of this module.

    Args:
        app_name: Name in cluster managers; spark-submit's `--name` overrides it.
        master: Spark master URL. None means what spark-submit or the environment choose (for Spark
            Connect: SPARK_REMOTE), and otherwise `local[*]`.
        settings: Further Spark settings for a new session. In local mode, JVM options in
            `spark.driver.extraJavaOptions` are added to those of this module.

    Returns:
        The session. A session that is active already is returned unchanged.

    Raises:
        JavaNotFoundError: There is no Java 17 or newer; the message has the command to install one.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.Builder()
    # spark-submit sets this variable, and always sets a name.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.appName(app_name)
    if master is None and not _has_master(os.environ):
        master = "local[*]"
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    if master is not None:
        builder = builder.master(master)
        if _is_local(master):
            for name, value in LOCAL_SETTINGS.items():
                builder = builder.config(name, value)
            log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
            java_options = [
                f"-Dlog4j2.configurationFile={log_settings}",
                (settings or {}).get(_JAVA_OPTIONS, ""),
            ]
            builder = builder.config(_JAVA_OPTIONS, " ".join(java_options).strip())
    if master is not None or not os.environ.get("SPARK_REMOTE", "").startswith("sc://"):
        require_java()
        # Workers must run this interpreter. With another one, a missing or different NumPy or Arrow
        # would fail only when the first task runs.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session: SparkSession = builder.getOrCreate()
    configured: dict[str, str] = session.conf.getAll
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    for name, value in DEFAULTS.items():
        if name not in configured:
            session.conf.set(name, value)
    return session
