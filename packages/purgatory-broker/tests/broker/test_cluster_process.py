"""A cluster in a process of its own, and clusters beside forked children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from purgatory_broker import (
    Cluster,
    ClusterError,
    ClusterProcess,
)
from purgatory_broker.cluster import cluster_process as cluster_process_module
from tests.broker.parity.raw import RawClient
from tests.support.children import in_child

TIME_LIMIT = 30.0


@pytest.mark.skipif(os.name != "posix", reason="this system has no process groups")
def test_ctrl_c_that_the_program_handles_leaves_the_cluster_process_alone() -> None:
    script = (
        "import os, signal; from purgatory_broker import ClusterProcess\n"
        "signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))\n"
        "with ClusterProcess() as cluster:\n"
        "    os.killpg(0, signal.SIGINT)\n"  # As a terminal does.
        "    cluster.create_topic('a'); print(cluster.high_watermark('a'))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        start_new_session=True,
        check=False,
    )
    assert run.stdout.split() == ["handled", "0"], run.stderr


def test_cluster_process_ends_with_its_parent() -> None:
    script = (
        "import time; from purgatory_broker import ClusterProcess;"
        "cluster = ClusterProcess().start();"
        "print(cluster.pid, cluster.bootstrap_servers, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid, address = starter.stdout.readline().split()
    client = RawClient(address)
    starter.kill()
    starter.wait(TIME_LIMIT)
    starter.stdout.close()
    # The broker stops at the end of its standard input, and closes the connection.
    assert client.is_closed(within=TIME_LIMIT)
    client.close()
    for _ in range(1_000):
        try:
            os.kill(int(pid), signal.SIG_DFL)
        except ProcessLookupError:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the cluster's process is still running")


@pytest.mark.parametrize("name", ["kafka", "json", "purgatory_broker"])
def test_cluster_process_imports_nothing_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('the module of the project')\n")
    monkeypatch.chdir(tmp_path)
    with ClusterProcess() as cluster:
        cluster.create_topic("a")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_cluster_is_not_running_in_a_forked_child() -> None:
    with Cluster() as cluster:

        def child() -> None:
            with pytest.raises(ClusterError, match="is not running"):
                cluster.create_topic("a")
            cluster.close()

        in_child(child)
        cluster.create_topic("a")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_of_a_process_has_a_connection_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ClusterProcess() as cluster:

        def child() -> None:
            # The parent's command waits for its answer, which the child must not take.
            cluster.create_topic("of-the-child")
            assert cluster.high_watermark("of-the-parent") == 0
            cluster.close()
            with pytest.raises(ClusterError, match="is not running"):
                cluster.create_topic("x")

        cluster.create_topic("of-the-parent")
        assert cluster._control is not None
        read = cluster._control._read_line

        def fork_and_read() -> bytes:
            in_child(child)
            return read()

        with monkeypatch.context() as patched:
            patched.setattr(cluster._control, "_read_line", fork_and_read)
            assert len(cluster.describe_topic("of-the-parent")) == 1
        assert len(cluster.describe_topic("of-the-child")) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("end", ["close", "kill_process"])
def test_forked_child_does_not_stop_the_parents_process(end: str) -> None:
    with ClusterProcess() as cluster:

        def child() -> None:
            with pytest.raises(ClusterError, match=f"process {parent} has started"):
                cluster.kill_process()
            for _ in range(2):
                assert cluster.high_watermark("a") == 0
            cluster.close()

        parent = os.getpid()
        cluster.create_topic("a")
        in_child(child)
        assert len(cluster.describe_topic("a")) == 1
        if end == "kill_process":
            cluster.kill_process()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_process_stops_while_a_forked_child_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has a copy of the pipe whose end would stop the process."""
    monkeypatch.setattr(cluster_process_module, "_TIMEOUT", 30.0)
    with ClusterProcess() as cluster:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        os.close(reading)
        try:
            cluster.close()
            assert cluster._process is not None
            assert cluster._process.returncode == 0
        finally:
            os.close(writing)
            os.waitpid(child, 0)
