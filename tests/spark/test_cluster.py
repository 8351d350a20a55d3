"""Beyond one process.

The archive, spark-submit on a cluster of two workers with one of them killed, Spark Connect.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.spark import session, workers
from request_purgatory.pipeline.spark.archive import make_archive, requirement
from request_purgatory.pipeline.traces.output_folder import OutputExistsError
from tests.spark.job import TIME_LIMIT, clean_environment, job, quick_spark
from tests.spark.stream_files import (
    StreamTrace,
    expected_outcomes,
    stream_arguments,
    stream_command,
    stream_trace,
    write_trace,
    written_outcomes,
)
from tests.support.ports import free_ports

pytestmark = pytest.mark.timeout(3 * TIME_LIMIT)

APPLICATION = Path(__file__).with_name("cluster_application.py")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, made by the command."""
    target = tmp_path_factory.mktemp("archive") / "env.tar.gz"
    arguments = [sys.executable, "-m", "request_purgatory.cli.main", "archive", str(target)]
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"--archives {target}#env" in done.stdout
    return target


#: For tests that share the archive, which takes a minute to make: one process makes it, and has
#: them all.
of_archive = pytest.mark.xdist_group("archive")


@pytest.fixture
def trace(tmp_path: Path) -> StreamTrace:
    """Requests and events, written to `tmp_path` in three files of each."""
    trace = stream_trace(hosts=4, requests=3_000)
    write_trace(tmp_path, trace, files=3)
    return trace


def submit_command(
    home: Path, python: str, master: str, settings: dict[str, str], *options: str
) -> list[str]:
    """Return the beginning of a command line of spark-submit, in a Spark home of its own.

    Args:
        home: Where that is made; the executors work in its folder `work`.
        python: The executors' interpreter.
        master: As Spark's.
        settings: Of Spark's.
        options: Further ones, of spark-submit.
    """
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name in ("bin", "jars", "python"):
            # Workers work in the folder beside these.
            (home / part.name).symlink_to(part)
    given = {
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        **settings,
    }
    submit = [str(home / "bin" / "spark-submit"), "--master", master, *options]
    for name, value in given.items():
        submit += ["--conf", f"{name}={value}"]
    return submit


@pytest.mark.jvm
@of_archive
def test_archive_has_the_compiled_package_and_no_spark(archive: Path) -> None:
    """From a wheel: this installation is an editable one."""
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert [
        name for name in names if "/request_purgatory/timer/wheel." in name and name.endswith(".so")
    ]
    assert "bin/python" in names
    assert not [
        name for name in names if "/site-packages/pyspark/" in name or "__editable__" in name
    ]


@pytest.mark.jvm
@pytest.mark.smoke
def test_submitted_to_a_worker_of_another_process(tmp_path: Path) -> None:
    """With this environment instead of the archive.

    The executor and the driver agree, and the stream runs there.
    """
    trace = stream_trace(hosts=2, requests=1_000)
    write_trace(tmp_path, trace, files=2)
    home, master = tmp_path / "spark", "local-cluster[1,2,1024]"
    submit = submit_command(home, sys.executable, master, {})
    arguments = stream_arguments(tmp_path, tmp_path, "--finish")
    environment = {**quick_spark(tmp_path), "SPARK_HOME": str(home)}
    with job([*submit, str(APPLICATION), *arguments], tmp_path / "log", **environment) as submitted:
        found = json.loads(submitted.until("found: ").removeprefix("found: "))
        code, said = submitted.end()
    assert code == 0, submitted.log.read_text()[-3000:]
    assert list((home / "work").glob("app-*/0")), "no executor worked beside the driver"
    assert found["settings"]["spark.master"] == master
    assert (found["requests"], found["alike"]) == (500, 500)
    assert "batch 1:" in said
    assert written_outcomes(tmp_path) == expected_outcomes(trace)


