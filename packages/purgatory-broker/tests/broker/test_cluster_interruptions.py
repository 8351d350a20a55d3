"""Signal handlers that interrupt a cluster's start or a command, and run commands themselves."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from purgatory_broker import (
    Cluster,
    ClusterError,
    ClusterProcess,
)
from purgatory_broker.cluster import cluster_process as cluster_process_module
from purgatory_broker.cluster.outcome import Outcome

TIME_LIMIT = 30.0


class Interrupted(BaseException):
    """What a signal handler raises."""


@pytest.mark.parametrize("place", ["_read_first_line", "ControlClient"])
def test_interrupted_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def interrupt(*_args: object) -> None:
        raise Interrupted

    where = ClusterProcess if place.startswith("_") else cluster_process_module
    monkeypatch.setattr(where, place, interrupt)
    cluster = ClusterProcess()
    with pytest.raises(Interrupted):
        cluster.start()
    assert cluster._process is not None
    assert cluster._process.returncode == -signal.SIGKILL
    cluster.close()


def test_interrupted_start_stops_the_clusters_thread() -> None:
    cluster = Cluster()

    def interrupt(frame: FrameType, event: str, _arg: object) -> None:
        if frame.f_code is Outcome.wait.__code__ and event == "call":
            sys.settrace(None)
            raise Interrupted

    sys.settrace(interrupt)
    try:
        with pytest.raises(Interrupted):
            cluster.start()
    finally:
        sys.settrace(None)
    assert cluster._thread is not None
    assert not cluster._thread.is_alive()
    with pytest.raises(ClusterError, match="create_topic: the cluster is not running"):
        cluster.create_topic("a")
    cluster.close()


def call_at_each_line(
    handler: Callable[[], object], run: Callable[[], object]
) -> set[tuple[str, int]]:
    """Call a handler once before each line of Python in `run`, on a thread that can be given up.

    Returns the files and the numbers of the lines.
    """
    lines: set[tuple[str, int]] = set()

    def interrupt(frame: FrameType, event: str, _arg: object) -> Any:
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and line not in lines:
            lines.add(line)
            sys.settrace(None)
            try:
                handler()
            finally:
                sys.settrace(interrupt)
        return interrupt

    def traced() -> None:
        sys.settrace(interrupt)
        try:
            run()
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=traced, daemon=True)
    thread.start()
    thread.join(TIME_LIMIT)
    assert not thread.is_alive()
    return lines


def test_signal_handler_runs_a_command_wherever_it_interrupts_another() -> None:
    offsets: list[object] = []
    with Cluster() as cluster:
        cluster.create_topic("t")
        lines = call_at_each_line(
            lambda: offsets.append(cluster.high_watermark("t")),
            lambda: cluster.high_watermark("t"),
        )
    assert {Cluster.call.__code__.co_filename, Outcome.wait.__code__.co_filename} <= {
        file for file, _ in lines
    }
    assert offsets == [0] * len(lines)


def test_signal_handler_runs_a_command_wherever_it_interrupts_the_start() -> None:
    answers: list[object] = []
    cluster = Cluster()

    def ask() -> None:
        try:
            answers.append(cluster.faults())
        except ClusterError as error:
            answers.append(str(error))

    call_at_each_line(ask, cluster.start)
    cluster.close()
    assert answers[0] == "faults: the cluster is not running"
    assert answers[-1] == []


FILES = {code.co_filename for code in (Cluster.call.__code__, Outcome.wait.__code__)} | {
    threading.__file__
}


class RaisesAtLine:
    """A signal handler that raises at the n-th line of these files in its block."""

    def __init__(self, number: int) -> None:
        self._left = number

    def _trace(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and frame.f_code.co_filename in FILES:
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                raise Interrupted
        return self._trace

    def __enter__(self) -> RaisesAtLine:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    @property
    def has_raised(self) -> bool:
        return self._left <= 0


@pytest.mark.filterwarnings("ignore:coroutine .run_command. was never awaited")
def test_cluster_runs_on_wherever_a_handler_raises_in_a_command(cluster: Cluster) -> None:
    cluster.create_topic("t")
    for number in range(1, 1000):
        with suppress(Interrupted), RaisesAtLine(number) as handler:
            cluster.high_watermark("t")
        assert cluster.high_watermark("t") == 0
        if not handler.has_raised:
            break
    assert number > 20


def test_cluster_is_closed_wherever_a_handler_raises_in_close() -> None:
    for number in range(1, 1000):
        cluster = Cluster().start()
        host, port = cluster.bootstrap_servers.split(":")
        with suppress(Interrupted), RaisesAtLine(number) as handler:
            cluster.close()
        cluster.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=TIME_LIMIT)
        if not handler.has_raised:
            break
    assert number > 10


def test_cluster_that_gets_no_thread_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    cluster = Cluster()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        cluster.start()
    cluster.close()
    with pytest.raises(ClusterError, match="faults: the cluster is not running"):
        cluster.faults()


def test_command_that_is_submitted_at_the_end_of_the_cluster_ends() -> None:
    """Its caller has seen the cluster run, and the loop does not begin it."""
    cluster = Cluster().start()
    started: list[object] = []
    commands: list[Any] = []

    async def never(_cluster: object) -> None:
        started.append(None)

    def start(of: Any) -> Any:
        commands.append(never(of))
        return commands[0]

    def close(*_: object, **__: object) -> None:
        patched.undo()
        cluster.close()

    loop = cluster._loop
    assert loop is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "call_soon_threadsafe", close)
        with pytest.raises(ClusterError, match="never: the cluster has stopped"):
            cluster._submit("never", start, TIME_LIMIT)
    assert not started
    assert commands[0].cr_frame is None
    assert not cluster._calls
