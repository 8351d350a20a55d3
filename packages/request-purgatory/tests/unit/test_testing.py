"""Virtual time for users' tests."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import selectors
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from request_purgatory import (
    DelayedOperation,
    InvalidArgumentError,
    NotificationLoopError,
    NotInitializedError,
    PurgatoryClosedError,
    aio,
    testing,
)
from request_purgatory.testing import ManualPurgatory, VirtualTimeEventLoop, run
from tests.support.children import in_child
from tests.support.invariants import check_invariants
from tests.support.requests import Request
from tests.support.thread_group import ThreadGroup

TIME_LIMIT = 20.0


def test_advance_runs_everything_that_is_due() -> None:
    purgatory = ManualPurgatory()
    moments: list[int] = []
    for timeout_ms in (30_000, 10, 500):
        request = Request(timeout_ms)
        request.during["complete"] = lambda: moments.append(purgatory.clock.now_ms)
        purgatory.try_complete_else_watch(request, ["a"])
    purgatory.advance(0.5)
    assert moments == [10, 500]
    purgatory.advance(timedelta(seconds=29.5))
    assert moments == [10, 500, 30_000]
    assert purgatory.clock.now_ms == 30_000
    check_invariants(purgatory)


def test_what_callbacks_add_runs_in_the_same_advance() -> None:
    with ManualPurgatory("retries") as purgatory:
        tries: list[int] = []

        def again() -> None:
            tries.append(purgatory.clock.now_ms)
            request = Request(100)
            request.during["complete"] = again
            purgatory.try_complete_else_watch(request, ["a"])

        again()
        purgatory.advance(0.35)
        assert tries == [0, 100, 200, 300]


def test_advance_purges() -> None:
    purgatory = ManualPurgatory(purge_interval=2)
    for _ in range(4):
        request = Request(1000)
        purgatory.try_complete_else_watch(request, ["a", "b"])
        request.force_complete()
    purgatory.advance(0)
    assert (purgatory.metrics().purges, purgatory.watched) == (1, 0)


def test_bad_advance_is_refused() -> None:
    purgatory = ManualPurgatory()
    with pytest.raises(InvalidArgumentError, match="seconds must be seconds or a timedelta"):
        purgatory.advance(-1)
    purgatory.close()
    with pytest.raises(PurgatoryClosedError, match="'test'"):
        purgatory.advance(1)


def test_hours_pass_at_once_on_the_virtual_loop() -> None:
    async def main() -> list[str]:
        async with aio.Purgatory() as purgatory:
            waits = [
                asyncio.create_task(asyncio.sleep(7200, "slept")),
                asyncio.ensure_future(purgatory.hold(["a"], until=lambda: False, timeout=3600)),
            ]
            ended = []
            for wait in asyncio.as_completed(waits):
                try:
                    ended.append(str(await wait))
                except TimeoutError as error:
                    ended.append(str(error))
            assert asyncio.get_running_loop().time() == 7200
            return ended

    assert run(main()) == ["the condition did not hold within 3600000 ms", "slept"]


def test_time_passes_in_a_busy_callback() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeEventLoop)
        loop.pass_time(2.5)
        return loop.time()

    assert run(main()) == 2.5


def test_threads_wake_the_virtual_loop() -> None:
    async def main() -> tuple[str, float]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: "done"), loop.time()

    assert run(main()) == ("done", 0.0)


def test_socket_with_data_comes_before_a_timer() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.send(b"data")
            read_at: asyncio.Future[float] = loop.create_future()
            loop.call_later(60, read_at.cancel)
            loop.add_reader(ours, lambda: read_at.set_result(loop.time()))
            try:
                return await read_at
            finally:
                loop.remove_reader(ours)

    assert run(main()) == 0.0


def test_wait_without_a_timer_ends_with_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = testing.VirtualSelector(lambda: None)
    event = (selectors.SelectorKey(0, 0, selectors.EVENT_READ, None), selectors.EVENT_READ)
    answers = iter([[], [event]])
    with closing(selector):
        monkeypatch.setattr(selectors.DefaultSelector, "select", lambda *_: next(answers))
        assert selector.select(None) == [event]
    assert selector.now == 0.0


def test_loop_that_would_wait_for_ever_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "_MAX_IDLE_S", 0.0)

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="would wait for ever"):
        run(main())


@pytest.mark.parametrize("days", [195, 365 * 100])
def test_timer_of_the_far_future_is_called(days: int) -> None:
    """A float of so many seconds has no nanoseconds."""

    async def main() -> float:
        await asyncio.sleep(days * 86_400)
        await asyncio.sleep(0.5)
        return asyncio.get_running_loop().time()

    assert run(main()) == days * 86_400 + 0.5


@pytest.mark.parametrize("waiting", ["hold", "sleep"])
def test_loop_that_would_wait_for_thousands_of_years_says_so(
    monkeypatch: pytest.MonkeyPatch, waiting: str
) -> None:
    monkeypatch.setattr(testing, "_MAX_IDLE_S", 0.0)

    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            if waiting == "hold":
                await purgatory.hold(["a"], until=lambda: None)
            await asyncio.sleep(math.inf)

    with pytest.raises(RuntimeError, match="would wait for ever"):
        run(main())


def test_time_stands_still_while_a_thread_answers_a_request_without_a_timeout() -> None:
    async def main() -> tuple[str, float]:
        async with aio.Purgatory() as purgatory:
            answers: list[str] = []

            def answer() -> None:
                answers.append("answer")
                purgatory.notify_threadsafe("a")

            held = purgatory.hold(["a"], until=lambda: answers)
            thread = threading.Thread(target=answer)
            thread.start()
            found = await held
            thread.join(20)
            await asyncio.sleep(1)
            return found[0], asyncio.get_running_loop().time()

    assert run(main()) == ("answer", 1.0)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0, "1"])
def test_bad_time_to_pass_is_refused(seconds: float) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeEventLoop)
        with pytest.raises(InvalidArgumentError, match=f"seconds .*{seconds!r}"):
            loop.pass_time(seconds)
        assert loop.time() == 0.0

    run(main())


def test_virtual_loop_serves_files() -> None:
    async def echo() -> bytes:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for end in (ours, theirs):
                end.setblocking(False)
            received = loop.create_future()
            loop.add_reader(ours, lambda: received.set_result(ours.recv(10)))
            loop.add_writer(ours, lambda: (ours.send(b"ping"), loop.remove_writer(ours)))
            loop.add_reader(theirs, lambda: theirs.send(theirs.recv(10)[::-1]))
            answer: bytes = await received
            for end in (ours, theirs):
                loop.remove_reader(end)
            return answer

    assert run(echo()) == b"gnip"


# -- what callbacks raise


class Asserting(DelayedOperation):
    """An operation whose callbacks fail as they are told."""

    def __init__(self, failing: str, timeout_ms: int = 100) -> None:
        super().__init__(timeout_ms)
        self._failing = failing
        self.tries = 0

    def _call(self, name: str) -> None:
        assert name != self._failing, f"asserted in {name}"

    def try_complete(self) -> bool:
        self.tries += 1
        if self.tries > 1:
            self._call("try_complete")
        return False

    def on_complete(self) -> None:
        self._call("on_complete")

    def on_expiration(self) -> None:
        self._call("on_expiration")

    def on_cancellation(self) -> None:
        self._call("on_cancellation")


def fail_at_the_end(operation: DelayedOperation) -> None:
    raise AssertionError("asserted in on_end")


@pytest.mark.parametrize("failing", ["on_complete", "on_expiration", "on_end"])
def test_advance_raises_what_an_expiration_has_asserted(failing: str) -> None:
    on_end = fail_at_the_end if failing == "on_end" else None
    purgatory = ManualPurgatory(on_end=on_end)
    purgatory.try_complete_else_watch(Asserting(failing), ["a"])
    with pytest.raises(AssertionError, match=f"asserted in {failing}"):
        purgatory.advance(1)
    assert purgatory.metrics().callback_errors == 1
    purgatory.advance(1)
    assert purgatory.close() == []


@pytest.mark.parametrize("is_done", [False, True], ids=["pending", "done"])
def test_advance_raises_what_a_callback_of_a_future_has_asserted(is_done: bool) -> None:
    purgatory = ManualPurgatory()

    def check(future: Future[object]) -> None:
        assert future.running(), "asserted in the callback"

    held: Future[object] = purgatory.hold(["a"], until=lambda: is_done, timeout=1)
    assert held.done() == is_done
    held.add_done_callback(check)
    with pytest.raises(AssertionError, match="asserted in the callback"):
        purgatory.advance(1)
    purgatory.close()


def test_advance_raises_the_first_error_once_everything_has_run() -> None:
    purgatory = ManualPurgatory()
    for failing in ("on_expiration", "on_complete", ""):
        purgatory.try_complete_else_watch(Asserting(failing), ["a"])
    with pytest.raises(AssertionError, match="asserted in on_expiration"):
        purgatory.advance(1)
    assert purgatory.num_delayed == 0
    purgatory.close()


def test_advance_raises_what_a_task_of_its_timer_has_asserted() -> None:
    purgatory = ManualPurgatory()
    purgatory.timer.call_later_ms(5, fail_at_the_end, None)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="asserted in on_end"):
        purgatory.advance(1)


@pytest.mark.parametrize("failing", ["try_complete", "on_cancellation"])
def test_end_of_the_block_raises_what_a_callback_has_asserted(failing: str) -> None:
    purgatory = ManualPurgatory()

    def block() -> None:
        with purgatory:
            purgatory.try_complete_else_watch(Asserting(failing), ["a"])
            purgatory.notify("a")

    with pytest.raises(AssertionError, match=f"asserted in {failing}"):
        block()
    assert purgatory.is_closed
    assert purgatory.num_delayed == 0


def test_error_that_the_test_expects_of_the_block_hides_none_of_a_callback() -> None:
    def block() -> None:
        with ManualPurgatory() as purgatory:
            for _ in range(2):
                purgatory.try_complete_else_watch(Asserting("on_cancellation"), ["a"])
            raise ZeroDivisionError

    with pytest.raises(AssertionError, match="asserted in on_cancellation") as raised:
        block()
    assert type(raised.value.__context__) is ZeroDivisionError
    (note,) = raised.value.__notes__
    assert note.startswith("A callback has raised, too: AssertionError: asserted in on_cancel")


class Answered(DelayedOperation):
    """An operation that completes once it is told to, with an assertion that fails."""

    ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        raise AssertionError("the wrong answer")

    def on_cancellation(self) -> None:
        raise AssertionError("the wrong end")


def answered(purgatory: ManualPurgatory, key: str = "a") -> Answered:
    operation = Answered(1_000)
    purgatory.try_complete_else_watch(operation, [key])
    operation.ready = True
    return operation


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (lambda purgatory: purgatory.notify("a"), "the wrong answer"),
        (lambda purgatory: purgatory.notify_many(["a", "b"]), "the wrong answer"),
        (lambda purgatory: purgatory.check_and_complete("a"), "the wrong answer"),
        (lambda purgatory: purgatory.cancel_for_key("a"), "the wrong end"),
    ],
)
def test_step_of_the_test_raises_what_its_callbacks_have_raised(
    step: Callable[[ManualPurgatory], object], text: str
) -> None:
    purgatory = ManualPurgatory()
    operation = answered(purgatory)
    with pytest.raises(AssertionError, match=text):
        step(purgatory)
    assert operation.is_completed
    purgatory.notify("nobody's")
    with pytest.raises(AssertionError, match=text):
        purgatory.close()
    purgatory.close()


def test_notify_raises_what_the_callback_of_a_future_has_raised() -> None:
    purgatory = ManualPurgatory()
    ready: list[int] = []
    held = purgatory.hold(["a"], until=lambda: ready)
    held.add_done_callback(lambda _: pytest.fail("the wrong answer"))
    ready.append(1)
    with pytest.raises(pytest.fail.Exception, match="the wrong answer"):
        purgatory.notify("a")
    with pytest.raises(pytest.fail.Exception, match="the wrong answer"):
        purgatory.advance(0)
    purgatory.close()


def test_error_that_is_dropped_on_its_way_to_the_test_fails_the_end() -> None:
    replica: Future[str] = Future()
    purgatory = ManualPurgatory()
    gathered = purgatory.gather([replica])
    operation = answered(purgatory)
    gathered.add_done_callback(lambda _: purgatory.notify("a"))
    replica.set_result("ok")
    assert gathered.done()
    assert operation.outcome == "completed"
    with pytest.raises(AssertionError, match="the wrong answer"):
        purgatory.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_child_fails_of_its_own_callbacks() -> None:
    purgatory = ManualPurgatory()

    def child() -> None:
        answered(purgatory)
        with pytest.raises(AssertionError, match="the wrong answer"):
            purgatory.notify("a")
        purgatory.timer.call_later_ms(10, lambda: pytest.fail("by the timer"))
        with pytest.raises(AssertionError, match="the wrong answer") as raised:
            purgatory.advance(1)
        assert "by the timer" in raised.value.__notes__[0]

    in_child(child)
    purgatory.close()


def test_callback_that_notifies_meets_no_error_of_another() -> None:
    purgatory = ManualPurgatory()
    told: list[str] = []

    class Chain(Answered):
        def on_complete(self) -> None:
            purgatory.notify("b")
            told.append("gone on")

    chain = Chain(1_000)
    purgatory.try_complete_else_watch(chain, ["a"])
    chain.ready = True
    answered(purgatory, "b")
    with pytest.raises(AssertionError, match="the wrong answer"):
        purgatory.notify("a")
    assert told == ["gone on"]
    with pytest.raises(AssertionError, match="the wrong answer"):
        purgatory.close()


@pytest.mark.parametrize("method", ["notify", "cancel_for_key"])
def test_worker_that_brings_an_event_leaves_the_error_to_the_test(
    thread_group: ThreadGroup, method: str
) -> None:
    purgatory = ManualPurgatory()
    answered(purgatory)
    thread_group.start(getattr(purgatory, method), "a")
    thread_group.join()
    for _ in ("told", "for good"):
        with pytest.raises(AssertionError, match="the wrong"):
            purgatory.notify("b") if _ == "told" else purgatory.close()


def test_error_that_nobody_came_to_raise_is_reported_at_the_end(
    thread_group: ThreadGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(args.exc_value))
    purgatory = ManualPurgatory()
    error = AssertionError("the wrong answer")
    purgatory._raised.append(error)
    del purgatory
    gc.collect()
    assert reported == [error]


def test_later_round_of_a_notify_fails_the_test() -> None:
    class Ping(DelayedOperation):
        """Notifies another key each time it is tried, and completes never."""

        def __init__(self, other: str) -> None:
            super().__init__(1_000)
            self.other = other

        def try_complete(self) -> bool:
            if begun:
                purgatory.notify(self.other)
            return False

    begun: list[bool] = []

    async def main() -> None:
        nonlocal purgatory
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        async with aio.Purgatory() as purgatory:
            for key, other in (("a", "b"), ("b", "a")):
                purgatory.try_complete_else_watch(Ping(other), [key])
            begun.append(True)
            purgatory.notify("a")
            await asyncio.sleep(5)

    purgatory: aio.Purgatory
    with pytest.raises(NotificationLoopError):
        run(main())


EXITS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]


@pytest.mark.parametrize("leaving", EXITS)
def test_exit_that_a_test_expects_hides_no_error_of_a_callback(
    leaving: type[BaseException],
) -> None:
    def block() -> None:
        with ManualPurgatory() as purgatory:
            purgatory.try_complete_else_watch(Asserting("on_cancellation"), ["a"])
            raise leaving

    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            purgatory.try_complete_else_watch(Asserting("on_cancellation"), ["a"])
            raise leaving

    for call in (block, lambda: run(main())):
        with pytest.raises(AssertionError, match="asserted in on_cancellation") as raised:
            call()
        assert type(raised.value.__context__) is leaving


def test_exit_out_of_a_callback_is_raised_once_all_that_is_due_has_run() -> None:
    class Exiting(Request):
        def on_expiration(self) -> None:
            super().on_expiration()
            raise SystemExit

    purgatory = ManualPurgatory()
    requests = [Exiting(5), Request(5), Exiting(7), Request(900)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(SystemExit):
        purgatory.advance(1)
    assert [request.outcome for request in requests] == ["expired"] * 4
    assert purgatory.clock.now_ms == 1000
    purgatory.close()


def test_close_raises_what_its_thread_has_met_while_another_one_advances(
    thread_group: ThreadGroup,
) -> None:
    inside, go_on = threading.Event(), threading.Event()

    class Slow(Request):
        def on_expiration(self) -> None:
            inside.set()
            assert go_on.wait(TIME_LIMIT)

    purgatory = ManualPurgatory()
    purgatory.try_complete_else_watch(Slow(5), ["slow"])
    purgatory.try_complete_else_watch(Asserting("on_cancellation"), ["a"])
    thread_group.start(purgatory.advance, 1)
    assert inside.wait(TIME_LIMIT)
    with pytest.raises(AssertionError, match="asserted in on_cancellation"):
        purgatory.close()
    go_on.set()
    thread_group.join()


def test_error_that_a_worker_has_dropped_is_raised_on_the_tests_own_thread() -> None:
    def scenario(end: str) -> None:
        with ManualPurgatory() as purgatory:
            purgatory.try_complete_else_watch(Asserting("on_expiration"), ["a"])
            with ThreadPoolExecutor() as pool:
                dropped = pool.submit(purgatory.advance, 1)
                assert isinstance(dropped.exception(), AssertionError)
                if end == "close":
                    dropped = pool.submit(purgatory.close)
                    assert isinstance(dropped.exception(), AssertionError)

    for end in ("close", "with"):
        with pytest.raises(AssertionError, match="asserted in on_expiration"):
            scenario(end)


def test_exit_out_of_a_callback_of_an_advance_hides_no_error() -> None:
    class Exiting(Request):
        def on_expiration(self) -> None:
            raise SystemExit

    purgatory = ManualPurgatory()
    for request in (Exiting(5), Asserting("on_expiration")):
        purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(AssertionError, match="asserted in on_expiration") as raised:
        purgatory.advance(10)
    assert type(raised.value.__context__) is SystemExit
    purgatory.close()


def test_ctrl_c_in_a_callback_leaves_an_advance_at_once() -> None:
    class Interrupted(Request):
        def on_expiration(self) -> None:
            raise KeyboardInterrupt

    purgatory = ManualPurgatory()
    later = Request(500)
    for request in (Interrupted(5), later):
        purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(KeyboardInterrupt):
        purgatory.advance(10)
    assert later.outcome is None
    purgatory.close()


def test_exit_out_of_a_callback_of_close_hides_no_error() -> None:
    class Exiting(Request):
        def on_cancellation(self) -> None:
            raise SystemExit

    purgatory = ManualPurgatory()
    for request in (Asserting("on_cancellation"), Exiting()):
        purgatory.try_complete_else_watch(request, ["a"])
    with pytest.raises(AssertionError, match="asserted in on_cancellation") as raised:
        purgatory.close()
    assert type(raised.value.__context__) is SystemExit


def test_threads_of_the_default_executor_are_waited_for_in_real_time() -> None:
    async def main() -> None:
        for _ in range(3):
            await asyncio.to_thread(int)
        await asyncio.sleep(1_000)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            run(main())


def test_callback_errors_may_be_left_to_metrics() -> None:
    with ManualPurgatory(raise_callback_errors=False) as purgatory:
        purgatory.try_complete_else_watch(Asserting("on_complete"), ["a"])
        purgatory.advance(1)
        assert purgatory.metrics().callback_errors == 1

    async def main() -> int:
        async with aio.Purgatory() as purgatory:
            purgatory.try_complete_else_watch(Asserting("on_complete"), ["a"])
            await asyncio.sleep(1)
            return purgatory.metrics().callback_errors

    assert run(main(), raise_callback_errors=False) == 1


@pytest.mark.parametrize("failing", ["try_complete", "on_complete", "on_cancellation", "on_end"])
def test_run_raises_what_callbacks_in_it_have_asserted(failing: str) -> None:
    async def main() -> None:
        on_end = fail_at_the_end if failing == "on_end" else None
        async with aio.Purgatory(on_end=on_end) as purgatory:
            timeout_ms = 5_000 if failing == "on_cancellation" else 100
            purgatory.try_complete_else_watch(Asserting(failing, timeout_ms), ["a"])
            purgatory.notify("a")
            await asyncio.sleep(1)

    with pytest.raises(AssertionError, match=f"asserted in {failing}"):
        run(main())


def test_run_raises_what_a_callback_has_asserted_though_the_coroutine_raised() -> None:
    async def main() -> None:
        async with aio.Purgatory() as purgatory:
            purgatory.try_complete_else_watch(Asserting("on_cancellation"), ["a"])
            raise ZeroDivisionError

    with pytest.raises(AssertionError, match="asserted in on_cancellation") as raised:
        run(main())
    assert type(raised.value.__context__) is ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        run(main(), raise_callback_errors=False)


# -- callbacks that move the clock


def test_callback_that_closes_the_purgatory_ends_the_advance() -> None:
    purgatory = ManualPurgatory()
    closing = purgatory.hold(["a"], until=bool, timeout=1)
    closing.add_done_callback(lambda _: purgatory.close())
    later = purgatory.hold(["a"], until=bool, timeout=2)
    purgatory.advance(5)
    assert purgatory.clock.now_ms == 1000
    assert isinstance(closing.exception(0), TimeoutError)
    assert isinstance(later.exception(0), PurgatoryClosedError)


def test_callback_may_advance_beyond_the_end_of_the_advance() -> None:
    purgatory = ManualPurgatory()
    first = purgatory.hold(["a"], until=bool, timeout=1)
    first.add_done_callback(lambda _: purgatory.advance(10))
    second = purgatory.hold(["a"], until=bool, timeout=2)
    purgatory.advance(5)
    assert purgatory.clock.now_ms == 11_000
    assert second.done()
    purgatory.advance(1)
    assert purgatory.clock.now_ms == 12_000


def test_error_in_an_advance_of_a_callback_is_raised_by_the_outer_one() -> None:
    purgatory = ManualPurgatory()
    first = Request(10)
    first.during["complete"] = lambda: purgatory.advance(1)
    purgatory.try_complete_else_watch(first, ["a"])
    purgatory.try_complete_else_watch(Asserting("on_complete"), ["a"])
    with pytest.raises(AssertionError, match="asserted in on_complete"):
        purgatory.advance(1)
    assert purgatory.metrics().callback_errors == 1


# -- jobs of executors


def test_time_stands_still_while_an_executor_works(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        began, go_on = threading.Event(), threading.Event()

        def work() -> str:
            began.set()
            assert go_on.wait(20)
            return "done"

        job = loop.run_in_executor(None, work)
        assert began.wait(20)
        # The loop looks for ready files, finds none, and would go to its next timer.
        select = selectors.DefaultSelector.select

        def wait(selector: selectors.DefaultSelector, timeout: float) -> object:
            if timeout:
                go_on.set()
            return select(selector, timeout)

        monkeypatch.setattr(selectors.DefaultSelector, "select", wait)
        assert await asyncio.wait_for(job, 5) == "done"
        return loop.time()

    assert run(main()) == 0.0


def test_job_of_an_executor_brings_an_event_before_the_timeout() -> None:
    async def main() -> object:
        answers: list[str] = []
        async with aio.Purgatory() as purgatory:

            def work() -> None:
                answers.append("answer")
                purgatory.notify_threadsafe("a")

            held = purgatory.hold(["a"], until=lambda: answers and answers[0], timeout=30)
            await asyncio.to_thread(work)
            return await held

    assert run(main()) == "answer"


def test_time_jumps_over_a_job_that_takes_longer_than_a_test_should(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(testing, "_MAX_IDLE_S", 0.0)

    async def main() -> float:
        loop = asyncio.get_running_loop()
        go_on = threading.Event()
        job = loop.run_in_executor(None, go_on.wait, 20)
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(job), 5)
            return loop.time()
        finally:
            monkeypatch.undo()
            go_on.set()
            await job

    assert run(main()) == 5.0


@pytest.mark.parametrize(
    "step",
    [
        lambda purgatory: purgatory.advance(1),
        lambda purgatory: purgatory.notify("a"),
        lambda purgatory: purgatory.cancel_for_key("a"),
        lambda purgatory: purgatory.close(),
    ],
)
def test_purgatory_whose_init_did_not_run_says_so(
    step: Callable[[ManualPurgatory], object],
) -> None:
    with pytest.raises(NotInitializedError, match="ManualPurgatory"):
        step(ManualPurgatory.__new__(ManualPurgatory))
