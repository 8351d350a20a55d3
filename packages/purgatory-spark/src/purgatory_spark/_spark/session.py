"""Create Spark sessions; no other module does."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pyspark
from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._spark.java import require_java

_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

#: Settings of every session of this module. They override a cluster's configuration. No function of
#: the package needs the first two: they are for what users do with its results.
SETTINGS: Mapping[str, str] = {
    # Times are shown in UTC in every time zone, and text without a zone is in UTC.
    "spark.sql.session.timeZone": "UTC",
    # Parquet's default, INT96, is deprecated, and few other readers keep its microseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # RocksDB keeps state outside the JVM's heap. Spark's default cannot store the maps and timers
    # of `delayed_operations`.
    _STATE_STORE: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}

#: Settings that suit this work. Those of spark-submit, of a Spark Connect server and of a cluster's
#: spark-defaults.conf override them.
DEFAULTS: Mapping[str, str] = {
    # Adaptive execution would merge small partitions into one task, and that task would replay its
    # hosts one after the other.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    # Few enough to be cheap on two cores, and enough that a few hosts rarely share a partition.
    _PARTITIONS: "16",
    # Conversions to and from pandas use Arrow.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The largest number means no limit. With one, Spark adds up the sizes of all columns for every
    # row that it gives to Python, which takes half of the time. Batches have limited rows, too.
    _ARROW_BYTES: str(2**31 - 1),
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

#: Options of a JVM that this module starts for a small input. What runs once does not need the
#: optimizing compiler, nor a small heap parallel collection. With room for what most runs allocate,
#: and for Spark's classes, there is hardly one.
_SMALL_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn512m -XX:MetaspaceSize=256m"

#: Further settings of such a JVM.
_SMALL_LOCAL_SETTINGS: Mapping[str, str] = {
    # The only ones are those of MLlib, which start Scala's reflection: nearly a second.
    "spark.sql.extensions.test.loadFromCp": "false",
}

_CLASS_PATH = "spark.driver.extraClassPath"
#: The jars with most of the classes that Spark loads. Java looks for each class in one jar after
#: the other, and Spark has 280 in no order. With these in front, a run takes a second less.
_FIRST_JARS = (
    *("scala-library", "spark-catalyst", "spark-sql", "spark-core", "spark-sql-api"),
    *("scala-reflect", "parquet-column", "log4j-core", "jackson-databind", "hadoop-client-api"),
)

#: Settings for a small input, in place of those of `DEFAULTS`. With all of these, 40,000 requests
#: took a whole run 35 s of CPU instead of 71, and 27 jobs instead of 55.
_SMALL_DEFAULTS: Mapping[str, str] = {
    # More tasks would cost more than the rows.
    _PARTITIONS: str(min(4, os.cpu_count() or 1)),
    # Adaptive execution makes a job of each exchange, and plans anew after it.
    "spark.sql.adaptive.enabled": "false",
}

#: So many requests and events are a small input.
_SMALL_ROWS = 400_000

#: Settings of streams, on which their results depend.
REQUIRED_STREAM_SETTINGS: Mapping[str, str] = {
    _STATE_STORE: SETTINGS[_STATE_STORE],
    # The watermark is the lower one of both inputs; with "max", rows of the slower one are late.
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    # Without a batch after the last rows, requests that have ended are not written.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}

#: All settings of streams.
STREAM_SETTINGS: Mapping[str, str] = {
    **REQUIRED_STREAM_SETTINGS,
    # With changelog checkpoints a commit writes only what changed.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Each Arrow batch becomes one blob per shard, so larger batches make fewer blobs.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    _ARROW_BYTES: DEFAULTS[_ARROW_BYTES],
}

_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


class SessionSettingError(ValueError):
    """A session's setting does not suit a function; the message names both values and the remedy.

    Nothing was read or written.
    """


def apply_stream_settings(spark: SparkSession, *, shards: int | None = None) -> None:
    """Apply `STREAM_SETTINGS`, and set the number of state partitions.

    This is for sessions of your own that start queries of `delayed_operations`. `run_stream` uses a
    session of its own.

    Spark has as many state partitions as shuffle partitions, and each costs a state store and a
    task per batch. There are at most as many as shards, and on one machine as cores. With `shards`
    and nothing else configured, there are as many as shards. A checkpoint keeps its number.

    Args:
        spark: The session, whose settings are changed.
        shards: The number of shards of the query. None limits the partitions by the cores alone.
    """
    for name, value in STREAM_SETTINGS.items():
        spark.conf.set(name, value)
    partitions = int(spark.conf.get(_PARTITIONS) or 1)
    if shards is not None:
        partitions = min(shards, partitions) if _has_own_partitions(spark) else shards
    if on_one_machine(spark):
        # A cluster may have only a few of its cores when a session starts.
        partitions = min(partitions, parallelism(spark))
    spark.conf.set(_PARTITIONS, str(partitions))


def _has_own_partitions(spark: SparkSession) -> bool:
    """Return whether somebody has chosen the number of partitions, other than `DEFAULTS`."""
    given: dict[str, str] = spark.conf.getAll
    if given.get(_PARTITIONS, DEFAULTS[_PARTITIONS]) != DEFAULTS[_PARTITIONS]:
        return True
    return not _is_remote(spark) and bool(spark.sparkContext.getConf().contains(_PARTITIONS))


def local_checkpoint_settings(spark: SparkSession) -> dict[str, str]:
    """Return settings for streams whose checkpoint is on a local or mounted file system.

    Spark writes about eight small files a micro-batch beside their places and renames them. By
    default it does that with an interface of Hadoop's that starts the program `readlink` eight
    times for each file, unless Hadoop's native libraries are installed. Spark's other manager
    renames files within the JVM. On a local file system the two promise the same; on others the
    default is the better one.

    Returns the settings; none if the session has its own, or is one of Spark Connect, which does
    not show where the class is.
    """
    if _is_remote(spark) or spark.conf.get(_FILE_MANAGER, None) is not None:
        return {}
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no public access to it
    streaming = jvm.org.apache.spark.sql.execution.streaming
    # Where it is depends on Spark's version.
    for package in ("checkpointing.", ""):
        name = f"{package}FileSystemBasedCheckpointFileManager"
        found = streaming
        for part in name.split("."):
            found = getattr(found, part)
        if isinstance(found, JavaClass):
            return {_FILE_MANAGER: f"org.apache.spark.sql.execution.streaming.{name}"}
    return {}


def require_stream_settings(spark: SparkSession) -> None:
    """Check `REQUIRED_STREAM_SETTINGS`.

    Any state store is accepted but Spark's default, since providers of RocksDB differ by platform.
    """
    for name, needed in REQUIRED_STREAM_SETTINGS.items():
        found = spark.conf.get(name) or ""
        if name == _STATE_STORE:
            suits = not found.endswith("HDFSBackedStateStoreProvider")
        else:
            suits = found.lower() == needed
        if not suits:
            raise SessionSettingError(
                f"{name} is {found!r} in this Spark session, and delayed_operations needs "
                f"{needed!r}: call apply_stream_settings(spark) of purgatory_spark.stream, or "
                "set it yourself"
            )


def session_beside(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session of the same Spark application, with its settings and further ones.

    The given session is not changed. Do not stop the new one, as that would stop Spark: see
    `close_session_beside`.
    """
    own: Any = spark
    # Spark Connect has `newSession` since 4.3 only.
    beside = own.cloneSession() if _is_remote(spark) else own.newSession()
    given: dict[str, str] = spark.conf.getAll
    for name, value in (given | dict(settings)).items():
        # Those of the application cannot be set, and are the same in both.
        if beside.conf.isModifiable(name) and beside.conf.get(name, None) != value:
            beside.conf.set(name, value)
    return cast(SparkSession, beside)


