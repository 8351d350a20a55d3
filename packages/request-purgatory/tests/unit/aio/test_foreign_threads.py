"""What other threads than the loop's may do with a purgatory, and what they are told otherwise.

The loops are in debug mode, where asyncio itself refuses what would wake nobody.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

import pytest

from request_purgatory import OperationCancelledError, PurgatoryClosedError
from request_purgatory.aio import Purgatory
from tests.support.requests import Request
from tests.unit.aio.scenes import Condition, opened

TIME_LIMIT = 20.0


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on a loop in debug mode, within the time limit."""
    asyncio.run(asyncio.wait_for(scenario(), TIME_LIMIT), debug=True)


def elsewhere(call: Callable[[], object]) -> BaseException | None:
    """Make a call on another thread, and return what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(TIME_LIMIT)
    assert not thread.is_alive()
    return raised[0] if raised else None


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [(["a"], "purgatory.cancel_for_key, key"), ([], "purgatory.close")],
    ids=["cancel_for_key", "close"],
)
def test_method_of_the_loop_is_refused_by_the_name_of_what_to_call(
    arguments: list[str], instead: str
) -> None:
    method = "cancel_for_key" if arguments else "close"

    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=Condition(), timeout=TIME_LIMIT)
            error = elsewhere(lambda: getattr(purgatory, method)(*arguments))
            assert type(error) is RuntimeError
            assert str(error) == (
                "purgatory 'test' belongs to its loop's thread: "
                f"call loop.call_soon_threadsafe({instead}) from other threads"
            )
            assert (purgatory.num_delayed, purgatory.is_closed, held.done()) == (1, False, False)
            held.cancel()

    play(scenario)


def test_what_the_refusals_name_does_it() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with Purgatory("test") as purgatory:
            first = purgatory.hold(["a"], until=Condition(), timeout=TIME_LIMIT)
            second = purgatory.hold(["b"], until=Condition(), timeout=TIME_LIMIT)
            threading.Thread(
                target=loop.call_soon_threadsafe, args=(purgatory.cancel_for_key, "a")
            ).start()
            with pytest.raises(OperationCancelledError):
                await first
            threading.Thread(target=loop.call_soon_threadsafe, args=(purgatory.close,)).start()
            with pytest.raises(PurgatoryClosedError):
                await second

    play(scenario)


def test_future_that_another_thread_cancels_stays_as_it_was() -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=Condition(), timeout=TIME_LIMIT)
            waiting = purgatory.wait(Request(60_000), ["a"])
            for future in (held, waiting):
                told: list[object] = []
                future.add_done_callback(told.append)
                error = elsewhere(future.cancel)
                assert type(error) is RuntimeError
                assert str(error) == (
                    "a future of purgatory 'test' belongs to its loop's thread: "
                    "call loop.call_soon_threadsafe(future.cancel) from other threads"
                )
                assert not future.done()
                assert future.cancel()
            assert purgatory.num_delayed == 0

    play(scenario)


@pytest.mark.parametrize("end", ["cancel", "force_complete"])
def test_operation_of_hold_that_another_thread_ends_wakes_its_waiter(end: str) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held: Any = purgatory.hold(["a"], until=Condition(), timeout=TIME_LIMIT)
            waiter = asyncio.ensure_future(held)
            await asyncio.sleep(0)
            assert elsewhere(getattr(held.operation, end)) is None
            assert not held.done()  # It is told on the loop.
            if end == "cancel":
                with pytest.raises(OperationCancelledError):
                    await waiter
            else:
                assert await waiter is None

    play(scenario)


def test_operation_that_another_thread_cancels_tells_what_waits_for_it() -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request(60_000)
            waiting = asyncio.ensure_future(purgatory.wait(request, ["a"]))
            await asyncio.sleep(0)
            assert elsewhere(request.cancel) is None
            assert await waiting == "cancelled"
            purgatory.notify("a")

    play(scenario)


def test_quorum_of_futures_that_end_on_other_threads_wakes_its_waiter() -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            acks: list[Future[int]] = [Future(), Future()]
            gathered = asyncio.ensure_future(purgatory.gather(acks, timeout=TIME_LIMIT))
            await asyncio.sleep(0)
            for ack in acks:
                assert elsewhere(lambda ack=ack: ack.set_result(0)) is None  # type: ignore[misc]
            assert (await gathered).succeeded == tuple(acks)

    play(scenario)


def test_answer_of_another_thread_is_nothing_to_a_future_that_was_cancelled_meanwhile() -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held: Any = purgatory.hold(["a"], until=Condition(), timeout=TIME_LIMIT)
            assert elsewhere(held.operation.force_complete) is None
            assert held.cancel()
            await asyncio.sleep(0)
            assert held.cancelled()

    play(scenario)


def test_loop_that_does_not_run_has_no_thread_to_be_refused_for() -> None:
    loop = asyncio.new_event_loop()
    loop.set_debug(True)

    async def begin() -> tuple[Purgatory, list[asyncio.Future[object]]]:
        purgatory = await Purgatory("test").__aenter__()
        return purgatory, [
            purgatory.hold([key], until=Condition(), timeout=TIME_LIMIT) for key in "abc"
        ]

    purgatory, futures = loop.run_until_complete(begin())
    assert len(purgatory.cancel_for_key("a")) == 1
    assert futures[1].cancel()
    assert len(purgatory.close()) == 1
    answers = loop.run_until_complete(asyncio.gather(*futures, return_exceptions=True))
    loop.close()
    assert [type(answer) for answer in answers] == [
        OperationCancelledError,
        asyncio.CancelledError,
        PurgatoryClosedError,
    ]


def test_purgatory_of_a_closed_loop_can_be_closed() -> None:
    loop = asyncio.new_event_loop()

    async def begin() -> tuple[Purgatory, list[asyncio.Future[object]]]:
        purgatory = await Purgatory("test").__aenter__()
        return purgatory, [
            purgatory.hold([key], until=Condition(), timeout=TIME_LIMIT) for key in "ab"
        ]

    purgatory, futures = loop.run_until_complete(begin())
    told: list[object] = []
    for future in futures:
        future.add_done_callback(told.append)
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        futures[0].cancel()
    assert purgatory.num_delayed == 1
    assert len(purgatory.close()) == 1
    assert purgatory.metrics().callback_errors == 0
    assert isinstance(futures[1].exception(), PurgatoryClosedError)
    assert told == []