@pytest.mark.jvm
@of_archive
def test_submitted_to_two_workers_of_which_one_is_killed(archive: Path, tmp_path: Path) -> None:
    """The executors have the package from the archive alone, and the stream's rows are those of the definition."""
    trace = stream_trace(hosts=4, requests=4_000)
    write_trace(tmp_path, trace, files=4)
    home = tmp_path / "spark"
    # Spark starts a process on the driver by the name that the executors have for their
    # interpreter.
    (tmp_path / "env").symlink_to(sys.prefix)
    options = ("--archives", f"{archive}#env", "--driver-memory", "900m", "--name", "submitted")
    settings = {"spark.sql.shuffle.partitions": "3"}
    submit = submit_command(home, "./env/bin/python", "local-cluster[2,1,1024]", settings, *options)
    metrics = tmp_path / "metrics.jsonl"
    arguments = stream_arguments(tmp_path, tmp_path, "--finish", "--metrics", str(metrics))
    environment = {**quick_spark(tmp_path), "SPARK_HOME": str(home)}
    with job([*submit, str(APPLICATION), *arguments], tmp_path / "log", **environment) as submitted:
        found = json.loads(submitted.until("found: ").removeprefix("found: "))
        submitted.until("batch 1:")
        executors = submitted.with_word(b"org.apache.spark.executor.CoarseGrainedExecutorBackend")
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)
        code, said = submitted.end()
    assert code == 0, said
    assert {
        Path(worker["file"]).relative_to(worker["prefix"]).parts[0] for worker in found["workers"]
    } == {"lib"}
    assert all(
        Path(worker["prefix"]).is_relative_to(home / "work") and worker["compiled"]
        for worker in found["workers"]
    )
    assert found["settings"] == {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.sql.shuffle.partitions": "3",
        # What results depend on is ours.
        "spark.sql.session.timeZone": "UTC",
        "spark.app.name": "submitted",
    }
    assert found["memory"] == "900m"
    assert (found["requests"], found["alike"]) == (500, 500)
    assert list((home / "work").glob("app-*/2")), "no executor took the killed one's place"
    assert written_outcomes(tmp_path) == expected_outcomes(trace)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert sum(line["completed"] + line["expired"] for line in lines) == 4_000


@pytest.mark.jvm
def test_spark_connect_gives_the_same_rows(trace: StreamTrace, tmp_path: Path) -> None:
    """A server of its own; workload, replay, batch and stream by way of it."""
    pytest.importorskip("grpc")
    (port,) = free_ports(1)
    server = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    server += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    server += [
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        "spark.connect.grpc.binding.address=127.0.0.1",
    ]
    server += ["--conf", f"spark.connect.grpc.binding.port={port}"]
    environment = {**quick_spark(tmp_path), "PYSPARK_PYTHON": sys.executable}
    with job([*server, "spark-internal"], tmp_path / "server", **environment):
        _await_port(port)
        arguments = [
            sys.executable,
            str(APPLICATION),
            *stream_arguments(tmp_path, tmp_path, "--finish"),
        ]
        with job(arguments, tmp_path / "client", SPARK_REMOTE=f"sc://127.0.0.1:{port}") as client:
            found = json.loads(client.until("found: ").removeprefix("found: "))
            code, said = client.end()
    assert code == 0, said
    assert (found["requests"], found["alike"]) == (500, 500)
    assert written_outcomes(tmp_path) == expected_outcomes(trace)
    assert "batch 1:" in said


def _await_port(port: int) -> None:
    waiting = threading.Event()
    for _ in range(int(TIME_LIMIT / 0.2)):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            waiting.wait(0.2)
        else:
            return
    pytest.fail(f"nothing listens on {port}")


@pytest.mark.jvm
def test_stream_that_is_told_to_stop_says_so_and_goes_on_later(
    trace: StreamTrace, tmp_path: Path
) -> None:
    """By SIGINT, as Ctrl-C sends it to the whole group, and by SIGTERM.

    No traceback, nothing lost, no talk of Spark's own.
    """
    arguments = stream_command(tmp_path, tmp_path)
    environment = quick_spark(tmp_path)
    with job(arguments, tmp_path / "log", **environment) as running:
        running.until("batch 0:")
        os.killpg(running.process.pid, signal.SIGINT)
        code, _ = running.end()
    assert code == 130
    assert (tmp_path / "log").read_text() == _stopped("SIGINT", tmp_path)
    with job(arguments, tmp_path / "log", **environment) as running:
        running.until("batch ")
        running.process.send_signal(signal.SIGTERM)
        code, _ = running.end()
    assert code == 143
    assert (tmp_path / "log").read_text() == _stopped("SIGTERM", tmp_path)
    with job([*arguments, "--finish"], tmp_path / "log", **environment) as running:
        assert running.end()[0] == 0
    assert written_outcomes(tmp_path) == expected_outcomes(trace)


