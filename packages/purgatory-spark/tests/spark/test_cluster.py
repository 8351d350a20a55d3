"""Tests of the archive, of spark-submit on local clusters, and of Spark Connect."""

from __future__ import annotations

import json
import os
import shutil
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

from purgatory_spark._output_folder import OutputExistsError
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._spark import session, workers
from purgatory_spark._spark.archive import make_archive, requirement
from request_purgatory.errors import InvalidArgumentError
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
TRACE_APPLICATION = Path(__file__).with_name("trace_application.py")


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


def submit_command(
    home: Path, python: str, master: str, settings: dict[str, str], *options: str
) -> list[str]:
    """Make the Spark home `home`, and return a spark-submit command line without the application.

    The executors' interpreter is `python`, and their working folders are in `home/work`.
    """
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name in ("bin", "jars", "python"):
            # These are links, so that executors make the folder `work` in this home.
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


@pytest.mark.jvm
@of_archive
def test_submit_to_two_workers_and_kill_one(archive: Path, tmp_path: Path) -> None:
    trace = stream_trace(hosts=4, requests=4_000)
    write_trace(tmp_path, trace, files=4)
    home = tmp_path / "spark"
    # Spark starts a helper process on the driver by the path of the executors' interpreter.
    (tmp_path / "env").symlink_to(sys.prefix)
    options = ("--archives", f"{archive}#env", "--driver-memory", "900m", "--name", "submitted")
    settings = {"spark.sql.shuffle.partitions": "3"}
    submit = submit_command(home, "./env/bin/python", "local-cluster[2,1,1024]", settings, *options)
    metrics = tmp_path / "metrics.jsonl"
    arguments = stream_arguments(tmp_path, tmp_path, "--drain", "--metrics", str(metrics))
    environment = {**quick_spark(tmp_path), "SPARK_HOME": str(home)}
    with job([*submit, str(APPLICATION), *arguments], tmp_path / "log", **environment) as submitted:
        found = json.loads(submitted.wait_for_line("found: ").removeprefix("found: "))
        submitted.wait_for_line("batch 1:")
        executors = submitted.find_pids(b"org.apache.spark.executor.CoarseGrainedExecutorBackend")
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)
        code, _ = submitted.wait()
    assert code == 0, submitted.describe()
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
        # Results depend on this setting, so the package overrides it.
        "spark.sql.session.timeZone": "UTC",
        "spark.app.name": "submitted",
    }
    assert found["memory"] == "900m"
    assert (found["requests"], found["alike"]) == (500, 500)
    assert list((home / "work").glob("app-*/2")), "no executor took the killed one's place"
    assert written_outcomes(tmp_path) == expected_outcomes(trace)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert sum(line["completed"] + line["expired"] for line in lines) == 4_000
    # Three unpacked archives of 370 MB, and two copies of the archive.
    shutil.rmtree(home / "work")
    shutil.rmtree(tmp_path / "tmp")


#: A mapping of the schema to itself.
MAPPED = [
    *(part for name in REQUESTS.names for part in ("--map", f"{name}={name}")),
    *(part for name in EVENTS.names for part in ("--map-events", f"{name}={name}")),
]


@pytest.mark.jvm
def test_spark_connect_gives_the_same_rows(trace: StreamTrace, tmp_path: Path) -> None:
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
    remote = f"sc://127.0.0.1:{port}"
    with job([*server, "spark-internal"], tmp_path / "server", **environment):
        _await_port(port)
        arguments = [
            sys.executable,
            str(APPLICATION),
            *stream_arguments(tmp_path, tmp_path, "--drain", *MAPPED),
        ]
        with job(arguments, tmp_path / "client", SPARK_REMOTE=remote) as client:
            found = json.loads(client.wait_for_line("found: ").removeprefix("found: "))
            code, said = client.wait()
        assert code == 0, client.describe()
        command = [sys.executable, str(TRACE_APPLICATION)]
        with job(command, tmp_path / "trace client", SPARK_REMOTE=remote) as client:
            line = client.wait_for_line("found: ").removeprefix("found: ")
            trace_code, _ = client.wait()
        assert trace_code == 0, client.describe()
    assert (found["requests"], found["alike"]) == (500, 500)
    assert written_outcomes(tmp_path) == expected_outcomes(trace)
    assert "batch 1:" in said
    of_trace = json.loads(line)
    assert 'href="report/report.html"' in of_trace.pop("report")
    assert of_trace == {
        "type": "pyspark.sql.connect.session",
        "outcomes": ["completed", "expired", "expired"],
        "rejects": ["null start"],
        "same": 0,
        "compared": {"design": "wheel", "rows": 3, "differing": 0, "example": None},
        "hosts": 2,
        "expired": [3, 2, 1],
        "trace": "Trace('trace', 3 requests, 2 events, 1 rejects)",
        "read": ["completed", "expired", "expired"],
    }
    page = (tmp_path / "report/report.html").read_text()
    assert "In the replay “wheel” all 3 requests ended as computed." in page


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
