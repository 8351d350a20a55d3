"""Commands that functions given to `intercept` run on their own cluster."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

from purgatory_broker import (
    AsyncCluster,
    Cluster,
    ClusterError,
    InterceptedRequest,
    Interception,
)
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster import cluster as cluster_module
from purgatory_broker.cluster._commands.cluster_commands import COMMANDS
from purgatory_broker.cluster.run_command import WAITING_COMMANDS
from tests.broker.conftest import Connect
from tests.broker.intercept_functions import raising
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import fetch, produce

TIME_LIMIT = 30.0


def test_function_is_refused_the_end_of_functions(cluster: Cluster, client: RawClient) -> None:
    def end(_request: InterceptedRequest) -> None:
        cluster.end_functions()

    with (
        pytest.raises(ClusterError, match="can't end itself"),
        cluster.intercept("Produce", end),
    ):
        produce(client, "t", b"x")


def test_function_runs_commands_that_do_not_wait(cluster: Cluster, client: RawClient) -> None:
    found: list[Any] = []
    inner: list[Interception] = []

    def look(request: InterceptedRequest) -> None:
        found.append([each.value for each in cluster.records("t")])
        found.append(cluster.describe_topic("t")[0]["leader"] == request.node)
        found.append([each.api for each in cluster.requests(api="Produce")])
        inner.append(cluster.intercept("Fetch", raising(ValueError("inner"))))
        cluster.set_latency(request.node, 0)

    with cluster.intercept("Produce", look):
        assert produce(client, "t", b"x").error_code == 0
    assert found == [[], True, ["Produce"]]
    fetch(client, "t", 0)
    with pytest.raises(ValueError, match="inner"):
        inner[0].remove()


def test_function_kills_the_node_that_received_the_request(
    cluster: Cluster, client: RawClient
) -> None:
    def kill(request: InterceptedRequest) -> None:
        cluster.kill(request.node)

    with cluster.intercept("Produce", kill), pytest.raises(ConnectionClosedError):
        produce(client, "t", b"x")
    assert len(cluster.metrics()) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cluster: cluster.wait_for(records=("t", 1)), "wait_for: a function given to"),
        (lambda cluster: cluster.reset(), "asyncio.to_thread.cluster.reset"),
        (lambda cluster: cluster.close(), "close: the cluster's own thread"),
        (lambda cluster: cluster.create_topic(""), "create_topic: Topic name is invalid"),
    ],
)
def test_function_is_refused_commands_that_wait_at_once(
    cluster: Cluster, client: RawClient, call: Callable[[Cluster], None], message: str
) -> None:
    interception = cluster.intercept("Produce", lambda _request: call(cluster))
    assert produce(client, "t", b"x").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ClusterError, match=message):
        interception.remove()
    assert fetch(client, "t", 0).high_watermark == 0


def test_commands_that_wait_are_those_that_run_on_after_their_turn() -> None:
    coroutines = {name for name, each in COMMANDS.items() if inspect.iscoroutinefunction(each)}
    assert coroutines - {"records", "requests"} == WAITING_COMMANDS


def test_coroutine_runs_commands_that_wait_on_a_thread(cluster: Cluster, client: RawClient) -> None:
    async def restart(request: InterceptedRequest) -> None:
        other = (request.node + 1) % 3
        await asyncio.to_thread(cluster.kill, other)
        await asyncio.to_thread(cluster.restart, other)

    with cluster.intercept("Produce", restart):
        assert produce(client, "t", b"x").error_code == 0


def test_reset_of_an_async_cluster_in_a_function_is_refused(connect: Connect) -> None:
    async def scenario() -> None:
        async with AsyncCluster() as cluster:

            async def reset(_request: InterceptedRequest) -> None:
                await cluster.reset()

            interception = cluster.intercept("Metadata", reset)
            client = connect(cluster.addresses()[0])
            await asyncio.to_thread(client.call, "Metadata", 8, topics=None)
            with pytest.raises(ClusterError, match="reset: would end the function"):
                interception.remove()
            assert await asyncio.to_thread(client.call, "Metadata", 8, topics=None)

    asyncio.run(scenario())


def test_function_that_blocks_the_cluster_is_named(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def block(_request: InterceptedRequest) -> None:
        arrived.set()
        assert go_on.wait(TIME_LIMIT)

    with Cluster() as cluster:
        cluster.intercept("Metadata", block)
        connect(cluster.bootstrap_servers).start("Metadata", 8, topics=None)
        assert arrived.wait(TIME_LIMIT)
        with monkeypatch.context() as patched:
            patched.setattr(cluster_module, "_TIMEOUT", 0.05)
            with pytest.raises(ClusterError, match=r"faults: no answer .* for 0\.05 s"):
                cluster.faults()
            with pytest.raises(ClusterError, match="close: the cluster's thread is busy"):
                cluster.close()
        go_on.set()
