"""The purgatory on an event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperation,
    InvalidArgumentError,
    OperationCancelledError,
    PurgatoryClosedError,
    QuorumFailedError,
    QuorumTimeoutError,
    TaskInUseError,
)
from request_purgatory.aio import Purgatory
from request_purgatory.aio.hold import HoldFuture
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail
from tests.unit.aio.scenes import Condition, Scenario, now, opened, turns
from tests.unit.aio.virtual import VirtualLoop

TIME_LIMIT = 20.0

# -- hold


def test_value_of_the_condition_is_the_result(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition("now")
            assert await purgatory.hold(["a"], until=condition, timeout=1) == "now"
            assert purgatory._alarm.handle is None
            condition = Condition()
            held = purgatory.hold(["a", "b"], until=condition, timeout=1)
            await turns()
            assert (held.done(), condition.looks, purgatory.num_delayed) == (False, 1, 1)
            assert purgatory._alarm.handle is not None
            purgatory.notify("other")
            assert condition.looks == 1
            condition.value = [7]
            purgatory.notify("b")
            assert await held == [7]
            assert (condition.looks, purgatory.num_delayed) == (2, 0)

    play(scenario)


@pytest.mark.parametrize("timeout", [0, 0.001, 0.02, 1, 70, 3_600.0])
def test_time_runs_out(play: Scenario, timeout: float) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            began = now()
            with pytest.raises(TimeoutError, match=f"within {timeout * 1000:.0f} ms"):
                await purgatory.hold(["a"], until=Condition(), timeout=timeout)
            assert timeout - 1e-6 <= now() - began <= timeout + 0.001001
            assert purgatory.metrics().expirations == 1

    play(scenario)


def test_one_timer_on_the_loop_serves_all(play: Scenario) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with opened() as purgatory:
            before = len(loop._scheduled)  # type: ignore[attr-defined]
            held = [
                purgatory.hold([number], until=Condition(), timeout=10 + number % 50)
                for number in range(2_000)
            ]
            assert purgatory._alarm.handle is not None
            assert len(loop._scheduled) - before <= 1  # type: ignore[attr-defined]
            began = now()
            with pytest.raises(TimeoutError):
                await purgatory.hold(["early"], until=Condition(), timeout=2)
            assert now() - began < 2.002
            outcomes = await asyncio.gather(*held, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {TimeoutError}
            assert now() - began < 60
            await asyncio.sleep(100)
            assert purgatory._alarm.handle is None

    play(scenario)


def test_no_timeout_waits_for_ever(play: Scenario) -> None:
    """A month here.

    Beyond that, a float of seconds is coarser than the standard loop reckons with.
    """

    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()
            held = purgatory.hold(["a"], until=condition, timeout=None)
            await asyncio.sleep(30 * 86_400)
            assert not held.done()
            condition.value = 1
            purgatory.notify("a")
            assert await held == 1

    play(scenario)


@pytest.mark.parametrize("error", [Fault("odd"), StopIteration(3), TimeoutError()], ids=repr)
@pytest.mark.parametrize("look", [1, 2])
def test_condition_that_raises_gives_its_error_to_the_waiter(
    play: Scenario, error: Exception, look: int
) -> None:
    looks: list[int] = []

    def until() -> None:
        looks.append(1)
        if len(looks) == look:
            raise error

    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=until, timeout=1)
            other = purgatory.hold(["a"], until=lambda: len(looks) > 1, timeout=1)
            purgatory.notify("a")
            with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
                await held
            if look == 2:
                assert await other is True
            else:
                other.cancel()
            assert purgatory.metrics().callback_errors == 0

    play(scenario)


def test_bad_arguments_are_named(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            for arguments, message in (
                ({"keys": []}, "at least one key"),
                ({"keys": "topic"}, "'topic'"),
                ({"keys": None}, "keys must be a list of keys, got None"),
                ({"keys": [[]]}, r"keys must be hashable, got \[\]"),
                ({"keys": ["a", []]}, r"keys must be hashable, got \[\]"),
                ({"deadline": 1}, "deadline must be None where a timeout is given"),
                ({"timeout": "1"}, "'1'"),
                ({"timeout": float("nan")}, "nan"),
                ({"until": 3}, "3"),
            ):
                with pytest.raises(InvalidArgumentError, match=message):
                    purgatory.hold(
                        **({"keys": ["a"], "until": Condition(), "timeout": 1} | arguments)
                    )  # type: ignore[arg-type]
            assert (purgatory.num_delayed, purgatory.watched) == (0, 0)

    play(scenario)


def test_names_are_shown_and_counted(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=Condition(), timeout=1, name="poll")
            assert repr(held).startswith("<HoldFuture 'poll' pending")
            assert purgatory.snapshot().by_type[0].name == "poll"
            assert purgatory.metrics_by_name()["poll"].num_delayed_operations == 1
            with pytest.raises(TimeoutError):
                await held
            assert purgatory.metrics_by_name()["poll"].expirations == 1
            assert repr(HoldFuture()).startswith("<HoldFuture pending")

    play(scenario)


def test_deadline_is_a_moment_of_the_loop(play: Scenario) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with opened() as purgatory:
            begin = loop.time()
            for seconds in (0.25, 0, -1):
                for held in (
                    purgatory.hold(["a"], until=Condition(), deadline=begin + seconds),
                    purgatory.gather([loop.create_future()], deadline=begin + seconds),
                ):
                    with pytest.raises(TimeoutError):
                        await held
            assert begin + 0.25 <= loop.time() <= begin + 0.252

    play(scenario)


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch", 0), ("batch", 1.5), ("tick_ms", 0), ("wheel_size", 1), ("purge_interval", -1)],
)
def test_bad_options_are_named(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} .*{value}"):
        Purgatory("test", **{name: value})  # type: ignore[arg-type]


# -- cancelling


def test_cancelled_waiter_leaves_nothing_behind(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()

            async def wait() -> None:
                await purgatory.hold(["a", "b"], until=condition, timeout=1)

            task = asyncio.create_task(wait())
            await turns()
            assert purgatory.num_delayed == 1
            task.cancel("enough")
            with pytest.raises(asyncio.CancelledError, match="enough"):
                await task
            assert task.cancelled()
            assert (purgatory.num_delayed, purgatory.watched, purgatory._timer.size) == (0, 0, 0)
            condition.value = 1
            purgatory.notify("a")
            assert condition.looks == 1
            assert purgatory.metrics().cancellations == 1

    play(scenario)


def test_outer_timeout_ends_a_waiter(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await purgatory.hold(["a"], until=Condition(), timeout=10)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(purgatory.hold(["a"], until=Condition(), timeout=10), 0.1)
            assert (purgatory.num_delayed, purgatory.watched) == (0, 0)

    play(scenario)


def test_cancelling_after_the_end_ends_nothing_twice(play: Scenario) -> None:
    """The value is lost to a task that is cancelled before it runs again, as with any future.

    The count is of one completion.
    """

    async def scenario() -> None:
        async with opened() as purgatory:
            condition = Condition()

            async def wait() -> object:
                return await purgatory.hold(["a"], until=condition, timeout=1)

            task = asyncio.create_task(wait())
            await turns()
            condition.value = 1
            purgatory.notify("a")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            metrics = purgatory.metrics()
            assert (metrics.completions, metrics.cancellations) == (1, 0)

    play(scenario)


def test_key_that_is_gone_is_an_error_for_its_waiters(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            held = purgatory.hold(["a"], until=Condition(), timeout=1)
            kept = purgatory.hold(["b"], until=Condition(), timeout=1)
            assert len(purgatory.cancel_for_key("a")) == 1
            with pytest.raises(OperationCancelledError, match="'test'"):
                await held
            assert not kept.done()
            kept.cancel()

    play(scenario)


def test_leaving_the_block_ends_every_waiter(play: Scenario) -> None:
    """With an error that says so.

    Later calls that would have to wait get the same, and later events are ignored.
    """

    async def scenario() -> None:
        async with opened() as purgatory:
            held = [purgatory.hold(["a"], until=Condition(), timeout=1) for _ in range(3)]
            waiting = purgatory.wait(Request(1_000), ["a"])
        for future in [*held, waiting]:
            with pytest.raises(PurgatoryClosedError, match="'test'"):
                await future
        for call in (
            lambda: purgatory.hold(["a"], until=Condition(), timeout=1),
            lambda: purgatory.wait(Request(), ["a"]),
        ):
            with pytest.raises(PurgatoryClosedError):
                call()
        purgatory.notify("a")
        purgatory.notify_threadsafe("a")
        assert purgatory.cancel_for_key("a") == []
        assert purgatory.is_closed
        assert purgatory.close() == []

    play(scenario)


def test_purgatory_is_for_one_block(play: Scenario) -> None:
    async def scenario() -> None:
        purgatory = Purgatory("test")
        assert (
            purgatory.num_delayed,
            purgatory.watched,
            purgatory.timer,
            purgatory.is_closed,
        ) == (0, 0, None, False)
        with pytest.raises(RuntimeError, match="async with"):
            purgatory.hold(["a"], until=Condition(), timeout=1)
        with pytest.raises(RuntimeError, match="async with"):
            purgatory.notify_threadsafe("a")
        async with purgatory:
            pass
        with pytest.raises(RuntimeError, match="entered before"):
            async with purgatory:
                pass

    play(scenario)


# -- notify


def test_waiters_are_tried_in_the_order_in_which_they_came(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=3) as purgatory:
            order: list[int] = []

            async def wait(number: int) -> None:
                await purgatory.hold(["a"], until=lambda: level, timeout=1)
                order.append(number)

            level = 0
            tasks = [asyncio.create_task(wait(number)) for number in range(10)]
            await turns()
            level = 1
            purgatory.notify("a")
            await asyncio.gather(*tasks)
            assert order == list(range(10))

    play(scenario)


def test_one_notify_runs_so_many_and_then_the_loop_has_its_turn(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=100) as purgatory:
            looked: list[int] = []
            most: list[int] = []

            def until(number: int) -> bool:
                looked.append(number)
                return False

            held = [
                purgatory.hold(["a"], until=lambda number=number: until(number), timeout=1)
                for number in range(1_050)
            ]
            looked.clear()
            purgatory.notify("a")
            while looked:
                most.append(len(looked))
                seen = list(looked)
                looked.clear()
                assert seen == sorted(seen)
                await asyncio.sleep(0)
            assert most == [100] * 10 + [50]
            assert purgatory._sweeper._sweeps == {}
            for future in held:
                future.cancel()

    play(scenario)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "watched again"])
def test_key_that_is_gone_ends_its_sweep(play: Scenario, again: bool) -> None:
    async def scenario() -> None:
        async with opened(batch=2) as purgatory:
            condition = Condition()
            held = [purgatory.hold(["a"], until=condition, timeout=1) for _ in range(5)]
            condition.looks = 0
            purgatory.notify("a")
            assert len(purgatory.cancel_for_key("a")) == 5
            later = Condition()
            held += [purgatory.hold(["a"], until=later, timeout=1) for _ in range(again)]
            later.looks = 0
            await turns(10)
            assert (condition.looks, later.looks) == (2, 0)
            assert purgatory._sweeper._sweeps == {}
            results = await asyncio.gather(*held[:5], return_exceptions=True)
            assert all(isinstance(result, OperationCancelledError) for result in results)
            purgatory.cancel_for_key("a")
            await asyncio.gather(*held[5:], return_exceptions=True)

    play(scenario)


def test_notify_during_a_sweep_is_not_lost_and_not_piled_up(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=10) as purgatory:
            condition = Condition()
            held = [purgatory.hold(["a"], until=condition, timeout=1) for _ in range(25)]
            purgatory.notify("a")
            condition.looks = 0
            for _ in range(50):
                purgatory.notify("a")
            await turns(10)
            assert condition.looks == 15 + 25
            condition.value = 1
            purgatory.notify("a")
            purgatory.notify("a")
            assert await asyncio.gather(*held) == [1] * 25

    play(scenario)


@pytest.mark.parametrize("batch", [1, 2, 1_000])
def test_condition_may_notify(play: Scenario, batch: int) -> None:
    async def scenario() -> None:
        async with opened(batch=batch) as purgatory:
            levels = {"a": 0, "b": 0}

            def raise_b() -> bool:
                levels["b"] += 1
                purgatory.notify("b")
                purgatory.notify("a")
                return levels["b"] > 5

            held = [purgatory.hold(["a"], until=raise_b, timeout=1)]
            held.append(purgatory.hold(["b"], until=lambda: levels["b"] >= 3, timeout=1))
            held.append(purgatory.hold(["a", "b"], until=lambda: levels["b"] >= 2, timeout=1))
            purgatory.notify("a")
            assert await asyncio.gather(*held) == [True] * 3

    play(scenario)


def test_interrupt_in_a_condition_leaves_the_key_as_it_was() -> None:
    loop = VirtualLoop()
    condition = Condition()

    def until() -> object:
        if condition.looks == 1:
            condition.looks += 1
            raise KeyboardInterrupt
        return condition()

    async def open_it() -> tuple[Purgatory, asyncio.Future[Any]]:
        purgatory = await Purgatory("test").__aenter__()
        return purgatory, purgatory.hold(["a"], until=until, timeout=1)

    purgatory, held = loop.run_until_complete(open_it())
    loop.call_soon(purgatory.notify, "a")
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    condition.value = 1
    loop.call_soon(purgatory.notify, "a")
    assert loop.run_until_complete(held) == 1
    purgatory.close()
    loop.close()


def test_notify_from_another_thread_wakes_the_loop() -> None:
    async def scenario() -> None:
        async with Purgatory("test") as purgatory:
            condition = Condition()
            held = purgatory.hold(["a"], until=condition, timeout=TIME_LIMIT)

            def bring() -> None:
                condition.value = 1
                purgatory.notify_threadsafe("a")

            thread = threading.Thread(target=bring)
            thread.start()
            assert await held == 1
            thread.join(TIME_LIMIT)
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(purgatory.close)
            purgatory.notify_threadsafe("a")
            await turns()
            assert purgatory.is_closed

    asyncio.run(asyncio.wait_for(scenario(), TIME_LIMIT))


def test_notify_after_the_loop_has_ended_is_ignored() -> None:
    kept: list[Purgatory] = []

    async def scenario() -> None:
        async with Purgatory("test") as purgatory:
            kept.append(purgatory)

    asyncio.run(scenario())
    kept[0].notify_threadsafe("a")
    kept[0].notify("a")
    assert kept[0].cancel_for_key("a") == []


def test_notify_on_another_thread_is_refused() -> None:
    """With the name of the method that is meant for that.

    The loop would not be woken, and its state not be guarded.
    """
    raised: list[BaseException] = []

    async def scenario() -> None:
        async with Purgatory("test") as purgatory:
            held = purgatory.hold(["a"], until=Condition(), timeout=TIME_LIMIT)

            def notify() -> None:
                try:
                    purgatory.notify("a")
                except RuntimeError as error:
                    raised.append(error)

            await asyncio.to_thread(notify)
            held.cancel()

    asyncio.run(scenario())
    assert [str(error) for error in raised] == [
        "purgatory 'test' belongs to its loop's thread: call notify_threadsafe from other threads"
    ]


def test_interrupted_notify_from_another_thread_leaves_the_key_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An exception of a signal handler on its way to the loop.

    The key must not be taken for posted.
    """

    async def scenario() -> None:
        async with Purgatory("test") as purgatory:
            until = Condition()
            held = purgatory.hold(["a"], until=until, timeout=TIME_LIMIT)
            loop = asyncio.get_running_loop()
            with monkeypatch.context() as patch:
                patch.setattr(loop, "call_soon_threadsafe", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    purgatory.notify_threadsafe("a")
            until.value = "now"
            purgatory.notify_threadsafe("a")
            assert await held == "now"

    asyncio.run(scenario())


def interrupted(*args: object) -> None:
    """Stand for a call that a signal handler interrupts."""
    raise KeyboardInterrupt


# -- wait


def test_operation_that_has_ended_already_is_told_at_once(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request(1_000)
            request.cancel()
            assert await purgatory.wait(request, ["a"]) == "cancelled"
            check_invariants(purgatory)

    play(scenario)


def test_operation_of_a_class_can_be_awaited(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            completed, expired, cancelled, at_once = (
                Request(1_000),
                Request(50),
                Request(1_000),
                Request(ready=True),
            )
            waits = [
                purgatory.wait(operation, ["a", "b"])
                for operation in (completed, expired, cancelled, at_once)
            ]
            completed.ready = True
            purgatory.notify("b")
            cancelled.cancel()
            assert await asyncio.gather(*waits) == [
                "completed",
                "expired",
                "cancelled",
                "completed",
            ]
            assert expired.calls == ["complete", "expiration"]
            assert (completed.calls, cancelled.calls, at_once.calls) == (
                ["complete"],
                ["cancellation"],
                ["complete"],
            )

    play(scenario)


def test_cancelled_waiter_of_an_operation_cancels_it(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            request = Request(1_000, cancellation=fail)
            waiting = purgatory.wait(request, ["a", "b"])
            assert waiting.cancel() is True
            assert waiting.cancel() is False
            assert (request.calls, request.outcome) == (["cancellation"], "cancelled")
            assert (purgatory.num_delayed, purgatory.watched) == (0, 0)
            assert purgatory.metrics().callback_errors == 1

    play(scenario)


def test_what_the_first_try_raises_reaches_the_caller(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            with pytest.raises(Fault):
                purgatory.wait(Request(1_000, **{"try": fail}), ["a"])
            request = Request(1_000)
            waiting = purgatory.wait(request, ["a"])
            with pytest.raises(TaskInUseError):
                purgatory.wait(request, ["a"])
            request.force_complete()
            assert await waiting == "completed"
            assert purgatory._answers.futures == {}

    play(scenario)


def test_operation_that_another_thread_ends_wakes_its_waiter() -> None:
    async def scenario() -> None:
        async with Purgatory("test") as purgatory:
            request = Request(60_000)
            waiting = purgatory.wait(request, ["a"])
            thread = threading.Thread(target=request.force_complete)
            thread.start()
            assert await waiting == "completed"
            thread.join(TIME_LIMIT)

    asyncio.run(asyncio.wait_for(scenario(), TIME_LIMIT))


# -- many, and what they leave


def test_many_that_time_out_together_let_the_loop_have_its_turn(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(batch=100) as purgatory:
            held = [purgatory.hold(["a"], until=Condition(), timeout=0.05) for _ in range(1_000)]
            done: list[int] = []
            await asyncio.sleep(0.05)
            while not all(future.done() for future in held):
                await asyncio.sleep(0)
                done.append(sum(future.done() for future in held))
            assert set(done) <= set(range(0, 1_001, 100))
            assert len(set(done)) >= 9
            for future in held:
                assert isinstance(future.exception(), TimeoutError)

    play(scenario)


def test_ended_operations_are_purged(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened(purge_interval=50) as purgatory:
            for _ in range(500):
                condition = Condition()
                held = purgatory.hold(["a", "never notified"], until=condition, timeout=1_000)
                condition.value = 1
                purgatory.notify("a")
                assert await held == 1
            assert purgatory.metrics().purges >= 5
            assert purgatory.watched <= 60

    play(scenario)


def test_nothing_is_kept_of_a_waiter_that_has_its_answer() -> None:
    async def scenario() -> None:
        async with Purgatory("test") as purgatory:
            condition = Condition()
            ghost = weakref.ref(condition)
            held = purgatory.hold(["a"], until=condition, timeout=1_000)
            condition.value = 1
            purgatory.notify("a")
            assert await held == 1
            del condition
            assert ghost() is None

    gc.collect()
    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def test_operation_is_discarded_by_its_own_purgatory_only(play: Scenario) -> None:
    async def scenario() -> None:
        async with opened() as purgatory:
            with pytest.raises(InvalidArgumentError, match="one of purgatory 'test'"):
                purgatory._entered()._discard(DelayedOperation(10))

    play(scenario)


# -- operations that answer by themselves


def test_operation_without_a_waiter_is_completed_or_expires(play: Scenario) -> None:
    """As `DelayedOperationPurgatory` has it: by an event, by the loop's alarm, or at once.

    And nothing is left.
    """

    async def scenario() -> None:
        ended: list[str] = []

        class Answering(DelayedOperation):
            ready = False

            def try_complete(self) -> bool:
                return self.ready and self.force_complete()

            def on_complete(self) -> None:
                ended.append(str(self.outcome))

        async with opened() as purgatory:
            first, second, third = (Answering(20) for _ in range(3))
            assert not purgatory.try_complete_else_watch(first, ["a"])
            first.ready = True
            purgatory.notify("a")
            assert (ended, purgatory.num_delayed) == (["completed"], 0)
            assert not purgatory.try_complete_else_watch(second, ["a"])
            await asyncio.sleep(0.05)
            assert ended == ["completed", "expired"]
            third.ready = True
            assert purgatory.try_complete_else_watch(third, ["a"])
        with pytest.raises(PurgatoryClosedError):
            purgatory.try_complete_else_watch(Answering(20), ["a"])

    play(scenario)


def test_gather_has_the_results_and_errors_of_threads(play: Scenario) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with Purgatory("test") as purgatory:
            acks = [loop.create_future() for _ in range(3)]
            gathered = purgatory.gather(acks, quorum=2, timeout=0.5)
            acks[0].set_result(0)
            acks[2].set_result(0)
            assert (await gathered).succeeded == (acks[0], acks[2])
            late = [loop.create_future() for _ in range(2)]
            with pytest.raises(QuorumTimeoutError, match="0 of 1 needed futures"):
                await purgatory.gather(late, quorum=1, timeout=0.5)
            failing = purgatory.gather(late, timeout=0.5)
            late[0].cancel()
            with pytest.raises(QuorumFailedError):
                await failing
            with pytest.raises(InvalidArgumentError, match="quorum"):
                purgatory.gather(late, quorum=3)
            cancelled = purgatory.gather([loop.create_future()])
            cancelled.cancel()
            assert purgatory.num_delayed == 0
            closed = purgatory.gather([loop.create_future()])
        with pytest.raises(PurgatoryClosedError):
            await closed

    play(scenario)
