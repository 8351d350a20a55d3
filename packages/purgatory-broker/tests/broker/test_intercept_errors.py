"""What functions that intercept requests raise."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from purgatory_broker import (
    AsyncCluster,
    Cluster,
    InterceptedRequest,
)
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.wire_error import WireError
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.intercept_functions import raising
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import produce, records

TIME_LIMIT = 30.0


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


ENDING = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


@pytest.mark.parametrize("kind", ENDING)
@pytest.mark.parametrize("of", ["interception", "cluster"])
def test_error_of_a_function_is_raised_for_a_block_that_ends_the_process_or_the_task(
    connect: Connect, kind: type[BaseException], of: str
) -> None:
    def run() -> None:
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster())
            cluster.create_topic("t")
            interception = cluster.intercept("Produce", raising(ValueError("first")))
            if of == "interception":
                stack.enter_context(interception)
            produce(connect(cluster.bootstrap_servers), "t", b"x")
            raise kind

    with pytest.raises(ValueError, match="first") as raised:
        run()
    assert isinstance(raised.value.__context__, kind)


def test_error_of_a_function_is_raised_for_a_cancelled_block_of_an_async_cluster(
    connect: Connect,
) -> None:
    async def scenario() -> None:
        async with AsyncCluster() as cluster:
            cluster.intercept("Metadata", raising(ValueError("first")))
            client = connect(cluster.addresses()[0])
            await asyncio.to_thread(client.call, "Metadata", 8, topics=None)
            raise asyncio.CancelledError

    with pytest.raises(ValueError, match="first") as raised:
        asyncio.run(scenario())
    assert isinstance(raised.value.__context__, asyncio.CancelledError)


def test_skip_of_a_function_does_not_replace_the_end_of_the_process(
    cluster: Cluster, client: RawClient
) -> None:
    def intercepted() -> None:
        with cluster.intercept("Produce", raising(pytest.skip.Exception("no"))):
            produce(client, "t", b"x")
            raise SystemExit

    with pytest.raises(SystemExit) as raised:
        intercepted()
    assert raised.value.__notes__ == ["A function given to intercept has raised, too: Skipped: no"]


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


def unreadable(request: Any) -> None:
    request.topics = 7


def unanswerable(request: Any) -> None:
    request.topics[0].name = ["t"]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(("change", "error"), [(unreadable, WireError), (unanswerable, TypeError)])
def test_request_that_is_broken_by_the_function_is_an_error_of_it(
    cluster: Cluster,
    client: RawClient,
    change: Callable[[Any], None],
    error: type[Exception],
    waits: bool,
) -> None:
    def alone(request: InterceptedRequest) -> None:
        change(request.request)

    async def and_wait(request: InterceptedRequest) -> None:
        change(request.request)
        await request.handle()

    with (
        pytest.raises(error),
        cluster.intercept("Metadata", and_wait if waits else alone),
        suppress(ConnectionClosedError),
    ):
        client.call("Metadata", 8, topics=[{"name": "t"}])


def test_error_of_a_broken_request_is_raised_by_each_handling_of_it(
    cluster: Cluster, client: RawClient
) -> None:
    times = 0

    async def change_and_go_on(request: InterceptedRequest) -> None:
        nonlocal times
        unreadable(request.request)
        for _ in range(2):
            try:
                await request.handle()
            except WireError:
                times += 1

    with (
        pytest.raises(WireError),
        cluster.intercept("Metadata", change_and_go_on),
        pytest.raises(ConnectionClosedError),
    ):
        client.call("Metadata", 8, topics=None)
    assert times == 2
