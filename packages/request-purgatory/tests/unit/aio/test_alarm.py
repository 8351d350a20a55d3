"""The one timer that a purgatory has on its loop: who sets it, and what it does."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory import (
    InvalidArgumentError,
    PurgatoryClosedError,
    TimerClosedError,
)
from request_purgatory.aio import Purgatory
from tests.support.requests import Request
from tests.unit.aio.scenes import Condition, Scenario, now, opened, turns
from tests.unit.aio.virtual import VirtualLoop, run


def test_renewal_that_shortens_a_timeout_is_in_time(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request(3_000)
            began = now()
            ended = purgatory.wait(request, ["a"])
            assert purgatory.renew(request, 0.05) is True
            assert await ended == "expired"
            assert now() - began == pytest.approx(0.05, abs=0.0011)

    play(scenario)


def test_renewal_that_lengthens_a_timeout_is_in_time(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request(50)
            began = now()
            ended = purgatory.wait(request, ["a"])
            assert purgatory.renew(request, 3) is True
            assert await ended == "expired"
            assert now() - began == pytest.approx(3, abs=0.0011)
            assert purgatory.renew(request, 3) is False

    play(scenario)


@pytest.mark.parametrize("order", [1, -1], ids=["rising", "falling"])
def test_every_timeout_is_in_time_whatever_came_before(play: Scenario, order: int) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            ended: dict[int, float] = {}

            async def wait(delay_ms: int) -> None:
                began = now()
                with pytest.raises(TimeoutError):
                    await purgatory.hold([delay_ms], until=Condition(), timeout=delay_ms / 1000)
                ended[delay_ms] = 1000 * (now() - began)

            delays = [1, 2, 50, 255, 256, 257, 300, 511, 512, 914, 1_000, 65_536, 70_000]
            tasks = [asyncio.create_task(wait(delay_ms)) for delay_ms in delays[::order]]
            await asyncio.gather(*tasks)
            assert ended == pytest.approx({delay: delay for delay in delays}, abs=1.001)

    play(scenario)


def test_alarm_stands_at_the_first_bucket(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=Condition(), timeout=0.2)
            first = purgatory._alarm.handle
            later = purgatory.hold(["a"], until=Condition(), timeout=0.201)
            same = purgatory.hold(["a"], until=Condition(), timeout=0.2)
            assert purgatory._alarm.handle is first
            earlier = purgatory.hold(["a"], until=Condition(), timeout=0.199)
            assert purgatory._alarm.handle is not first
            assert first is not None
            assert first.cancelled()
            for future in (held, later, same, earlier):
                future.cancel()

    play(scenario)


def test_operation_that_ends_at_once_sets_no_alarm(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            assert purgatory.try_complete_else_watch(Request(10, ready=True), ["a"]) is True
            await purgatory.wait(Request(10, ready=True), ["a"])
            assert (purgatory._alarm.handle, purgatory._alarm.at_ms) == (None, math.inf)

    play(scenario)


def test_purgatory_that_is_closed_leaves_no_alarm_on_the_loop(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=Condition(), timeout=5)
            alarm = purgatory._alarm.handle
            assert alarm is not None
            purgatory.close()
            assert alarm.cancelled()
            assert (purgatory._alarm.handle, purgatory._alarm.at_ms) == (None, math.inf)
            with pytest.raises(PurgatoryClosedError):
                await held

    play(scenario)


def test_alarm_that_a_callback_sets_is_kept(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            alarms: list[object] = []

            def add() -> None:
                purgatory.try_complete_else_watch(Request(1), ["a"])
                alarms.append(purgatory._alarm.handle)

            purgatory.try_complete_else_watch(Request(10, expiration=add), ["a"])
            far = purgatory.hold(["a"], until=Condition(), timeout=5)
            await asyncio.sleep(0.0101)
            assert purgatory._alarm.handle is alarms[0] is not None
            await asyncio.sleep(0.002)
            assert purgatory.num_delayed == 1
            far.cancel()

    play(scenario)


def test_callback_may_close_the_purgatory(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=1) as purgatory:
            futures: list[asyncio.Future[Any]] = []
            request = Request(10, expiration=purgatory.close)
            purgatory.try_complete_else_watch(request, ["a"])
            futures = [
                purgatory.hold(["a"], until=Condition(), timeout=timeout) for timeout in (0.01, 5)
            ]
            await asyncio.sleep(0.011)
            assert purgatory.is_closed
            assert purgatory._alarm.handle is None
            for future in futures:
                with pytest.raises(PurgatoryClosedError):
                    await future

    play(scenario)


def test_purge_comes_with_the_alarm(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(purge_interval=3) as purgatory:
            for _ in range(4):
                purgatory.try_complete_else_watch(Request(10), ["a", "b"])
            await asyncio.sleep(0.02)
            assert purgatory.metrics().purges == 1
            assert purgatory.watched == 0

    play(scenario)


def test_purge_comes_with_the_next_request(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(purge_interval=2) as purgatory:
            for _ in range(3):
                request = Request(1_000)
                purgatory.try_complete_else_watch(request, ["a"])
                request.force_complete()
            assert purgatory.metrics().purges == 0
            purgatory.try_complete_else_watch(Request(1_000), ["b"])
            assert (purgatory.metrics().purges, purgatory.watched) == (1, 1)

    play(scenario)


def test_interval_of_0_purges_after_every_end(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(purge_interval=0) as purgatory:
            purgatory.try_complete_else_watch(Request(10), ["a"])
            await asyncio.sleep(0.02)
            assert (purgatory.metrics().purges, purgatory.watched) == (1, 0)

    play(scenario)


# -- events


def test_key_is_posted_to_the_loop_once_until_it_is_handled(
    play: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()
            held = purgatory.hold(["a"], until=condition, timeout=1)
            loop = asyncio.get_running_loop()
            posted: list[object] = []
            post = loop.call_soon_threadsafe
            monkeypatch.setattr(
                loop,
                "call_soon_threadsafe",
                lambda *args: (posted.append(args[1:]), post(*args)),
            )
            for _ in range(3):
                purgatory.notify_threadsafe("a")
            assert posted == [("a",)]
            await turns(1)
            assert condition.looks == 2
            condition.value = "answer"
            purgatory.notify_threadsafe("a")
            assert await held == "answer"
            assert posted == [("a",)] * 2
            purgatory.close()
            purgatory.notify_threadsafe("a")
            assert posted == [("a",)] * 2

    play(scenario)


def test_event_of_a_condition_that_looks_meanwhile_is_not_lost(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            looks: list[bool] = []

            def until() -> bool:
                looks.append(True)
                if len(looks) == 2:
                    purgatory.notify_threadsafe("a")  # As another thread, after the look.
                return len(looks) == 3

            held = purgatory.hold(["a"], until=until, timeout=1)
            purgatory.notify_threadsafe("a")
            assert await held is True

    play(scenario)


def test_key_that_was_posted_before_the_end_is_dropped(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            purgatory.notify_threadsafe("a")
            purgatory.close()
            await turns()

    play(scenario)


def test_loop_that_refuses_an_event_is_told_of_only_while_it_runs() -> None:
    async def enter() -> Purgatory:
        return await Purgatory("test").__aenter__()

    loop = VirtualLoop()
    purgatory = loop.run_until_complete(enter())
    for error in (RuntimeError("refused"), OSError("refused")):

        def refuse(*args: object, error: Exception = error) -> None:
            raise error

        loop.call_soon_threadsafe = refuse  # type: ignore[assignment]
        with pytest.raises(type(error), match="refused"):
            purgatory.notify_threadsafe("a")
    loop.close()
    with pytest.raises(OSError, match="refused"):
        purgatory.notify_threadsafe("a")
    del loop.call_soon_threadsafe
    for _ in range(2):
        purgatory.notify_threadsafe("a")
    purgatory.close()


def test_check_counts_what_it_completed(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=1) as purgatory:
            requests = [Request() for _ in range(3)]
            for request in requests:
                purgatory.try_complete_else_watch(request, ["a"])
                request.ready = True
            assert purgatory.check_and_complete("a") == 3
            assert purgatory.check_and_complete("a") == 0
            purgatory.close()
            assert purgatory.check_and_complete("a") == 0

    play(scenario)


def test_keys_are_notified_together(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()
            held = [purgatory.hold([key], until=condition, timeout=1) for key in "abc"]
            condition.value, condition.looks = "answer", 0
            purgatory.notify_many([])
            purgatory.notify_many(["a", "b", "a"])
            assert [future.done() for future in held] == [True, True, False]
            assert condition.looks == 2
            with pytest.raises(InvalidArgumentError, match="one string"):
                purgatory.notify_many("ab")
            held[2].cancel()

    play(scenario)


# -- the wrong place


CALLS: list[Callable[[Purgatory], object]] = [
    lambda purgatory: purgatory.hold(["a"], until=Condition(), timeout=1),
    lambda purgatory: purgatory.gather([]),
    lambda purgatory: purgatory.wait(Request(), ["a"]),
    lambda purgatory: purgatory.try_complete_else_watch(Request(), ["a"]),
    lambda purgatory: purgatory.renew(Request(), 1),
]
EVENTS: list[Callable[[Purgatory], object]] = [
    lambda purgatory: purgatory.notify("a"),
    lambda purgatory: purgatory.notify_many(["a"]),
    lambda purgatory: purgatory.check_and_complete("a"),
]


@pytest.mark.parametrize("call", [*CALLS, *EVENTS])
def test_purgatory_that_was_not_entered_refuses(call: Callable[[Purgatory], object]) -> None:
    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="'test' has not been entered"):
            call(Purgatory("test"))

    run(scenario)


@pytest.mark.parametrize("call", CALLS)
def test_purgatory_that_was_left_refuses(call: Callable[[Purgatory], object]) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            pass
        with pytest.raises(PurgatoryClosedError, match="'test'"):
            call(purgatory)

    run(scenario)


@pytest.mark.parametrize("call", [*CALLS, *EVENTS])
def test_purgatory_refuses_another_thread(call: Callable[[Purgatory], object]) -> None:
    raised: list[str] = []

    async def scenario() -> None:
        async with opened() as purgatory:

            def use() -> None:
                try:
                    call(purgatory)
                except RuntimeError as error:
                    raised.append(str(error))

            thread = threading.Thread(target=use)
            thread.start()
            thread.join(20)
            assert purgatory.num_delayed == 0

    run(scenario)
    assert len(raised) == 1
    assert raised[0].startswith("purgatory 'test' belongs to ")


def test_waiter_of_an_operation_without_a_timeout_is_told(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            assert await purgatory.wait(Request(0), ["a"]) == "expired"
            assert purgatory._answers.futures == {}

    play(scenario)


# -- what it says of itself


def test_purgatory_says_what_it_holds(play: Scenario) -> None:
    async def scenario() -> None:
        purgatory = Purgatory("test")
        assert repr(purgatory) == "<request_purgatory.aio.purgatory.Purgatory 'test' not entered>"
        assert (purgatory.num_watchers("a"), purgatory.timer, purgatory.close()) == (0, None, [])
        async with purgatory:
            held = purgatory.hold(["a", "a"], until=Condition(), timeout=1)
            assert purgatory.num_watchers("a") == 1
            purgatory.wait(Request(), ["a", "b", "a"])
            assert (purgatory.num_watchers("a"), purgatory.watched) == (2, 3)
            assert repr(purgatory).endswith(" 'test' pending=2>")
            timer = purgatory.timer
            assert timer is not None
            assert timer.size == 2
            held.cancel()
        assert repr(purgatory).endswith(" 'test' closed>")
        assert purgatory.num_watchers("a") == 0
        with pytest.raises(TimerClosedError):
            timer.call_later_ms(1, print)

    play(scenario)


def test_callback_of_a_timeout_may_run_the_loop_which_rings_again(play: Scenario) -> None:
    """As nest_asyncio does: what the loop calls then must not be in the context that runs."""
    contexts: list[object] = []

    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request(10)

            def callback() -> None:
                purgatory.hold(["a"], until=lambda: False, timeout=1)
                handle: Any = purgatory._alarm.handle
                contexts.append(handle._context.run(lambda: "entered"))

            request.during["complete"] = callback
            await purgatory.wait(request, ["a"])

    play(scenario)
    assert contexts == ["entered"]


def test_loop_that_runs_refers_to_an_alarm_that_is_set_or_rings() -> None:
    """On its own thread: the cyclic collector passes over what waits then."""
    seen: list[bool] = []
    elsewhere: list[bool] = []

    async def enter() -> Purgatory:
        purgatory = await Purgatory("test").__aenter__()
        alarm = purgatory._alarm
        assert not alarm.is_running
        last = Request(10, complete=lambda: seen.append(alarm.is_running))
        purgatory.try_complete_else_watch(last, ["a"])
        assert alarm.is_running
        thread = threading.Thread(target=lambda: elsewhere.append(alarm.is_running))
        thread.start()
        thread.join(10)
        await asyncio.sleep(0.02)
        assert last.is_completed
        assert not alarm.is_running
        purgatory.try_complete_else_watch(Request(60_000), ["a"])
        return purgatory

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        purgatory = runner.run(enter())
        assert purgatory._alarm.handle is not None
        assert not purgatory._alarm.is_running
        purgatory.close()
    assert (seen, elsewhere) == ([True], [False])
