"""What functions that intercept requests raise, and commands that they run."""

from __future__ import annotations

import asyncio
import inspect
import threading
import unittest
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from request_purgatory.broker import (
    AsyncCluster,
    Cluster,
    ClusterError,
    InterceptedRequest,
    Interception,
)
from request_purgatory.broker.cluster import cluster as cluster_module
from request_purgatory.broker.cluster.commands import COMMANDS
from request_purgatory.broker.cluster.run_command import WAITING_COMMANDS
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.errors import InvalidArgumentError
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce, records

Connect = Callable[[str], RawClient]

TIME_LIMIT = 30.0


@pytest.fixture
def client(cluster: Cluster, connect: Connect) -> RawClient:
    """Return a connection to the leader of the topic `t`."""
    cluster.create_topic("t")
    return connect(leader_address(cluster))


def leader_address(cluster: Cluster) -> str:
    """Return the address of the topic's leader."""
    return cluster.bootstrap_servers.split(",")[cluster.describe_topic("t")[0]["leader"]]


def raising(error: BaseException, *, as_coroutine: bool = False) -> Callable[..., Any]:
    """Return a function that raises an exception."""

    def plain(_request: InterceptedRequest) -> None:
        raise error

    async def coroutine(request: InterceptedRequest) -> None:
        await request.handle()
        raise error

    return coroutine if as_coroutine else plain


ERRORS = [
    pytest.fail.Exception("must not happen"),
    pytest.skip.Exception("must not happen"),
    pytest.exit.Exception("must not happen"),
    KeyboardInterrupt("must not happen"),
    SystemExit("must not happen"),
    GeneratorExit("must not happen"),
    AssertionError("must not happen"),
]


@pytest.mark.parametrize("as_coroutine", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
def test_block_raises_every_kind_of_exception(
    cluster: Cluster, client: RawClient, error: BaseException, as_coroutine: bool
) -> None:
    def intercepted() -> None:
        with cluster.intercept("Produce", raising(error, as_coroutine=as_coroutine)):
            assert produce(client, "t", b"x").error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    with pytest.raises(type(error), match="must not happen"):
        intercepted()
    assert produce(client, "t", b"y").error_code == 0


def test_error_that_leaves_the_block_is_the_context_of_the_functions(
    cluster: Cluster, client: RawClient
) -> None:
    def intercepted() -> None:
        with cluster.intercept("Produce", raising(ValueError("first"))):
            produce(client, "t", b"x")
            raise LookupError("a client has failed")

    with pytest.raises(ValueError, match="first") as raised:
        intercepted()
    assert isinstance(raised.value.__context__, LookupError)


LENIENT = [pytest.skip.Exception("no"), pytest.xfail.Exception("no"), unittest.SkipTest("no")]


@pytest.mark.parametrize("of", ["interception", "cluster", "both"])
@pytest.mark.parametrize("error", LENIENT, ids=lambda each: type(each).__name__)
def test_skip_of_a_function_does_not_replace_the_tests_failure(
    connect: Connect, error: BaseException, of: str
) -> None:
    def run() -> None:
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster())
            cluster.create_topic("t")
            interception = cluster.intercept("Produce", raising(error))
            if of != "cluster":
                stack.enter_context(interception)
            produce(connect(cluster.bootstrap_servers), "t", b"x")
            raise AssertionError("of the test")

    with pytest.raises(AssertionError, match="of the test") as raised:
        run()
    assert any(note.endswith(": no") for note in raised.value.__notes__)


@pytest.mark.parametrize("error", LENIENT, ids=lambda each: type(each).__name__)
def test_skip_of_a_function_gives_way_to_its_failure(
    cluster: Cluster, client: RawClient, error: BaseException
) -> None:
    def fail(_request: InterceptedRequest) -> None:
        raise error if interception.hits == 1 else ValueError("a failure")

    interception = cluster.intercept("Produce", fail)
    produce(client, "t", b"x")
    produce(client, "t", b"x")
    with pytest.raises(ValueError, match="a failure"):
        interception.remove()


