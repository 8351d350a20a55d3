"""An end that is interrupted, by a signal handler or by a callback that exits, ends its future."""

from __future__ import annotations

import concurrent.futures
import gc
import logging
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, _base
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pytest

import request_purgatory
from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    OperationCancelledError,
    PurgatoryClosedError,
    Quorum,
    QuorumFailedError,
    QuorumTimeoutError,
    SystemTimer,
)
from request_purgatory.purgatory.hold import HoldOperation
from request_purgatory.purgatory.hold_future import HoldFuture
from request_purgatory.purgatory.quorum import FutureLike, QuorumOperation
from request_purgatory.testing import ManualPurgatory
from tests.support.invariants import check_invariants

TIME_LIMIT = 20.0

ACQUIRING = (threading.Condition.__enter__.__code__, threading.Condition.__exit__.__code__)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: that would be most of all steps, and an interrupted handler stays locked."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Interrupted(Exception):  # noqa: N818 - as KeyboardInterrupt, no error
    """What a signal handler raises."""


class Source(Future[Any]):
    """A future whose end is never interrupted itself: it is made in this file."""

    def end(self, how: str) -> None:
        """Succeed ("+") or raise ("-"), and call back."""
        if how == "-":
            self._exception = ValueError()
        self._state = "FINISHED"
        for callback in self._done_callbacks:  # type: ignore[attr-defined]
            callback(self)


def interrupted_at(number: int, call: Callable[[], object], error: type[BaseException]) -> bool:
    """Call `call`, and raise `error` at its `number`th step, as a signal handler would.

    The steps are those of Python code that is not in this file: calls, lines and returns. On the
    interpreted build those of the core itself, which may be left half done, are no steps. Nor are
    those of `logging`, and those in which `threading.Condition` acquires and releases its lock:
    these leave locks held in any program.

    Returns:
        False if there are fewer steps.
    """
    left = number
    package = request_purgatory.__path__[0]

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        file = frame.f_code.co_filename
        if frame.f_code in ACQUIRING or file == logging.__file__:
            return None
        if file == __file__ or (not request_purgatory.__compiled__ and file.startswith(package)):
            return None
        left -= 1
        if not left:
            sys.settrace(None)
            raise error
        return trace

    before = sys.gettrace()
    gc.disable()  # Callbacks of a collection are Python code, whose exceptions go nowhere.
    try:
        sys.settrace(trace)
        call()
    except error:
        assert left <= 0
    else:
        # What is no exit is logged where nobody can be told.
        assert left > 0 or not issubclass(error, KeyboardInterrupt)
    finally:
        sys.settrace(before)
        gc.enable()
    return left <= 0


