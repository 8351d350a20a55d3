"""Tests of the archive, and of spark-submit to clusters on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from purgatory_spark._output_folder import OutputExistsError
from purgatory_spark._spark import session, workers
from purgatory_spark._spark.archive import make_archive, requirement
from request_purgatory.errors import InvalidArgumentError
from tests.spark.job import TIME_LIMIT, await_port, clean_environment, job, quick_spark
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
    """Make an archive with the command."""
    target = tmp_path_factory.mktemp("archive") / "env.tar.gz"
    arguments = [sys.executable, "-m", "purgatory_spark", "archive", str(target)]
    finished = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        env=clean_environment(),
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert f"--archives {target}#env" in finished.stdout
    return target


#: Making the archive takes a minute, so the tests that use it run in one process.
of_archive = pytest.mark.xdist_group("archive")


@pytest.fixture
def trace(tmp_path: Path) -> StreamTrace:
    """Write requests and events to three files each in `tmp_path`."""
    trace = stream_trace(hosts=4, requests=3_000)
    write_trace(tmp_path, trace, files=3)
    return trace


def make_home(home: Path) -> None:
    """Make the Spark home `home`; executors' working folders are in `home/work`."""
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name in ("bin", "jars", "python"):
            # These are links, so that executors make the folder `work` in this home.
            (home / part.name).symlink_to(part)


def submit_command(
    home: Path, python: str, master: str, settings: dict[str, str], *options: str
) -> list[str]:
    """Return a spark-submit command line of the Spark home `home`, without the application.

    The executors' interpreter is `python`.
    """
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
def test_submit_to_one_worker(tmp_path: Path) -> None:
    trace = stream_trace(hosts=2, requests=1_000)
    write_trace(tmp_path, trace, files=2)
    home, master = tmp_path / "spark", "local-cluster[1,2,1024]"
    make_home(home)
    submit = submit_command(home, sys.executable, master, {})
    arguments = stream_arguments(tmp_path, tmp_path, "--drain")
    environment = {**quick_spark(tmp_path), "SPARK_HOME": str(home)}
    with job([*submit, str(APPLICATION), *arguments], tmp_path / "log", **environment) as submitted:
        found = json.loads(submitted.wait_for_line("found: ").removeprefix("found: "))
        code, said = submitted.wait()
    assert code == 0, submitted.describe()
    assert list((home / "work").glob("app-*/0")), "no executor worked beside the driver"
    assert found["settings"]["spark.master"] == master
    assert (found["requests"], found["alike"]) == (500, 500)
    assert "batch 1:" in said
    assert written_outcomes(tmp_path) == expected_outcomes(trace)


#: Seconds. A dozen JVMs start, and five of them unpack the archive.
_CLUSTER_LIMIT = 2.5 * TIME_LIMIT


@contextmanager
def standalone_cluster(home: Path, folder: Path) -> Iterator[str]:
    """Yield the URL of a master with two workers, which are started anew when they are killed."""
    port, environment = free_ports(1)[0], {**quick_spark(folder), "SPARK_HOME": str(home)}
    url = f"spark://127.0.0.1:{port}"
    deploy = f"'{home}/bin/spark-class' org.apache.spark.deploy"
    master = f"exec {deploy}.master.Master --host 127.0.0.1 --port {port} --webui-port 0"
    options = f"--host 127.0.0.1 --webui-port 0 --cores 1 --memory 1g --work-dir '{home}/work'"
    worker = f"while :; do {deploy}.worker.Worker {options} {url}; done"
    with ExitStack() as started:
        for name, script in (("master", master), ("worker 1", worker), ("worker 2", worker)):
            running = job(["sh", "-c", script], folder / name, limit=_CLUSTER_LIMIT, **environment)
            started.enter_context(running)
            if name == "master":
                await_port(port)
        yield url


@pytest.mark.jvm
@of_archive
def test_workers_of_a_standalone_cluster_are_killed(archive: Path, tmp_path: Path) -> None:
    """In the middle of a batch, of a replay and of a stream; the rows are exact."""
    trace = stream_trace(hosts=4, requests=4_000)
    write_trace(tmp_path, trace, files=3)
    home, kills = tmp_path / "spark", tmp_path / "kills"
    make_home(home)
    kills.mkdir()
    # Spark starts a helper process on the driver by the path of the executors' interpreter.
    (tmp_path / "env").symlink_to(sys.prefix)
    options = ("--archives", f"{archive}#env", "--driver-memory", "900m", "--name", "submitted")
    settings = {
        "spark.sql.shuffle.partitions": "3",
        "spark.executor.memory": "900m",
        # Pieces of a shuffle that are lost with a worker are asked for again a few times.
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "1s",
    }
    metrics = tmp_path / "metrics.jsonl"
    arguments = stream_arguments(tmp_path, tmp_path, "--drain", "--metrics", str(metrics))
    environment = {**quick_spark(tmp_path), "SPARK_HOME": str(home), "KILLS": str(kills)}
    with standalone_cluster(home, tmp_path) as master:
        submit = submit_command(home, "./env/bin/python", master, settings, *options)
        command = [*submit, str(APPLICATION), *arguments]
        with job(command, tmp_path / "log", limit=_CLUSTER_LIMIT, **environment) as submitted:
            found = json.loads(submitted.wait_for_line("found: ").removeprefix("found: "))
            submitted.wait_for_line("batch 1:")
            _kill_one_executor(home)
            code, _ = submitted.wait()
    assert code == 0, submitted.describe()
    assert {file.name for file in kills.iterdir()} == {"batch", "replay"}
    assert {
        Path(worker["file"]).relative_to(worker["prefix"]).parts[0] for worker in found["workers"]
    } == {"lib"}
    assert all(
        Path(worker["prefix"]).is_relative_to(home / "work") and worker["compiled"]
        for worker in found["workers"]
    )
    assert found["settings"] == {
        "spark.master": master,
        "spark.sql.shuffle.partitions": "3",
        # Results depend on this setting, so the package overrides it.
        "spark.sql.session.timeZone": "UTC",
        "spark.app.name": "submitted",
    }
    assert found["memory"] == "900m"
    assert (found["requests"], found["alike"], found["distinct"]) == (500, 500, 500)
    executors = {int(folder.name) for folder in home.glob("work/app-*/*")}
    assert len(executors) >= 5, "no executors took the places of the killed ones"
    assert written_outcomes(tmp_path) == expected_outcomes(trace)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert sum(line["completed"] + line["expired"] for line in lines) == 4_000
    # Unpacked archives of 370 MB, and copies of the archive.
    shutil.rmtree(home / "work")
    shutil.rmtree(tmp_path / "tmp")


