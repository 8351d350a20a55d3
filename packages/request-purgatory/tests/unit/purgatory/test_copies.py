"""What holds requests refuses to be copied or pickled, and goes on with them."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
from collections.abc import Callable

import pytest

from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer
from request_purgatory.aio import Purgatory
from request_purgatory.legacy import DelayQueueTimer, LegacyPurgatory
from request_purgatory.testing import ManualPurgatory
from tests.support.requests import Request


class Subclass(DelayedOperationPurgatory):
    """A purgatory with attributes."""


MAKERS: list[Callable[[], object]] = [
    lambda: DelayedOperationPurgatory("test", reaper=False),
    lambda: Subclass("test", reaper=False),
    lambda: LegacyPurgatory("test", reaper=False),
    ManualPurgatory,
    lambda: SystemTimer("test"),
    lambda: DelayQueueTimer("test"),
    ManualClock,
    lambda: Purgatory("test"),
    lambda: Request(100),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("use", "verb"),
    [
        (copy.copy, "copied"),
        (copy.deepcopy, "copied"),
        (pickle.dumps, "pickled"),
        (lambda target: pickle.dumps(target, 0), "pickled"),
    ],
    ids=["copy", "deepcopy", "pickle", "old pickle"],
)
def test_copies_are_refused_by_the_name_of_the_class(
    make: Callable[[], object], use: Callable[[object], object], verb: str
) -> None:
    target = make()
    with pytest.raises(TypeError, match=f"{type(target).__name__} can't be {verb}: it may be"):
        use(target)


def test_what_waits_goes_on_after_a_refused_copy(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    for target in (purgatory, purgatory.timer, clock):
        for refused in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                refused(target)
    gc.collect()
    assert (purgatory.num_delayed, purgatory.watched > 0) == (1, True)
    clock.advance(10)
    purgatory.advance_clock(0)
    assert request.calls == ["complete", "expiration"]


def test_open_block_of_a_loop_goes_on_after_a_refused_copy() -> None:
    async def scenario() -> None:
        async with Purgatory("test") as purgatory:
            answers: list[int] = []
            held = purgatory.hold(["a"], until=lambda: len(answers), timeout=60)
            with pytest.raises(TypeError, match="can't be copied"):
                copy.copy(purgatory)
            gc.collect()
            answers.append(7)
            purgatory.notify("a")
            assert await held == 1

    asyncio.run(scenario())
