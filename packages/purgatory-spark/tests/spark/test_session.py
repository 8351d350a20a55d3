"""Tests of Spark sessions with the default settings and with those of a caller."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

from purgatory_spark._spark import session
from purgatory_spark._spark.small_files import are_small
from tests.spark.job import job
from tests.spark.session_application import WORKLOAD, java_options
from tests.spark.spark_session import JAVA_OPTIONS

APPLICATION = Path(__file__).with_name("session_application.py")


@pytest.mark.jvm
def test_pipeline_with_default_settings(tmp_path: Path) -> None:
    """Replay and batch agree with adaptive planning, several partitions and both JIT compilers.

    Other tests run with the settings of `tests/support/spark_session.py`.
    """
    out = tmp_path / "out"
    out.mkdir()
    with job([sys.executable, str(APPLICATION), str(out)], tmp_path / "log") as running:
        found = json.loads(running.wait_for_line("found: ").removeprefix("found: "))
        code, _ = running.wait()
    assert code == 0, running.describe()
    expected = session.SETTINGS | session.DEFAULTS | session.LOCAL_SETTINGS
    expected |= {"spark.master": "local[*]", "spark.sql.adaptive.enabled": "true"}
    assert {name: found["settings"].get(name) for name in expected} == expected
    assert not set(JAVA_OPTIONS.split()) & set(found["java_options"])
    agreement = {"design": "wheel", "rows": WORKLOAD.requests, "differing": 0, "example": None}
    assert found["compared"] == agreement


@pytest.mark.jvm
def test_small_session_starts_quickly(tmp_path: Path) -> None:
    names = ("spark.sql.adaptive.enabled", "spark.driver.extraJavaOptions")
    program = (
        "from purgatory_spark import create_session\n"
        "spark = create_session(small=True)\n"
        f"print('found:', *[spark.conf.get(name) for name in {names}])\n"
        "java = spark.sparkContext._jvm.java.lang\n"
        "print('path:', java.System.getProperty('java.class.path'))\n"
        "spark.stop()\n"
    )
    with job([sys.executable, "-c", program], tmp_path / "log") as running:
        adaptive, *options = running.wait_for_line("found: ").split()[1:]
        path = running.wait_for_line("path: ").split(os.pathsep)
        code, _ = running.wait()
    assert code == 0, running.describe()
    assert adaptive == "false"
    assert set(JAVA_OPTIONS.split()) <= set(options)
    jars = [name for name in map(os.path.basename, path) if name.endswith(".jar")]
    assert [re.split(r"[-_]\d", name)[0] for name in jars[: len(session._FIRST_JARS)]] == [
        *session._FIRST_JARS
    ]


def test_class_path_that_is_given_elsewhere_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    first = session._small_settings({})
    assert first["spark.driver.extraClassPath"].endswith(".jar")
    own = {"spark.driver.extraClassPath": "own.jar"}
    assert session._small_settings(own) == first | own
    with monkeypatch.context() as submitted:
        submitted.setenv("PYSPARK_SUBMIT_ARGS", "--driver-class-path own.jar pyspark-shell")
        assert "spark.driver.extraClassPath" not in session._small_settings({})
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraClassPath own.jar\n")
    assert "spark.driver.extraClassPath" not in session._small_settings({})


def test_small_inputs_are_files_of_few_bytes(tmp_path: Path) -> None:
    for name, size in (("a.csv", 15 * 2**20), ("b/c.csv.gz", 2 * 2**20), ("d.parquet", 2**22)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)
    calls = tmp_path / "a.csv"
    assert are_small(calls, None)
    assert are_small(f"csv:{calls}")
    assert are_small(str(tmp_path / "b"))
    # Packed files have more rows, and several inputs are added up.
    assert not are_small(calls, tmp_path / "b")
    assert not are_small(tmp_path / "d.parquet")
    assert not are_small(tmp_path)
    # Of these nothing is known.
    assert not are_small("s3a://bucket/calls.csv")
    assert not are_small("table:calls")


def test_java_options_of_the_caller_are_added(spark: SparkSession) -> None:
    options = java_options(spark)
    log_settings = Path(session.__file__).with_name("log4j2.properties").as_uri()
    assert f"-Dlog4j2.configurationFile={log_settings}" in options
    assert set(JAVA_OPTIONS.split()) <= set(options)


def test_local_checkpoints_have_a_file_manager_that_starts_no_programs(spark: SparkSession) -> None:
    settings = session.local_checkpoint_settings(spark)
    ((name, class_name),) = settings.items()
    assert name == "spark.sql.streaming.checkpointFileManagerClass"
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    parts = jvm.java.lang.Class.forName(class_name).getInterfaces()
    assert any(part.getName().endswith(".CheckpointFileManager") for part in parts)
    own = spark.newSession()
    own.conf.set(name, "org.example.Manager")
    assert session.local_checkpoint_settings(own) == {}


@pytest.mark.parametrize(
    ("partitions", "configured", "cores", "found"),
    [
        # A partition for each shard, however many this package has by default.
        ("16", False, None, [16, 4, 64]),
        ("16", True, None, [16, 4, 16]),
        ("8", False, None, [8, 4, 8]),
        ("16", False, 2, [2, 2, 2]),
    ],
)
def test_state_partitions_follow_the_shards(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    partitions: str,
    configured: bool,
    cores: int | None,
    found: list[int],
) -> None:
    name = "spark.sql.shuffle.partitions"
    conf = SparkConf(loadDefaults=False)
    if configured:
        conf.set(name, "16")
    monkeypatch.setattr(spark.sparkContext, "getConf", lambda: conf)
    monkeypatch.setattr(session, "on_one_machine", lambda spark: cores is not None)
    monkeypatch.setattr(session, "parallelism", lambda spark: cores)
    for shards, expected in zip((None, 4, 64), found, strict=True):
        own = spark.newSession()
        own.conf.set(name, partitions)
        session.apply_stream_settings(own, shards=shards)
        assert own.conf.get(name) == str(expected)
