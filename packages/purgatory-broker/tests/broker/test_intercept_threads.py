"""Threads in which functions given to `intercept` wait, by `asyncio.to_thread`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from purgatory_broker import Cluster, InterceptedRequest
from purgatory_broker.cluster import cluster as cluster_module
from purgatory_broker.cluster import function_threads as function_threads_module
from purgatory_broker.cluster.function_threads import FunctionThreads
from tests.broker.conftest import Connect
from tests.broker.raw_requests import produce

TIME_LIMIT = 30.0
#: More than the threads of a pool by default.
NUM_CLIENTS = 33


@pytest.mark.parametrize("by_executor", [False, True])
def test_close_does_not_wait_for_the_thread_of_a_held_function(
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    by_executor: bool,
) -> None:
    gate, is_held = threading.Event(), threading.Event()

    async def hold(_request: InterceptedRequest) -> None:
        is_held.set()
        if by_executor:
            held = partial(gate.wait, timeout=2 * TIME_LIMIT)
            await asyncio.get_running_loop().run_in_executor(None, held)
        else:
            await asyncio.to_thread(gate.wait, 2 * TIME_LIMIT)

    monkeypatch.setattr(cluster_module, "_TIMEOUT", TIME_LIMIT)
    monkeypatch.setattr(function_threads_module, "_TIMEOUT", 0.01)
    cluster = Cluster().start()
    cluster.intercept("Metadata", hold, may_be_cancelled=True)
    connect(cluster.bootstrap_servers).start("Metadata", 9, topics=[])
    assert is_held.wait(TIME_LIMIT)
    try:
        cluster.close()
    finally:
        gate.set()
    said = "a thread of a function given to intercept did not end: "
    called = "functools.partial(<bound" if by_executor else "<bound"
    assert f"{said}{called} method Event.wait" in caplog.text


def test_process_ends_while_a_function_is_held() -> None:
    # ApiVersions in version 0, of a client without a name.
    request = "0000000a 0012 0000 00000007 ffff"
    script = (
        "import asyncio, socket, threading\n"
        "from purgatory_broker import Cluster\n"
        "is_held = threading.Event()\n"
        "async def hold(request):\n"
        "    is_held.set()\n"
        "    await asyncio.to_thread(threading.Event().wait)\n"
        "with Cluster() as cluster:\n"
        "    cluster.intercept('ApiVersions', hold, may_be_cancelled=True)\n"
        "    host, port = cluster.bootstrap_servers.split(':')\n"
        "    client = socket.create_connection((host, int(port)))\n"
        f"    client.sendall(bytes.fromhex('{request}'))\n"
        "    is_held.wait()\n"
    )
    subprocess.run([sys.executable, "-c", script], timeout=TIME_LIMIT, check=True)


def test_functions_that_wait_in_threads_do_not_hold_up_one_another(connect: Connect) -> None:
    together = threading.Barrier(NUM_CLIENTS, timeout=TIME_LIMIT)

    async def meet(_request: InterceptedRequest) -> None:
        await asyncio.to_thread(together.wait)

    with Cluster() as cluster, ThreadPoolExecutor(NUM_CLIENTS) as threads:
        cluster.create_topic("t")
        clients = [connect(cluster.bootstrap_servers) for _ in range(NUM_CLIENTS)]
        with cluster.intercept("Produce", meet) as met:
            for answer in threads.map(lambda client: produce(client, "t", b"x"), clients):
                assert answer.error_code == 0
        assert met.hits == NUM_CLIENTS


def test_call_in_a_thread_returns_raises_or_is_cancelled() -> None:
    def fail() -> None:
        raise ValueError("of the call")

    threads = FunctionThreads()
    assert threads.submit(divmod, 7, 2).result(TIME_LIMIT) == (3, 1)
    with pytest.raises(ValueError, match="of the call"):
        threads.submit(fail).result(TIME_LIMIT)
    cancelled: Future[None] = Future()
    cancelled.cancel()
    function_threads_module._set_outcome(cancelled, fail)
    threads.shutdown()
    assert not threads._running
