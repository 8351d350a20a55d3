"""The one place where Spark sessions are made."""

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

#: What results depend on, and why: set whatever a cluster says.
SETTINGS: Mapping[str, str] = {
    # Timestamps mean UTC, whatever the machine's zone; traces are compared to the microsecond.
    "spark.sql.session.timeZone": "UTC",
    # Parquet's default, INT96, is deprecated, and few other readers keep its microseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With column pruning, the CSV reader does not look at columns that nobody asks for, and a
    # malformed row passes as good.
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    # pandas and Arrow write timestamps of nanoseconds, which Spark reads as whole numbers or not at
    # all.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}

#: What suits this work, and why; what spark-submit, a Connect server or a cluster's
#: spark-defaults.conf say wins over it.
DEFAULTS: Mapping[str, str] = {
    # A shuffle by host must keep hosts apart: adaptive execution would join small partitions into
    # one task, and the hosts of a small but slow replay would run one after the other.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    # Few enough to be cheap on two cores, enough that a handful of hosts seldom hash to one
    # partition.
    "spark.sql.shuffle.partitions": "16",
    # pandas only where we ask for it; when we do, by Arrow.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A Python worker that raises tells its own traceback, without the JVM's hundred lines around
    # it.
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}

#: Where Spark runs inside this process's machine, and nobody else has said anything.
LOCAL_SETTINGS: Mapping[str, str] = {
    # Nothing listens beyond this machine.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Progress is shown by this package; the page would only occupy a port.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # In local mode the driver's heap is the executors', too. Replays live in Python workers,
    # outside of it.
    "spark.driver.memory": "3g",
}

#: What streams add, and why. They may be set while a session is running, and stay set.
STREAM_SETTINGS: Mapping[str, str] = {
    # State outside of the JVM's heap, and commits that write what has changed instead of all; maps
    # and timers need it.
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A batch in Arrow is packed into one blob for each shard: larger ones make fewer blobs.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def stream_settings(spark: SparkSession) -> None:
    """Set what streams need in a session.

    On one machine, no more shuffle partitions than there are cores.
    """
    for name, value in STREAM_SETTINGS.items():
        spark.conf.set(name, value)
    if on_one_machine(spark):
        # Shards are spread over these; each partition costs a state store, and a task a batch. A
        # checkpoint keeps its number. (A cluster may have few of its cores yet when a session
        # begins.)
        partitions = min(
            int(spark.conf.get("spark.sql.shuffle.partitions") or 1), parallelism(spark)
        )
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def parallelism(spark: SparkSession) -> int:
    """How many tasks Spark makes of what says nothing about it: on one machine, its cores."""
    context: Any = getattr(spark, "sparkContext", None)
    if context is not None:
        return int(context.defaultParallelism)
    # Connect's clients are not told.
    return spark.range(0, 2**16).select(F.spark_partition_id()).distinct().count()


def on_one_machine(spark: SparkSession) -> bool:
    """True if the driver's machine runs all tasks, and so has all files."""
    return _is_local(spark.conf.get("spark.master", "") or "")


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _is_given(environment: Mapping[str, str]) -> bool:
    """True if somebody has said where Spark runs.

    Spark-submit, or the environment, or a spark-defaults.conf.
    """
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
    """The running session, or a new one.

    Args:
        app_name: shown by cluster managers, unless spark-submit has another.
        master: as Spark's; unless given, what spark-submit or the environment say (a Spark Connect
            server by SPARK_REMOTE), or else `local[*]`.
        settings: further ones of Spark's, for a new session; options for the driver's JVM are added
            to ours.

    Raises:
        JavaNotFoundError: no Java 17 or newer; says what to install.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.Builder()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit, which always has a name
        builder = builder.appName(app_name)
    if master is None and not _is_given(os.environ):
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
        # Workers must run this very interpreter: another one's NumPy or Arrow, or none, would fail
        # far from here.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session: SparkSession = builder.getOrCreate()
    given: dict[str, str] = session.conf.getAll
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    for name, value in DEFAULTS.items():
        if name not in given:
            session.conf.set(name, value)
    return session