def _kill_one_executor(home: Path) -> None:
    """Kill an executor whose folder is in this home, and the worker that has started it."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            folder = (process / "cwd").readlink()
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        is_executor = b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in arguments
        if is_executor and folder.is_relative_to(home / "work"):
            for pid in (parent, int(process.name)):
                os.kill(pid, signal.SIGKILL)
            return
    pytest.fail("there is no executor")


@pytest.mark.jvm
def test_stopped_stream_continues_with_the_same_command(trace: StreamTrace, tmp_path: Path) -> None:
    """SIGINT to the process group (Ctrl-C) and SIGTERM stop the stream without losing rows.

    The only output on stderr is the command's own message.
    """
    arguments = stream_command(tmp_path, tmp_path)
    environment = quick_spark(tmp_path)
    with job(arguments, tmp_path / "log", **environment) as running:
        running.wait_for_line("batch 0:")
        os.killpg(running.process.pid, signal.SIGINT)
        code, _ = running.wait()
    assert code == 130, running.describe()
    assert (tmp_path / "log").read_text() == _stopped("SIGINT", tmp_path)
    with job(arguments, tmp_path / "log", **environment) as running:
        running.wait_for_line("batch ")
        running.process.send_signal(signal.SIGTERM)
        code, _ = running.wait()
    assert code == 143, running.describe()
    assert (tmp_path / "log").read_text() == _stopped("SIGTERM", tmp_path)
    with job([*arguments, "--drain"], tmp_path / "log", **environment) as running:
        assert running.wait()[0] == 0, running.describe()
    assert written_outcomes(tmp_path) == expected_outcomes(trace)


def _stopped(name: str, folder: Path) -> str:
    return f"purgatory: stopped by {name}; the same command resumes from {folder / 'checkpoint'}\n"


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
def test_configured_master_is_detected(environment: dict[str, str], given: bool) -> None:
    assert session._has_master(environment) is given


@pytest.mark.parametrize(
    ("line", "given"), [("spark.master  yarn", True), ("# spark.master yarn", False), ("", False)]
)
def test_master_in_spark_defaults_is_detected(line: str, given: bool, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"spark.executor.cores 4\n{line}\n")
    assert session._has_master({"SPARK_CONF_DIR": str(tmp_path)}) is given


def test_workers_must_have_the_package_and_see_the_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "on_one_machine", lambda spark: False)
    workers.require_workers(spark, tmp_path)
    assert not list(tmp_path.iterdir())
    (machine, version, sees), *others = workers._probe_workers(spark, str(tmp_path / "nowhere"))
    assert (machine, version, sees, others) == (
        socket.gethostname(),
        workers.version("purgatory-spark"),
        False,
        [],
    )

    def fake_probe(*arguments: Any) -> list[tuple[str, str | None, bool]]:
        return answers

    monkeypatch.setattr(workers, "_probe_workers", fake_probe)
    answers: list[tuple[str, str | None, bool]] = [("here", version, True), ("there", None, True)]
    with pytest.raises(
        workers.WorkersError, match=r"workers on there have no purgatory-spark, .* --archives"
    ):
        workers.require_workers(spark, tmp_path)
    answers = [("there", version, False)]
    with pytest.raises(workers.WorkersError, match=r"workers on there do not see this folder"):
        workers.require_workers(spark, tmp_path)


def test_driver_must_have_the_path_of_the_workers_interpreter(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    workers.require_driver_python(spark)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "./env/bin/python")
    with pytest.raises(workers.WorkersError, match=rf"no such file in .* ln -s {sys.prefix} env$"):
        workers.require_driver_python(spark)
    (tmp_path / "env").symlink_to(sys.prefix)
    workers.require_driver_python(spark)


def test_archive_with_an_invalid_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"ends with \.tar\.gz or \.tgz, got"):
        make_archive(tmp_path / "env.zip")
    (tmp_path / "env.tgz").write_text("mine")
    with pytest.raises(OutputExistsError, match="exists already"):
        make_archive(tmp_path / "env.tgz")


def test_requirement_of_the_archive(tmp_path: Path) -> None:
    package = "purgatory-spark"
    assert requirement(package, str(tmp_path)) == f"{package} @ {tmp_path.as_uri()}"
    assert requirement(package, f"{package}==9") == f"{package}==9"
    assert requirement(package, "https://host/a.whl") == f"{package} @ https://host/a.whl"
    assert requirement(package).startswith(package)