def small_partitions(spark: SparkSession) -> int:
    """Return how many tasks take the rows of a small input."""
    return min(int(spark.conf.get(_PARTITIONS) or 1), int(_SMALL_DEFAULTS[_PARTITIONS]))


def is_small(rows: int) -> bool:
    """Return whether so many requests and events are a small input."""
    return rows <= _SMALL_ROWS


@contextmanager
def session_for(spark: SparkSession, rows: int) -> Iterator[SparkSession]:
    """Yield a session for jobs on the rows of files: the given one, or for few rows one beside it.

    The latter has the settings of small inputs, as the given one must not be changed.
    """
    if not is_small(rows) or _is_remote(spark):
        yield spark
        return
    settings = {**_SMALL_DEFAULTS, _PARTITIONS: str(small_partitions(spark))}
    if all(spark.conf.get(name, None) == value for name, value in settings.items()):
        yield spark
    else:
        yield session_beside(spark, settings)


def close_session_beside(session: SparkSession) -> None:
    """Release a session of `session_beside`; Spark itself is not stopped."""
    if _is_remote(session):  # Others have nothing to release, and `stop` would stop Spark.
        remote: Any = session
        remote.client.release_session()
        remote.client.close()


def _is_remote(session: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect, which has no context."""
    return getattr(session, "sparkContext", None) is None


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
    defaults = _defaults_of(environment)
    return re.search(r"^\s*spark\.(master|remote)[\s=:]", defaults, re.MULTILINE) is not None


def _defaults_of(environment: Mapping[str, str]) -> str:
    """Return the text of spark-defaults.conf; none if there is no such file."""
    folder = environment.get("SPARK_CONF_DIR") or os.path.join(
        environment.get("SPARK_HOME", ""), "conf"
    )
    try:
        return (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return ""


def _small_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given settings, and further ones of a JVM for a small input."""
    settings = {**_SMALL_LOCAL_SETTINGS, **given}
    elsewhere = _defaults_of(os.environ) + os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if not re.search("extraClassPath|driver-class-path", elsewhere):
        jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
        first = [sorted(jars.glob(f"{name}[-_][0-9]*.jar")) for name in _FIRST_JARS]
        settings.setdefault(_CLASS_PATH, os.pathsep.join(map(str, chain(*first))))
    return settings


def create_session(
    app_name: str = "request-purgatory",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    small: bool = False,
) -> SparkSession:
    """Return a session with the settings of this module, and start Spark if it is not running.

    If Spark is running, its session is returned if it has `SETTINGS`. Otherwise a new session of
    the same application is, and the running one is not changed.

    Args:
        app_name: Name in cluster managers; spark-submit's `--name` overrides it.
        master: Spark master URL. None means what spark-submit or the environment choose (for Spark
            Connect: SPARK_REMOTE), and otherwise `local[*]`.
        settings: Further Spark settings if Spark is started. In local mode, JVM options in
            `spark.driver.extraJavaOptions` are added to those of this module.
        small: Start quickly instead of running fast, for some hundred thousand rows. It is for a
            session in local mode that this function starts.

    Returns:
        The session.

    Raises:
        JavaNotFoundError: There is no Java 17 or newer; the message has the command to install one.
    """
    running = _running_session()
    if running is not None:
        if all(running.conf.get(name, None) == value for name, value in SETTINGS.items()):
            return running
        return session_beside(running, _with_defaults(running))
    if master is None and not _has_master(os.environ):
        master = "local[*]"
    options: dict[str, Any] = dict(settings or {})
    if master is not None and _is_local(master):
        log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
        if small:
            options = _small_settings(options)
        small_options = _SMALL_JAVA_OPTIONS if small else ""
        given = (f"-Dlog4j2.configurationFile={log_settings}", small_options)
        java_options = " ".join(filter(None, (*given, options.get(_JAVA_OPTIONS, ""))))
        options |= {**LOCAL_SETTINGS, _JAVA_OPTIONS: java_options}
    else:
        small = False
    builder = SparkSession.Builder()
    # spark-submit sets this variable, and always sets a name.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.appName(app_name)
    builder = builder.config(map=options)
    if master is not None:
        builder = builder.master(master)
    if master is not None or not os.environ.get("SPARK_REMOTE", "").startswith("sc://"):
        require_java()
        # Workers must run this interpreter. With another one, a missing or different NumPy or Arrow
        # would fail only when the first task runs.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session: SparkSession = builder.getOrCreate()
    for name, value in _with_defaults(session, _SMALL_DEFAULTS if small else {}).items():
        session.conf.set(name, value)
    return session


def _running_session() -> SparkSession | None:
    """Return the session of this thread, or of the application; None if Spark is not running."""
    active = SparkSession.getActiveSession()
    if active is not None or SparkContext._active_spark_context is None:  # noqa: SLF001
        return active
    # A thread without a session of its own. This builder has no settings that it would change.
    return SparkSession.Builder().getOrCreate()


def _with_defaults(
    session: SparkSession, instead: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return `SETTINGS`, and those of `DEFAULTS` that the session's configuration leaves open.

    `instead`: values in place of those of `DEFAULTS`.
    """
    configured: dict[str, str] = session.conf.getAll
    defaults = {**DEFAULTS, **(instead or {})}
    return dict(SETTINGS) | {
        name: value for name, value in defaults.items() if name not in configured
    }
