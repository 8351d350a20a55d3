"""Functions of a test that intercept requests and responses."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from purgatory_broker import (
    AsyncCluster,
    Cluster,
    ClusterError,
    ClusterProcess,
    InterceptedRequest,
    Unanswered,
)
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.wire_error import WireError
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce, records

TIME_LIMIT = 30.0


def test_function_sees_requests(cluster: Cluster, client: RawClient) -> None:
    seen: list[tuple[Any, ...]] = []

    def look(request: InterceptedRequest) -> None:
        data = request.request.topic_data[0].partition_data[0].records
        seen.append((request.api, request.version, request.client_id, len(data)))
        seen.append((request.client_host, set(request.subjects.topics)))

    with cluster.intercept("produce", look) as interception:
        assert produce(client, "t", b"x").error_code == 0
        cluster.wait_for(fault=(interception.id, 1), timeout=0)
        assert fetch(client, "t", 0).high_watermark == 1
    assert produce(client, "t", b"y").error_code == 0
    size = len(records(b"x"))
    assert seen == [("Produce", 9, "parity", size), ("/127.0.0.1", {"t"})]
    assert interception.hits == 1
    (found,) = cluster.faults()
    assert (found["kind"], found["api"], found["hits"], found["times"]) == (
        "intercept",
        "Produce",
        1,
        0,
    )


def test_function_answers_requests_of_its_choice(cluster: Cluster, client: RawClient) -> None:
    def refuse_large(request: InterceptedRequest) -> Any:
        data = request.request.topic_data[0].partition_data[0].records
        return request.error_response("MESSAGE_TOO_LARGE") if len(data) > 500 else None

    with cluster.intercept("Produce", refuse_large):
        codes = [produce(client, "t", b"x" * size).error_code for size in (1, 1_000, 1)]
    assert codes == [0, ErrorCode.MESSAGE_TOO_LARGE, 0]
    assert fetch(client, "t", 0).high_watermark == 2


def test_request_without_an_error_response_is_disconnected(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    def break_and_fail(request: InterceptedRequest) -> None:
        request.request.topic_data = None
        raise ValueError("broken")

    def break_it(request: InterceptedRequest) -> None:
        request.request.groups_names = None

    with (
        pytest.raises(ValueError, match="broken"),
        cluster.intercept("Produce", break_and_fail),
        pytest.raises(ConnectionClosedError),
    ):
        produce(client, "t", b"x")
    client = connect(cluster.bootstrap_servers.split(",")[0])
    with (
        pytest.raises(WireError),
        cluster.intercept("DeleteGroups", break_it),
        pytest.raises(ConnectionClosedError),
    ):
        client.call("DeleteGroups", 0, groups_names=["g"])


def test_function_changes_requests(cluster: Cluster, client: RawClient) -> None:
    def redirect(request: InterceptedRequest) -> None:
        request.request.topic_data[0].partition_data[0].records = records(b"a", b"b")

    with cluster.intercept("Produce", redirect):
        assert produce(client, "t", b"x").error_code == 0
    assert fetch(client, "t", 0).high_watermark == 2


def test_coroutine_changes_responses(cluster: Cluster, client: RawClient) -> None:
    async def pretend(request: InterceptedRequest) -> None:
        response = await request.handle()
        assert await request.handle() is response
        response.responses[0].partition_responses[0].base_offset = 1_000

    with cluster.intercept("Produce", pretend):
        assert produce(client, "t", b"x").base_offset == 1_000
    assert produce(client, "t", b"x").base_offset == 1


def test_coroutine_delays_until_the_test_goes_on(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    arrived = threading.Event()
    released: list[Callable[[], None]] = []

    async def hold(request: InterceptedRequest) -> Any:
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        released.append(lambda: loop.call_soon_threadsafe(event.set))
        arrived.set()
        await event.wait()
        return await request.handle()

    with cluster.intercept("Produce", hold):
        data = [{"name": "t", "partition_data": [{"index": 0, "records": records(b"x")}]}]
        client.start("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data)
        assert arrived.wait(TIME_LIMIT)
        assert fetch(connect(client.address), "t", 0).high_watermark == 0
        released[0]()
        assert client.read().responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("handled", [False, True])
def test_request_is_dropped_or_disconnected(
    cluster: Cluster, client: RawClient, connect: Connect, handled: bool
) -> None:
    unanswered = Unanswered.DROP

    async def drop(request: InterceptedRequest) -> Unanswered:
        if handled:
            await request.handle()
        return unanswered

    data = [{"name": "t", "partition_data": [{"index": 0, "records": records(b"x")}]}]
    with cluster.intercept("Produce", drop):
        client.start("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data)
        with pytest.raises(TimeoutError):
            client.read(timeout=0.2)
        unanswered = Unanswered.DISCONNECT
        with pytest.raises(ConnectionClosedError):
            produce(connect(client.address), "t", b"y")
    assert fetch(connect(client.address), "t", 0).high_watermark == 2 * handled


def test_coroutine_answers_before_the_broker_does(cluster: Cluster, client: RawClient) -> None:
    async def give_up(request: InterceptedRequest) -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(request.handle(), 0.01)
        return request.error_response("REQUEST_TIMED_OUT")

    with cluster.intercept("Fetch", give_up):
        found = client.call("Fetch", 11, **fetch_fields("t", 0, max_wait_ms=20_000))
    assert found.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert produce(client, "t", b"x").error_code == 0
    leader = cluster.describe_topic("t")[0]["leader"]
    assert cluster.metrics()[leader]["Fetch"]["Cancellations"] >= 1


def test_end_of_the_connection_ends_the_coroutine(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    began, ended = threading.Semaphore(0), threading.Semaphore(0)

    async def wait(request: InterceptedRequest) -> None:
        began.release()
        try:
            await (request.handle() if request.api == "Fetch" else asyncio.Event().wait())
        except asyncio.CancelledError:
            ended.release()
            raise

    data = [{"name": "t", "partition_data": [{"index": 0, "records": records(b"x")}]}]
    other = connect(client.address)
    with cluster.intercept(None, wait, may_be_cancelled=True) as interception:
        client.start("Fetch", 11, **fetch_fields("t", 0, max_wait_ms=20_000))
        other.start("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data)
        for _ in range(2):
            assert began.acquire(timeout=TIME_LIMIT)
        client.close()
        other.close()
        for _ in range(2):
            assert ended.acquire(timeout=TIME_LIMIT)
    cluster.end_functions()
    # The one that waited for the broker had nothing left to look at.
    assert interception.cancelled == 1


def test_failed_function_fails_the_test(cluster: Cluster, client: RawClient) -> None:
    def fail(request: InterceptedRequest) -> None:
        raise ZeroDivisionError(request.api)

    def intercepted() -> None:
        with cluster.intercept("Produce", fail):
            assert produce(client, "t", b"x").error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    with pytest.raises(ZeroDivisionError, match="Produce"):
        intercepted()
    assert produce(client, "t", b"x").error_code == 0


def test_functions_are_called_in_order_until_one_answers(
    cluster: Cluster, client: RawClient
) -> None:
    called = []

    def look(_request: InterceptedRequest) -> None:
        called.append("look")

    async def handle(request: InterceptedRequest) -> None:
        response = await request.handle()
        called.append(response.responses[0].partition_responses[0].error_code)

    def never(_request: InterceptedRequest) -> None:
        called.append("never")

    for function in (look, handle, never):
        cluster.intercept("Produce", function)
    cluster.inject_request_error("Produce", "NOT_ENOUGH_REPLICAS")
    assert produce(client, "t", b"x").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert called == ["look", ErrorCode.NOT_ENOUGH_REPLICAS]
    assert [each["hits"] for each in cluster.faults()] == [1, 1, 0, 1]
    cluster.clear_faults()
    assert produce(client, "t", b"x").error_code == 0
    assert len(called) == 2


def test_acks_0_has_no_response(cluster: Cluster, client: RawClient) -> None:
    responses = []

    async def look(request: InterceptedRequest) -> None:
        responses.append(await request.handle())

    data = [{"name": "t", "partition_data": [{"index": 0, "records": records(b"x")}]}]
    with cluster.intercept("Produce", look):
        client.start("Produce", 9, answered=False, acks=0, timeout_ms=1, topic_data=data)
        assert fetch(client, "t", 0).error_code == 0
    assert responses == [None]


def test_response_faults_apply_to_a_functions_answer(cluster: Cluster, client: RawClient) -> None:
    cluster.inject_response_fault("Produce", "disconnect", topic="t")
    with (
        cluster.intercept("Produce", lambda request: request.error_response(56)),
        pytest.raises(ConnectionClosedError),
    ):
        produce(client, "t", b"x")


def test_stop_ends_a_waiting_function(connect: Connect) -> None:
    ended = []

    async def wait(_request: InterceptedRequest) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("wait")

    async def scenario() -> None:
        async with AsyncCluster() as cluster:
            interception = cluster.intercept("Metadata", wait, may_be_cancelled=True)
            client = connect(cluster.addresses()[0])
            client.start("Metadata", 8, topics=None)
            while not interception.hits:
                await asyncio.sleep(0.001)
        assert ended == ["wait"]

    asyncio.run(scenario())


def test_another_process_can_not_call_a_function(cluster: Cluster) -> None:
    with (
        ClusterProcess() as process,
        pytest.raises(ClusterError, match="for Produce can't be called by a cluster in another"),
    ):
        process.intercept("Produce", print)
    with pytest.raises(InvalidArgumentError, match="api must be one of"):
        cluster.intercept("Telepathy", print)
    with pytest.raises(InvalidArgumentError, match="function must be callable, got"):
        cluster.intercept("Produce", 7)  # type: ignore[arg-type]


def test_removed_interceptions_refer_to_nothing(cluster: Cluster) -> None:
    """Though `faults` still reports them."""

    class Function:
        def __call__(self, _request: InterceptedRequest) -> None:
            raise AssertionError

    functions: list[weakref.ref[object]] = []
    interceptions: list[weakref.ref[object]] = []
    for _ in range(20):
        function = Function()
        functions.append(weakref.ref(function))
        with cluster.intercept("Produce", function) as interception:
            interceptions.append(weakref.ref(interception))
    del function, interception
    gc.collect()
    assert [each() for each in functions] == [None] * 20
    assert [each() for each in interceptions[:-1]] == [None] * 19
    assert [(each["kind"], each["times"]) for each in cluster.faults()] == [("intercept", 0)] * 20
    cluster.clear_faults()
    assert cluster.faults() == []


def test_function_that_another_one_removes_is_not_called(
    cluster: Cluster, connect: Callable[[str], RawClient]
) -> None:
    calls: list[str] = []

    def first(_request: InterceptedRequest) -> None:
        calls.append("first")
        second.remove()

    with cluster.intercept("Metadata", first):
        second = cluster.intercept("Metadata", lambda _: calls.append("second"))
        connect(cluster.bootstrap_servers.split(",")[0]).call("Metadata", 8, topics=None)
    assert calls == ["first"]
    assert second.hits == 0


def test_removed_interception_is_entered_no_more(cluster: Cluster) -> None:
    with cluster.intercept("Produce", print) as interception:
        pass
    with pytest.raises(ClusterError, match="the interception was removed"), interception:
        pass
