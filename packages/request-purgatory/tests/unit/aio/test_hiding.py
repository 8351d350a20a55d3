"""The futures of `wait` are hidden from the cyclic collector as those of `hold` are."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from collections.abc import Callable

import pytest

from request_purgatory import DelayedOperation, InvalidArgumentError
from request_purgatory._native import hiding
from request_purgatory.aio import Purgatory
from tests.support.children import in_child
from tests.support.garbage import Payload
from tests.support.requests import Request
from tests.unit.aio.scenes import Scenario, opened
from tests.unit.purgatory.test_hiding import is_seen_in_a_full_collection

pytestmark = pytest.mark.usefixtures("collector_at_rest")

needs_hiding = pytest.mark.skipif(
    not hiding.HIDES, reason="this build hides nothing from the collector"
)

ENDS: dict[str, Callable[[Purgatory, Request], object]] = {
    "event": lambda purgatory, _: purgatory.notify("a"),
    "by hand": lambda _, request: request.force_complete(),
    "cancelled": lambda _, request: request.cancel(),
    "closed": lambda purgatory, _: purgatory.close(),
    "expired": lambda purgatory, request: purgatory.renew(request, 0),
}


@needs_hiding
@pytest.mark.parametrize("end", ENDS)
def test_future_of_wait_is_hidden_while_it_waits(play: Scenario, end: str) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request(60_000)
            future = purgatory.wait(request, ["a"])
            for _ in range(2):
                # The loop runs, and refers to all that waits.
                assert not is_seen_in_a_full_collection(future)
                assert not gc.is_tracked(future)
                assert not gc.is_tracked(purgatory._answers.futures)
            request.ready = True
            ENDS[end](purgatory, request)
            assert request.is_completed
            assert gc.is_tracked(future)
            await asyncio.wait([future])
            future.exception()

    play(scenario)


@needs_hiding
def test_future_of_wait_is_seen_in_full_collections_once_its_loop_has_stopped() -> None:
    async def main() -> tuple[Purgatory, asyncio.Future[str]]:
        purgatory = await Purgatory("leaks").__aenter__()
        return purgatory, purgatory.wait(Request(60_000), ["a"])

    loop = asyncio.new_event_loop()
    purgatory, future = loop.run_until_complete(main())
    for _ in range(2):
        assert is_seen_in_a_full_collection(future)
        assert not gc.is_tracked(future)
        assert not gc.is_tracked(purgatory._answers.futures)
    purgatory.close()
    loop.run_until_complete(asyncio.wait([future]))
    future.exception()
    loop.close()


def test_ring_of_a_dropped_purgatory_and_the_future_of_wait_is_found() -> None:
    async def main() -> weakref.ref[Purgatory]:
        purgatory = await Purgatory("leaks").__aenter__()
        payload = Payload()
        future = purgatory.wait(Request(60_000), ["a"])
        future.add_done_callback(payload)
        payload.ring = (purgatory, future)
        return weakref.ref(purgatory)

    loop = asyncio.new_event_loop()
    ghost = loop.run_until_complete(main())
    loop.close()
    del loop
    gc.collect()
    gc.collect()
    assert ghost() is None


def test_future_of_an_operation_that_did_not_enter_is_not_hidden(play: Scenario) -> None:
    class Raising(DelayedOperation):
        def try_complete(self) -> bool:
            gc.collect()
            futures.extend(purgatories[0]._answers.futures.values())
            raise ZeroDivisionError

    futures: list[asyncio.Future[str]] = []
    purgatories: list[Purgatory] = []

    async def scenario() -> None:
        async with opened() as purgatory:
            purgatories.append(purgatory)
            with pytest.raises(ZeroDivisionError):
                purgatory.wait(Raising(60_000), ["a"])
            with pytest.raises(InvalidArgumentError):
                purgatory.wait(Request(60_000), [])
            assert [gc.is_tracked(future) for future in futures] == [True]
            assert purgatory._answers.futures == {}

    play(scenario)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_copy_of_a_future_in_a_forked_child_is_not_hidden(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            future = purgatory.wait(Request(60_000), ["a"])

            def child() -> None:
                assert gc.is_tracked(future)
                assert purgatory._answers.futures == {}

            in_child(child)
            future.cancel()

    play(scenario)
