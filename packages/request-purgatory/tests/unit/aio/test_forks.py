"""A forked child refuses its parent's purgatory."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import pytest

from request_purgatory.aio import Purgatory
from tests.support.children import in_child
from tests.support.requests import Request

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def test_child_is_refused_by_name_and_the_parent_goes_on() -> None:
    async def main() -> str:
        async with Purgatory("inherited") as purgatory:
            request = Request(60_000)
            outcome = asyncio.ensure_future(purgatory.wait(request, ["a"]))
            held = purgatory.hold(["a"], until=lambda: False, timeout=60)

            def child() -> None:
                calls: list[Callable[[], object]] = [
                    lambda: purgatory.hold(["a"], until=lambda: True, timeout=1),
                    lambda: purgatory.wait(Request(), ["a"]),
                    lambda: purgatory.try_complete_else_watch(Request(), ["a"]),
                    lambda: purgatory.notify("a"),
                    lambda: purgatory.notify_threadsafe("a"),
                    lambda: purgatory.cancel_for_key("a"),
                    lambda: purgatory.metrics(),
                ]
                for call in calls:
                    with pytest.raises(
                        RuntimeError, match=r"'inherited' belongs to a loop of the parent process"
                    ):
                        call()
                assert purgatory.is_closed
                assert (purgatory.num_delayed, request.outcome, request.calls) == (
                    0,
                    "cancelled",
                    [],
                )
                assert purgatory.close() == []

            in_child(child)
            assert purgatory.num_delayed == 2
            held.cancel()
            request.ready = True
            purgatory.notify("a")
            return await outcome

    assert asyncio.run(main()) == "completed"


def test_fork_inside_the_block_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)

    async def main() -> None:
        async with Purgatory("inherited"):
            in_child(lambda: None if raised == [] else pytest.fail(repr(raised)))

    asyncio.run(main())
    assert raised == []


def test_child_makes_a_purgatory_on_its_own_loop() -> None:
    async def hold(name: str) -> None:
        async with Purgatory(name) as purgatory:
            with pytest.raises(TimeoutError):
                await purgatory.hold(["k"], until=lambda: False, timeout=0.001)

    async def main() -> None:
        async with Purgatory("parent's"):
            in_child(lambda: asyncio.new_event_loop().run_until_complete(hold("child's")))
            await hold("another")

    asyncio.run(main())
