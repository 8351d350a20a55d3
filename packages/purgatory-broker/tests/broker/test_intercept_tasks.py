"""Tasks and callbacks that functions given to `intercept` leave behind: who learns of errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from purgatory_broker import (
    Cluster,
    ClusterError,
    InterceptedRequest,
)
from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.conftest import Connect
from tests.broker.raw_requests import fetch, produce

TIME_LIMIT = 30.0


def test_error_of_a_task_of_a_function_is_raised_when_the_cluster_closes(
    connect: Connect,
) -> None:
    async def fail() -> None:
        pytest.fail("in a task of its own")

    async def start(_request: InterceptedRequest) -> None:
        # Nobody awaits it, nor refers to it.
        asyncio.get_running_loop().create_task(fail())

    cluster = Cluster().start()
    cluster.create_topic("t")
    cluster.intercept("Produce", start)
    client = connect(cluster.bootstrap_servers)
    assert produce(client, "t", b"x").error_code == 0
    with pytest.raises(pytest.fail.Exception, match="in a task of its own"):
        cluster.close()
    cluster.close()


async def _fail() -> None:
    pytest.fail("of the function")


def _intercepting(connect: Connect, start: Callable[[InterceptedRequest], Any]) -> Cluster:
    """Return a running cluster whose intercepting function was called once."""
    cluster = Cluster().start()
    cluster.create_topic("t")
    with cluster.intercept("Produce", start):
        assert produce(connect(cluster.bootstrap_servers), "t", b"x").error_code == 0
    for _ in range(5):  # Each lets the event loop go on for some turns.
        cluster.high_watermark("t")
    return cluster


@pytest.mark.parametrize("ends_with", ["close", "raise_unseen_errors"])
def test_error_of_a_task_that_is_kept_is_raised(connect: Connect, ends_with: str) -> None:
    kept: list[asyncio.Task[None]] = []

    def start(_request: InterceptedRequest) -> None:
        kept.append(asyncio.get_running_loop().create_task(_fail()))

    cluster = _intercepting(connect, start)
    with pytest.raises(pytest.fail.Exception, match="of the function") as raised:
        getattr(cluster, ends_with)()
    assert raised.value.__notes__ == ["It was raised in a task of a function given to intercept."]
    cluster.close()
    assert kept[0].done()


@pytest.mark.parametrize("sees", ["the test", "the function", "another task", "a group"])
def test_error_of_a_task_that_somebody_sees_is_not_raised(connect: Connect, sees: str) -> None:
    kept: list[asyncio.Task[None]] = []

    async def look() -> None:
        with suppress(pytest.fail.Exception):
            await kept[0]

    async def start(_request: InterceptedRequest) -> None:
        loop = asyncio.get_running_loop()
        if sees == "a group":
            with suppress(BaseExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    kept.append(group.create_task(_fail()))
            return
        kept.append(loop.create_task(_fail()))
        await asyncio.sleep(0.001)
        assert kept[0].done()
        if sees == "the function":
            await look()
        elif sees == "another task":
            kept.append(loop.create_task(look()))

    cluster = _intercepting(connect, start)
    if sees == "the test":
        assert isinstance(kept[0].exception(), pytest.fail.Exception)
    cluster.raise_unseen_errors()
    cluster.close()


def test_errors_of_tasks_wait_for_a_function_that_may_see_them(connect: Connect) -> None:
    kept: list[asyncio.Task[None]] = []
    go_on = threading.Event()

    async def start(_request: InterceptedRequest) -> None:
        kept.append(asyncio.get_running_loop().create_task(_fail()))
        await asyncio.to_thread(go_on.wait, TIME_LIMIT)
        with suppress(pytest.fail.Exception):
            await kept[0]

    with Cluster() as cluster:
        cluster.create_topic("t")
        interception = cluster.intercept("Metadata", start)
        client = connect(cluster.bootstrap_servers)
        client.start("Metadata", 8, topics=None)
        cluster.wait_for(fault=(interception.id, 1), timeout=TIME_LIMIT)
        cluster.high_watermark("t")
        cluster.raise_unseen_errors()
        go_on.set()
        client.read()


@pytest.mark.parametrize("later", [False, True])
def test_error_of_a_callback_of_a_function_is_raised(connect: Connect, later: bool) -> None:
    called = threading.Event()

    def fail() -> None:
        called.set()
        pytest.fail("of the function")

    def start(_request: InterceptedRequest) -> None:
        loop = asyncio.get_running_loop()
        if later:
            loop.call_later(0.001, fail)
        else:
            loop.call_soon(fail)

    cluster = _intercepting(connect, start)
    assert called.wait(TIME_LIMIT)
    with pytest.raises(pytest.fail.Exception, match="of the function") as raised:
        cluster.close()
    assert raised.value.__notes__ == ["It was raised in a callback of the cluster's event loop."]


@pytest.mark.parametrize("ends_with", ["close", "end_functions", "reset"])
@pytest.mark.parametrize("does", ["nothing", "catches", "is allowed", "awaits the response"])
def test_task_of_a_function_that_is_cancelled_half_way_is_an_error(
    connect: Connect, does: str, ends_with: str
) -> None:
    kept: list[asyncio.Task[None]] = []

    async def wait(request: InterceptedRequest) -> None:
        try:
            if does == "awaits the response":
                await request.handle()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if does != "catches":
                raise

    async def wait_for_task(request: InterceptedRequest) -> None:
        await asyncio.get_running_loop().create_task(wait(request))

    def start(request: InterceptedRequest) -> Any:
        kept.append(asyncio.get_running_loop().create_task(wait_for_task(request)))
        return request.error_response(ErrorCode.UNKNOWN_SERVER_ERROR)

    cluster = Cluster().start()
    cluster.create_topic("t")
    interception = cluster.intercept("Fetch", start, may_be_cancelled=does == "is allowed")
    client = connect(cluster.bootstrap_servers)
    fetch(client, "t", 0, max_wait_ms=20_000)

    def end() -> None:
        getattr(cluster, ends_with)()
        cluster.raise_unseen_errors()

    if does == "nothing":
        with pytest.raises(ClusterError, match="a task of the function that intercepts Fetch was"):
            end()
    else:
        end()
    cluster.close()
    assert kept[0].done()
    assert interception.cancelled == (does in ("nothing", "is allowed"))


def test_work_that_a_function_gives_to_the_cluster_is_no_task_of_the_function(
    connect: Connect,
) -> None:
    """Such as the handshakes of a node that it restarts, and the functions of other requests."""
    seen: list[object] = []

    async def start(request: InterceptedRequest) -> None:
        await request.handle()
        cluster.create_topic("u")
        await asyncio.to_thread(cluster.kill, 0)
        await asyncio.to_thread(cluster.restart, 0)
        running = cluster._cluster
        assert running is not None
        seen.append(dict(running._interceptions.function_tasks._running))

    with Cluster(nodes=2) as cluster:
        client = connect(cluster.bootstrap_servers.split(",")[1])
        with cluster.intercept("Metadata", start):
            client.call("Metadata", 8, topics=None)
    assert seen == [{}]