def _stopped(name: str, folder: Path) -> str:
    return f"purgatory: stopped by {name}; the same command goes on from {folder / 'checkpoint'}\n"


@pytest.mark.parametrize(
    ("environment", "given"),
    [
        ({}, False),
        ({"PYSPARK_GATEWAY_PORT": "1"}, True),
        ({"SPARK_ENV_LOADED": "1"}, True),
        ({"SPARK_REMOTE": "sc://host"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"}, True),
        ({"PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell"}, False),
    ],
    ids=str,
)
def test_what_says_where_spark_runs_is_seen(environment: dict[str, str], given: bool) -> None:
    """And otherwise it is this machine."""
    assert session._is_given(environment) is given


@pytest.mark.parametrize(
    ("line", "given"), [("spark.master  yarn", True), ("# spark.master yarn", False), ("", False)]
)
def test_master_of_spark_defaults_is_seen(line: str, given: bool, tmp_path: Path) -> None:
    """In the folder that Spark takes it from."""
    (tmp_path / "spark-defaults.conf").write_text(f"spark.executor.cores 4\n{line}\n")
    assert session._is_given({"SPARK_CONF_DIR": str(tmp_path)}) is given


def test_workers_are_asked_for_the_package_and_the_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with another version, or that does not see the folder, ends it before any work."""
    monkeypatch.setattr(workers, "on_one_machine", lambda spark: False)
    workers.require_workers(spark, tmp_path)
    assert not list(tmp_path.iterdir())
    (machine, version, sees), *others = workers._look_from(spark, str(tmp_path / "nowhere"))
    assert (machine, version, sees, others) == (
        socket.gethostname(),
        workers.version("request-purgatory"),
        False,
        [],
    )

    def differing(*arguments: Any) -> list[tuple[str, str | None, bool]]:
        return looked

    monkeypatch.setattr(workers, "_look_from", differing)
    looked: list[tuple[str, str | None, bool]] = [("here", version, True), ("there", None, True)]
    with pytest.raises(
        workers.WorkersError, match=r"workers on there have no request_purgatory, .* --archives"
    ):
        workers.require_workers(spark, tmp_path)
    looked = [("there", version, False)]
    with pytest.raises(workers.WorkersError, match=r"workers on there do not see this folder"):
        workers.require_workers(spark, tmp_path)


def test_driver_without_the_workers_interpreter_is_told_what_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a stateful query fails on it."""
    monkeypatch.chdir(tmp_path)
    workers.require_stream_helper(spark)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "./env/bin/python")
    with pytest.raises(workers.WorkersError, match=rf"no such file in .* ln -s {sys.prefix} env$"):
        workers.require_stream_helper(spark)
    (tmp_path / "env").symlink_to(sys.prefix)
    workers.require_stream_helper(spark)


def test_archive_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """Another ending, or a file that is there."""
    with pytest.raises(InvalidArgumentError, match=r"ends with \.tar\.gz or \.tgz, got"):
        make_archive(tmp_path / "env.zip")
    (tmp_path / "env.tgz").write_text("mine")
    with pytest.raises(OutputExistsError, match="exists already"):
        make_archive(tmp_path / "env.tgz")


def test_archive_is_made_from_where_the_package_came_from_or_what_is_asked_for(
    tmp_path: Path,
) -> None:
    """A folder, a wheel, or a requirement as it stands."""
    assert requirement(str(tmp_path)) == f"request-purgatory[cluster] @ {tmp_path.as_uri()}"
    assert requirement("request-purgatory[cluster]==9") == "request-purgatory[cluster]==9"
    assert requirement("https://host/a.whl") == "request-purgatory[cluster] @ https://host/a.whl"
    assert requirement().startswith("request-purgatory[cluster]")