class Scene:
    """A future of a purgatory, and all kinds of waiting for it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.purgatory = DelayedOperationPurgatory(
            "test", timer=SystemTimer("test", clock=self.clock), reaper=False
        )
        self.sources = [Source() for _ in range(3)]
        self.ready = False
        self.future: Any = None
        self.called: list[object] = []

    def wait(self, future: Any) -> None:
        self.future = future
        self.operation = future.operation
        future.add_done_callback(self.called.append)
        future.add_done_callback(self.called.append)
        # As `concurrent.futures.wait` does, and as threads in `result` do.
        self.waiter = _base._create_and_install_waiters(  # type: ignore[attr-defined]
            [future], concurrent.futures.ALL_COMPLETED
        )
        self.sleepers = [threading.Lock() for _ in range(2)]
        for sleeper in self.sleepers:
            sleeper.acquire()
        future._condition._waiters.extend(self.sleepers)

    def expire(self) -> None:
        self.clock.advance(1_000)
        if not self.purgatory.is_closed:
            self.purgatory.advance_clock(0)

    def check(self, kind: object, other_thread: ThreadPoolExecutor) -> None:
        future = self.future
        assert future.done()
        assert self.called == [future, future]
        assert not any(sleeper.locked() for sleeper in self.sleepers)
        # The lock of the future is free.
        ended = other_thread.submit(concurrent.futures.wait, [future], TIME_LIMIT)
        assert ended.result(TIME_LIMIT).done == {future}
        assert self.waiter.event.is_set()
        assert self.waiter.finished_futures == [future]
        if kind is concurrent.futures.CancelledError:
            assert future.cancelled()
        elif isinstance(kind, type) and issubclass(kind, BaseException):
            assert type(future.exception(0)) is kind
        elif kind is not None:
            assert future.result(0) == kind
        else:
            assert future.exception(0) is None
        assert self.operation.is_completed
        assert self.operation.future is None
        assert self.purgatory.num_delayed == 0


def hold(scene: Scene) -> None:
    scene.wait(scene.purgatory.hold(["a"], until=lambda: scene.ready and "yes", timeout=0.5))


def gather(scene: Scene, quorum: int = 2) -> None:
    scene.wait(scene.purgatory.gather(scene.sources, quorum=quorum, timeout=0.5))


def notify(scene: Scene) -> None:
    scene.ready = True
    scene.purgatory.notify("a")


def end_sources(scene: Scene, how: str = "+") -> None:
    for source in scene.sources:
        if not source.done():
            source.end(how)


ENDS: dict[str, tuple[Callable[[Scene], None], Callable[[Scene], object], object]] = {
    "hold, completed": (hold, notify, "yes"),
    "hold, expired": (hold, Scene.expire, TimeoutError),
    "hold, key cancelled": (
        hold,
        lambda scene: scene.purgatory.cancel_for_key("a"),
        OperationCancelledError,
    ),
    "hold, closed": (hold, lambda scene: scene.purgatory.close(), PurgatoryClosedError),
    "hold, cancelled": (
        hold,
        lambda scene: scene.future.cancel(),
        concurrent.futures.CancelledError,
    ),
    "hold, set": (
        hold,
        lambda scene: scene.future.set_result("by hand"),
        "by hand",
    ),
    "gather, completed": (gather, end_sources, None),
    "gather, failed": (gather, lambda scene: end_sources(scene, "-"), QuorumFailedError),
    "gather, expired": (gather, Scene.expire, QuorumTimeoutError),
    "gather, closed": (gather, lambda scene: scene.purgatory.close(), PurgatoryClosedError),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, Interrupted])
@pytest.mark.parametrize("end", ENDS)
def test_end_that_is_interrupted_at_any_step_ends_the_future(
    end: str, error: type[BaseException]
) -> None:
    begin, call, kind = ENDS[end]
    number = 0
    more = True
    with ThreadPoolExecutor(1) as other_thread:
        while more:
            number += 1
            scene = Scene()
            begin(scene)
            more = interrupted_at(number, partial(call, scene), error)
            # An interruption that came first has changed nothing, and the program may go on.
            if not scene.operation.is_completed:
                call(scene)
            elif end.startswith("gather"):
                end_sources(scene)
            scene.check(kind, other_thread)
    assert number > 10


@pytest.mark.parametrize("error", [KeyboardInterrupt, Interrupted])
def test_gather_of_held_requests_hears_of_them_though_interrupted(
    error: type[BaseException],
) -> None:
    number = 0
    more = True
    with ThreadPoolExecutor(1) as other_thread:
        while more:
            number += 1
            scene = Scene()
            held = scene.purgatory.hold(["a"], until=partial(getattr, scene, "ready"))
            scene.wait(scene.purgatory.gather([held]))
            more = interrupted_at(number, partial(notify, scene), error)
            assert held.done()
            scene.check(None, other_thread)
    assert number > 10


def test_override_that_is_interrupted_at_its_first_step_ends_the_future() -> None:
    """Of a subclass, it comes before the method that it overrides."""
    raised: list[object] = []

    class Interrupting(HoldOperation):
        __slots__ = ()

        def on_complete(self) -> None:
            raised.append(self)
            raise KeyboardInterrupt

        on_cancellation = on_complete

    purgatory = ManualPurgatory()
    futures: list[HoldFuture[object]] = [HoldFuture() for _ in range(3)]
    operations = [Interrupting(lambda: ready, 500, future) for future in futures]
    ready: list[int] = []
    for operation in operations:
        purgatory.try_complete_else_watch(operation, [id(operation)])
    ready.append(1)
    with pytest.raises(KeyboardInterrupt):
        purgatory.notify(id(operations[0]))
    with pytest.raises(KeyboardInterrupt):
        operations[1].cancel()
    with pytest.raises(KeyboardInterrupt):
        purgatory.advance(1)
    assert futures[0].result(0) is ready
    assert isinstance(futures[1].exception(0), OperationCancelledError)
    assert isinstance(futures[2].exception(0), TimeoutError)
    assert raised == operations


# -- done callbacks that exit


def leave(_: object) -> None:
    """End the program."""
    raise SystemExit(3)


@pytest.mark.parametrize("end", [end for end in ENDS if end.startswith("hold")])
def test_callback_that_exits_keeps_neither_others_nor_the_operation(end: str) -> None:
    begin, call, kind = ENDS[end]
    scene = Scene()
    begin(scene)
    scene.future._done_callbacks.insert(0, leave)
    with pytest.raises(SystemExit):
        call(scene)
    with ThreadPoolExecutor(1) as other_thread:
        scene.check(kind, other_thread)
    check_invariants(scene.purgatory)
    scene.purgatory.purge()
    assert scene.purgatory.watched == 0


# -- futures that raise where they are looked at


class Remote:
    """A future of another library, whose connection may be lost."""

    def __init__(self, error: BaseException, times: int = 1_000) -> None:
        self.error = error
        self.times = times
        self.is_done = False
        self.callbacks: list[Callable[[object], object]] = []

    def done(self) -> bool:
        return self.is_done

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        if self.times:
            self.times -= 1
            raise self.error
        return None

    def add_done_callback(self, callback: Callable[[object], object]) -> None:
        self.callbacks.append(callback)

    def end(self) -> None:
        self.is_done = True
        for callback in self.callbacks:
            callback(self)


def test_future_that_raises_when_looked_at_ends_the_gather_with_its_error() -> None:
    with ManualPurgatory() as purgatory:
        error = ConnectionError("lost")
        remote = Remote(error)
        gathered = purgatory.gather([remote, Future()], timeout=5)
        remote.end()
        assert gathered.exception(0) is error
        assert purgatory.num_delayed == 0
        assert purgatory.metrics().callback_errors == 0


def test_future_that_raises_at_the_first_look_ends_the_gather() -> None:
    with ManualPurgatory() as purgatory:
        error = ConnectionError("lost")
        remote = Remote(error)
        remote.is_done = True
        assert purgatory.gather([remote], timeout=5).exception(0) is error


def test_future_that_raises_after_the_timeout_ends_the_gather_with_its_error() -> None:
    with ManualPurgatory() as purgatory:
        error = ConnectionError("lost")
        remote = Remote(error)
        gathered = purgatory.gather([remote], timeout=5)
        remote.is_done = True  # It does not call.
        purgatory.advance(5)
        assert gathered.exception(0) is error


def test_future_that_raises_once_is_looked_at_again() -> None:
    """As where a signal handler raises in the look; the error is logged and counted."""
    with ManualPurgatory(raise_callback_errors=False) as purgatory:
        remote = Remote(Interrupted(), times=1)
        gathered = purgatory.gather([remote], timeout=5)
        remote.end()
        assert gathered.result(0).succeeded == (remote,)
        assert purgatory.metrics().callback_errors == 1


def test_future_that_raises_twice_is_no_future_of_the_gather_any_more() -> None:
    """It is not asked again, though it would answer."""
    with ManualPurgatory() as purgatory:
        error = ConnectionError("lost")
        remote = Remote(error, times=2)
        gathered = purgatory.gather([remote], timeout=5)
        remote.end()
        assert gathered.exception(0) is error


def test_timeout_that_comes_before_the_error_of_a_look_decides() -> None:
    class Late(QuorumOperation):
        def force_complete(self) -> bool:
            purgatory.advance(5)
            return super().force_complete()

    with ManualPurgatory() as purgatory:
        remote = Remote(ConnectionError("lost"), times=2)
        gathered: HoldFuture[Quorum] = HoldFuture()
        Late((remote, Future()), None, 5_000, gathered).watch_in(purgatory)
        remote.end()
        error = gathered.exception(0)
        assert isinstance(error, QuorumTimeoutError)
        assert error.quorum.succeeded == (remote,)


def test_exit_of_a_look_is_raised_though_the_second_look_raises_an_error() -> None:
    class Leaving(Remote):
        def exception(self) -> BaseException | None:
            self.times += 1
            raise KeyboardInterrupt if self.times == 1 else self.error

    with ManualPurgatory() as purgatory:
        error = ConnectionError("lost")
        remote = Leaving(error, times=0)
        gathered = purgatory.gather([remote], timeout=5)
        with pytest.raises(KeyboardInterrupt):
            remote.end()
        assert gathered.exception(0) is error


def test_gather_that_a_check_decides_counts_as_completed_by_it() -> None:
    with ManualPurgatory() as purgatory:
        remote = Remote(ValueError(), times=0)
        gathered = purgatory.gather([remote], timeout=5)
        remote.is_done = True  # It does not call.
        assert purgatory.check_and_complete(gathered.operation) == 1  # type: ignore[attr-defined]
        assert gathered.result(0).succeeded == (remote,)


def test_interrupted_call_of_a_future_is_made_again_for_each_gather() -> None:
    """As where a signal handler raises before the first step of it; the last error is raised."""
    raised: list[type[BaseException]] = []

    class Interrupting(QuorumOperation):
        def future_done(self, future: FutureLike) -> None:
            if len(raised) < 2 or self is second:
                raised.append(KeyboardInterrupt if len(raised) % 2 == 0 else SystemExit)
                raise raised[-1]
            super().future_done(future)

    with ManualPurgatory() as purgatory:
        source = Source()
        futures: list[HoldFuture[Quorum]] = [HoldFuture() for _ in range(2)]
        once, second = (Interrupting((source,), None, 5_000, each) for each in futures)
        raised.append(SystemExit)
        for operation in (once, second):
            operation.watch_in(purgatory)
        with pytest.raises(SystemExit):
            source.end("+")
        assert futures[0].result(0).succeeded == (source,)
        assert not futures[1].done()


def test_future_that_exits_at_each_look_leaves_the_gather_to_its_timeout() -> None:
    """As a condition that exits leaves its request."""
    with ManualPurgatory() as purgatory:
        remote = Remote(KeyboardInterrupt())
        gathered = purgatory.gather([remote], timeout=5)
        with pytest.raises(KeyboardInterrupt):
            remote.end()
        assert not gathered.done()
        with pytest.raises(KeyboardInterrupt):
            purgatory.advance(5)
        assert isinstance(gathered.exception(0), KeyboardInterrupt)


# -- futures that their owner ends by hand


@pytest.mark.parametrize("kind", ["hold", "gather"])
@pytest.mark.parametrize("how", ["result", "exception"])
def test_future_that_is_set_by_hand_takes_its_operation_along(kind: str, how: str) -> None:
    scene = Scene()
    (hold if kind == "hold" else gather)(scene)
    error = ValueError()
    if how == "result":
        scene.future.set_result(3)
        assert scene.future.result(0) == 3
    else:
        scene.future.set_exception(error)
        assert scene.future.exception(0) is error
    assert scene.operation.outcome == "cancelled"
    assert (scene.purgatory.num_delayed, scene.purgatory.watched) == (0, 0)
    for again in (scene.future.set_result, scene.future.set_exception):
        with pytest.raises(concurrent.futures.InvalidStateError):
            again(None)


def test_future_has_the_fields_of_its_base() -> None:
    """It makes them by itself."""
    plain: Future[object] = Future()
    scene = Scene()
    future = scene.purgatory.hold(["a"], until=lambda: False)
    for name, value in vars(plain).items():
        assert isinstance(getattr(future, name), type(value))
        assert getattr(future, name) is getattr(future, name)


def test_wait_that_begins_in_a_done_callback_is_not_told_of_the_end_twice() -> None:
    """It has counted the future as done, also where the callback raises what is no Exception."""
    waiters: list[Any] = []

    def begin_to_wait(ended: object) -> None:
        waiters.append(
            _base._create_and_install_waiters(  # type: ignore[attr-defined]
                [future, other], concurrent.futures.ALL_COMPLETED
            )
        )
        raise KeyboardInterrupt

    with ManualPurgatory(raise_callback_errors=False) as purgatory:
        future = purgatory.hold(["a"], until=bool)
        other = purgatory.hold(["b"], until=bool)
        future.add_done_callback(begin_to_wait)
        with pytest.raises(KeyboardInterrupt):
            future.set_result(1)
        assert not waiters[0].event.is_set()
        other.set_result(2)
        assert waiters[0].event.is_set()


# -- a storm of signals


@contextmanager
def alarms(error: type[BaseException]) -> Iterator[Callable[[float], None]]:
    """Yield a function that has a signal handler raise `error` after some seconds; 0 stops it."""

    def interrupt(number: int, frame: object) -> None:
        raise error

    def start(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield start
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
@pytest.mark.skipif(
    not request_purgatory.__compiled__,
    reason="a handler may raise between any two bytecodes of the interpreted core",
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, Interrupted])
@pytest.mark.parametrize("kind", ["hold", "hold, expired", "gather", "gather, expired"])
def test_no_future_stays_pending_in_a_storm_of_signals(
    kind: str, error: type[BaseException]
) -> None:
    draw = random.Random(5)
    interruptions = 0

    def end(purgatory: ManualPurgatory, sources: list[Future[int]], ready: list[int]) -> None:
        if kind == "hold":
            ready.append(1)
            purgatory.notify("k")
        elif kind == "gather":
            for source in sources:
                if not source.done():
                    source.set_result(1)
        else:
            purgatory.advance(6)

    with alarms(error) as start:
        while interruptions < 2_000:
            purgatory = ManualPurgatory(shards=1, raise_callback_errors=False)
            ready: list[int] = []
            sources: list[Future[int]] = [Future() for _ in range(3)]
            if kind.startswith("hold"):
                future: Future[Any] = purgatory.hold(["k"], until=ready.copy, timeout=5)
            else:
                future = purgatory.gather(sources, quorum=2, timeout=5)
            try:
                start(draw.uniform(0.00001, 0.00012))
                end(purgatory, sources, ready)
                for _ in range(3_000):
                    pass
            except error:
                interruptions += 1
            while True:
                try:
                    start(0)
                    break
                except error:
                    interruptions += 1
            # The program goes on, and looks again.
            end(purgatory, sources, ready)
            purgatory.advance(60)
            assert future.done()
            check_invariants(purgatory)
