"""Tests of Spark Connect: a server that has the package, and one to which it is shipped."""

from __future__ import annotations

import json
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from purgatory_spark._rows.schema import EVENTS, REQUESTS
from tests.spark.job import TIME_LIMIT, await_port, job, quick_spark
from tests.spark.stream_files import (
    StreamTrace,
    expected_outcomes,
    in_order,
    stream_arguments,
    stream_trace,
    write_trace,
    written_outcomes,
)
from tests.support.ports import free_ports

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(3 * TIME_LIMIT)]
pytest.importorskip("grpc")

APPLICATION = Path(__file__).with_name("cluster_application.py")
TRACE_APPLICATION = Path(__file__).with_name("trace_application.py")
SHIPPING_APPLICATION = Path(__file__).with_name("shipping_application.py")

#: A mapping of the schema to itself.
MAPPED = [
    *(part for name in REQUESTS.names for part in ("--map", f"{name}={name}")),
    *(part for name in EVENTS.names for part in ("--map-events", f"{name}={name}")),
]


@pytest.fixture
def trace(tmp_path: Path) -> StreamTrace:
    """Write requests and events to three files each in `tmp_path`."""
    trace = stream_trace(hosts=4, requests=3_000)
    write_trace(tmp_path, trace, files=3)
    return trace


@contextmanager
def connect_server(folder: Path, python: str | Path) -> Iterator[str]:
    """Yield the address of a server whose workers run `python`; its log is in `folder`."""
    (port,) = free_ports(1)
    settings = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    server = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    server += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in settings.items():
        server += ["--conf", f"{name}={value}"]
    environment = {**quick_spark(folder), "PYSPARK_PYTHON": str(python)}
    with job([*server, "spark-internal"], folder / "server", **environment):
        await_port(port)
        yield f"sc://127.0.0.1:{port}"


def found_by(application: Path, folder: Path, remote: str, *arguments: str) -> tuple[Any, str]:
    """Run a client program in `folder`; return what it found, and the rest of its output."""
    command = [sys.executable, str(application), *arguments]
    with job(command, folder / application.stem, SPARK_REMOTE=remote) as client:
        found = json.loads(client.wait_for_line("found: ").removeprefix("found: "))
        code, said = client.wait()
    assert code == 0, client.describe()
    return found, said


def test_spark_connect_gives_the_same_rows(trace: StreamTrace, tmp_path: Path) -> None:
    arguments = stream_arguments(tmp_path, tmp_path, "--drain", *MAPPED)
    with connect_server(tmp_path, sys.executable) as remote:
        found, said = found_by(APPLICATION, tmp_path, remote, *arguments)
        of_trace, _ = found_by(TRACE_APPLICATION, tmp_path, remote)
    assert (found["requests"], found["alike"]) == (500, 500)
    assert written_outcomes(tmp_path) == expected_outcomes(trace)
    assert "batch 1:" in said
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


def test_package_is_shipped_to_a_server_without_it(trace: StreamTrace, tmp_path: Path) -> None:
    with connect_server(tmp_path, bare_python(tmp_path / "bare")) as remote:
        found, _ = found_by(SHIPPING_APPLICATION, tmp_path, remote)
    assert "have no purgatory-spark, but the driver has" in found["before"]
    assert "call ship_package(spark)" in found["before"]
    (worker,) = found["workers"]
    assert ".zip/purgatory_spark/" in worker["file"]
    assert found["settings_changed"] == found["path_changed"] == []
    outcomes = in_order(pq.read_table(tmp_path / "outcomes").to_pylist())
    expected = expected_outcomes(trace)
    assert [{name: row[name] for name in expected[0]} for row in outcomes] == expected
    assert found["compared"] == {"design": "wheel", "rows": 3_000, "differing": 0, "example": None}
    assert found["imported"] == [
        ["api", "expired", 100.0],
        ["web", "completed", 20.0],
        ["web", "expired", 100.0],
    ]
    assert found["rejects"] == ["null start"]


def bare_python(folder: Path) -> Path:
    """Return the interpreter of a new environment with all packages of this one but ours."""
    # No `.pth` file either: those of an editable installation are ours.
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "purgatory" not in package.name and package.suffix != ".pth":
            (packages / package.name).symlink_to(package)
    return python
