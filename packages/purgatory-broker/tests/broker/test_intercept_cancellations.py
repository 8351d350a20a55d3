"""Functions given to `intercept` that are cancelled half way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from purgatory_broker import (
    AsyncCluster,
    Cluster,
    ClusterError,
    InterceptedRequest,
)
from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.conftest import Connect
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch_fields, produce

TIME_LIMIT = 30.0


@pytest.mark.parametrize("ends", ["client", "cluster"])
def test_function_cancelled_half_way_is_an_error(connect: Connect, ends: str) -> None:
    started: list[asyncio.Event] = []

    async def wait(_request: InterceptedRequest) -> None:
        started[-1].set()
        await asyncio.Event().wait()

    async def fail_when_cancelled(request: InterceptedRequest) -> None:
        try:
            await wait(request)
        finally:
            await asyncio.sleep(0)
            pytest.fail("has not ended")

    async def answer_when_cancelled(request: InterceptedRequest) -> None:
        with suppress(asyncio.CancelledError):
            await wait(request)

    async def scenario(
        function: Callable[[InterceptedRequest], Awaitable[None]], *, may_be_cancelled: bool = False
    ) -> None:
        started.append(asyncio.Event())
        async with AsyncCluster() as cluster:
            cluster.intercept("Metadata", function, may_be_cancelled=may_be_cancelled)
            client = connect(cluster.addresses()[0])
            client.start("Metadata", 8, topics=None)
            await started[-1].wait()
            if ends == "client":
                client.close()

    with pytest.raises(ClusterError, match="Metadata was cancelled half way") as raised:
        asyncio.run(scenario(wait))
    assert isinstance(raised.value.__cause__, asyncio.CancelledError)
    asyncio.run(scenario(wait, may_be_cancelled=True))
    asyncio.run(scenario(answer_when_cancelled))
    with pytest.raises(pytest.fail.Exception, match="has not ended"):
        asyncio.run(scenario(fail_when_cancelled))


@pytest.mark.parametrize("waits_for", ["response", "something else"])
def test_function_that_has_its_response_is_cancelled_half_way(
    connect: Connect, cluster: Cluster, client: RawClient, waits_for: str
) -> None:
    """One that still waits for the response has seen all that there is."""
    arrived, ended = threading.Event(), threading.Event()

    async def look(request: InterceptedRequest) -> None:
        try:
            if waits_for == "response":
                arrived.set()
            await request.handle()
            arrived.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    interception = cluster.intercept("Fetch", look)
    max_wait_ms = 20_000 if waits_for == "response" else 1
    client.start("Fetch", 11, **fetch_fields("t", 0, max_wait_ms=max_wait_ms))
    assert arrived.wait(TIME_LIMIT)
    client.close()
    assert ended.wait(TIME_LIMIT)
    cluster.end_functions()
    if waits_for == "response":
        interception.remove()
        assert interception.cancelled == 0
    else:
        with pytest.raises(ClusterError, match="Fetch was cancelled half way"):
            interception.remove()
        assert interception.cancelled == 1


def test_cancellations_that_were_counted_are_not_raised(
    cluster: Cluster, client: RawClient
) -> None:
    async def wait(_request: InterceptedRequest) -> None:
        await asyncio.Event().wait()

    with cluster.intercept("Fetch", wait) as interception:
        client.start("Fetch", 11, **fetch_fields("t", 0))
        cluster.wait_for(fault=(interception.id, 1), timeout=TIME_LIMIT)
        cluster.end_functions()
        assert interception.cancelled == 1
        assert interception.errors == []


def test_functions_own_timeout_is_no_cancellation(cluster: Cluster, client: RawClient) -> None:
    async def wait(request: InterceptedRequest) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()

    with cluster.intercept("Produce", wait):
        assert produce(client, "t", b"x").error_code == 0


def test_cancellation_by_the_function_itself_is_an_error(
    cluster: Cluster, client: RawClient
) -> None:
    async def cancel(_request: InterceptedRequest) -> None:
        raise asyncio.CancelledError

    interception = cluster.intercept("Produce", cancel)
    assert produce(client, "t", b"x").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ClusterError, match="the function that intercepts Produce was cancelled"):
        interception.remove()