def test_end_of_the_process_leaves_the_block_with_notes(
    cluster: Cluster, client: RawClient
) -> None:
    def intercepted() -> None:
        with cluster.intercept("Produce", raising(ValueError("first"))):
            produce(client, "t", b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        intercepted()
    assert raised.value.__notes__ == [
        "A function given to intercept has raised, too: ValueError: first"
    ]


def test_first_error_has_notes_on_some_others(cluster: Cluster, client: RawClient) -> None:
    def fail(_request: InterceptedRequest) -> None:
        raise ValueError(f"number {interception.hits}")

    interception = cluster.intercept("Produce", fail)
    for _ in range(6):
        produce(client, "t", b"x")
    with pytest.raises(ValueError, match="number 1\n") as raised:
        interception.remove()
    *notes, rest = raised.value.__notes__
    assert [note.rpartition(" ")[2] for note in notes] == ["2", "3", "4"]
    assert rest == "It has raised 2 more exceptions."
    interception.remove()


def test_errors_that_were_looked_at_are_not_raised(cluster: Cluster, client: RawClient) -> None:
    with cluster.intercept("Produce", raising(ValueError("seen"))) as interception:
        produce(client, "t", b"x")
        assert [str(each) for each in interception.errors] == ["seen"]
    assert [str(each) for each in interception.errors] == ["seen"]


@pytest.mark.parametrize("forget", ["clear_faults", "reset", None])
def test_unseen_error_is_raised_when_the_cluster_closes(
    connect: Connect, forget: str | None
) -> None:
    cluster = Cluster().start()
    try:
        cluster.create_topic("t")
        cluster.intercept("Produce", raising(pytest.fail.Exception("nobody has seen this")))
        produce(connect(cluster.bootstrap_servers), "t", b"x")
        if forget is not None:
            cluster.call(forget)
    finally:
        with pytest.raises(pytest.fail.Exception, match="nobody has seen this"):
            cluster.close()
    cluster.close()


def test_error_after_the_end_of_the_block_is_raised_when_the_cluster_closes(
    connect: Connect,
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    async def fail_later(_request: InterceptedRequest) -> None:
        arrived.set()
        await asyncio.to_thread(go_on.wait, TIME_LIMIT)
        pytest.fail("too late for the block")

    def run() -> None:
        with Cluster() as cluster:
            cluster.create_topic("t")
            client = connect(cluster.bootstrap_servers)
            data = [{"name": "t", "partition_data": [{"index": 0, "records": records(b"x")}]}]
            with cluster.intercept("Produce", fail_later):
                client.start("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data)
                assert arrived.wait(TIME_LIMIT)
            go_on.set()
            client.read()

    with pytest.raises(pytest.fail.Exception, match="too late for the block"):
        run()


def test_clusters_own_block_keeps_the_error_that_leaves_it(connect: Connect) -> None:
    def run() -> None:
        with Cluster() as cluster:
            cluster.create_topic("t")
            cluster.intercept("Produce", raising(ValueError("of the function")))
            produce(connect(cluster.bootstrap_servers), "t", b"x")
            raise LookupError("of the block")

    with pytest.raises(ValueError, match="of the function") as raised:
        run()
    assert isinstance(raised.value.__context__, LookupError)


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


def test_function_is_refused_the_end_of_functions(cluster: Cluster, client: RawClient) -> None:
    def end(_request: InterceptedRequest) -> None:
        cluster.end_functions()

    with (
        pytest.raises(ClusterError, match="can't end itself"),
        cluster.intercept("Produce", end),
    ):
        produce(client, "t", b"x")


def test_cancellation_by_the_function_itself_is_an_error(
    cluster: Cluster, client: RawClient
) -> None:
    async def cancel(_request: InterceptedRequest) -> None:
        raise asyncio.CancelledError

    interception = cluster.intercept("Produce", cancel)
    assert produce(client, "t", b"x").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ClusterError, match="the function that intercepts Produce was cancelled"):
        interception.remove()


def test_unseen_error_of_an_async_cluster_is_raised_at_the_end_of_its_block(
    connect: Connect,
) -> None:
    async def scenario() -> None:
        async with AsyncCluster() as cluster:
            cluster.intercept("Metadata", raising(SystemExit(3)))
            client = connect(cluster.addresses()[0])
            await asyncio.to_thread(client.call, "Metadata", 8, topics=None)
            with pytest.raises(SystemExit):
                cluster.raise_unseen_errors()
            await asyncio.to_thread(client.call, "Metadata", 8, topics=None)

    with pytest.raises(SystemExit):
        asyncio.run(scenario())


def test_ctrl_c_in_a_function_of_the_main_thread_ends_the_loop(connect: Connect) -> None:
    async def scenario() -> None:
        async with AsyncCluster() as cluster:
            cluster.intercept("Metadata", raising(KeyboardInterrupt()))
            client = connect(cluster.addresses()[0])
            client.start("Metadata", 8, topics=None)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(scenario())


def test_answer_that_is_no_response_is_an_error_of_the_function(
    cluster: Cluster, client: RawClient
) -> None:
    def look(_request: InterceptedRequest) -> bool:
        return True

    with (
        pytest.raises(InvalidArgumentError, match="fields of Kafka's ProduceResponse, got True"),
        cluster.intercept("Produce", look),
        pytest.raises(ConnectionClosedError),
    ):
        produce(client, "t", b"x")


def test_response_that_is_broken_by_the_function_is_an_error_of_it(
    cluster: Cluster, client: RawClient
) -> None:
    async def break_it(request: InterceptedRequest) -> None:
        response = await request.handle()
        response.responses = None

    with (
        pytest.raises(InvalidArgumentError, match="fields of Kafka's ProduceResponse"),
        cluster.intercept("Produce", break_it),
        pytest.raises(ConnectionClosedError),
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


def test_failure_of_the_clusters_thread_is_raised_by_close() -> None:
    def stop() -> None:
        raise SystemExit("stopped by hand")

    cluster = Cluster().start()
    loop, thread = cluster._loop, cluster._thread
    assert loop is not None
    assert thread is not None
    loop.call_soon_threadsafe(stop)
    thread.join(TIME_LIMIT)
    with pytest.raises(ClusterError, match="it has failed with SystemExit"):
        cluster.faults()
    with pytest.raises(SystemExit, match="stopped by hand"):
        cluster.close()
