"""Virtual time for tests: nothing here waits for a real clock.

`ManualPurgatory` is a purgatory of threads whose time the test moves. `run` runs a coroutine on an
event loop whose time jumps to the next timer whenever nothing else is to be done.

>>> purgatory = ManualPurgatory()
>>> held = purgatory.hold(["orders-0"], until=lambda: False, timeout=30)
>>> purgatory.advance(30)
>>> held.exception()
TimeoutError('the condition did not hold within 30000 ms')
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, TypeVarTuple

from request_purgatory.clock import ManualClock
from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError
from request_purgatory.purgatory.hold import span_to_ms
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer.timer import SystemTimer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Real seconds that a virtual loop waits for another thread: without timers for any, and before its
#: time jumps for a job of an executor.
_MAX_IDLE_S = 20.0

#: A timer that is further away is none: 1,000 years. A request without a timeout has one of 10,000.
_NEVER_S = 1000 * 365.25 * 86_400.0


def _raise_first(errors: Sequence[BaseException]) -> None:
    """Raise the first error of callbacks, with notes on the others; no-op if there is none.

    Also in place of what leaves the block meanwhile, which becomes its context: a test may expect
    that, be it SystemExit.
    """
    if not errors:
        return
    for other in errors[1:11]:
        if other is not errors[0]:
            text = "".join(traceback.format_exception_only(other)).rstrip()
            errors[0].add_note(f"A callback has raised, too: {text}")
    raise errors[0]


class ManualPurgatory(DelayedOperationPurgatory):
    """A purgatory without a thread, whose clock stands still until the test advances it.

    What the callbacks of operations and futures raise, a failed assertion among it, fails the test:
    `advance`, `close` and the end of a `with` block raise the first such error. So does what checks
    a key on the test's thread, as `notify`; code in between may drop that, so the next `advance` or
    `close` raises it again. Notes of it name up to ten others. An error that neither came to raise
    goes to `sys.unraisablehook` once the purgatory is freed.

    >>> class Poll(DelayedOperation):
    ...     def try_complete(self):
    ...         return False
    ...     def on_complete(self):
    ...         assert self.outcome == "completed", "nobody answered"
    >>> purgatory = ManualPurgatory()
    >>> purgatory.try_complete_else_watch(Poll(timeout_ms=500), ["orders-0"])
    False
    >>> purgatory.advance(1)
    Traceback (most recent call last):
    AssertionError: nobody answered

    Attributes:
        clock: The clock, a ManualClock.
    """

    def __init__(
        self,
        name: str = "test",
        *,
        purge_interval: int = 1000,
        shards: int = 512,
        on_end: Callable[[DelayedOperation], object] | None = None,
        raise_callback_errors: bool = True,
    ) -> None:
        """Make an empty purgatory; the other arguments are those of DelayedOperationPurgatory.

        Args:
            name: As there, as are the next three.
            purge_interval: As there.
            shards: As there.
            on_end: As there.
            raise_callback_errors: Raise what callbacks have raised. False logs and counts it alone,
                as DelayedOperationPurgatory does.
        """
        self.clock = ManualClock()
        self._raised: list[BaseException] = []
        #: How many of them a step has raised, to whoever has called it.
        self._told = 0
        self._owner = threading.get_ident()
        #: The threads that are inside of `advance` or a check, each as often as it is.
        self._inside: Counter[int] = Counter()
        weakref.finalize(self, _raise_first, self._raised)
        super().__init__(
            name,
            timer=SystemTimer(name, clock=self.clock),
            purge_interval=purge_interval,
            shards=shards,
            reaper=False,
            on_end=on_end,
        )
        if raise_callback_errors:
            for log in (self._errors, self.timer._errors):
                log.listener = self._raised.append

    def advance(self, seconds: float | timedelta) -> None:
        """Let time pass, and return when everything that fell due has run.

        The clock stops at each deadline in between, so each callback finds the time at which it is
        due. A purge that is due runs, too. A callback may advance the clock itself, and may close
        the purgatory, which ends the advance.

        Args:
            seconds: How much time passes: seconds or a timedelta, not negative; rounded up to whole
                milliseconds.

        Raises:
            InvalidArgumentError: `seconds` is negative or not a finite number.
            PurgatoryClosedError: The purgatory is closed.
            BaseException: What a callback has raised since the last call; the first such error,
                once everything has run.
        """
        if self.is_closed:
            raise PurgatoryClosedError(self.name)
        end_ms = self.clock.now_ms + span_to_ms(seconds, "seconds")
        leaving: BaseException | None = None
        with self._step(on_any_thread=True):
            while not self.is_closed:
                next_ms = self.timer.next_expiration_ms
                due = next_ms is not None and next_ms <= end_ms
                until_ms = next_ms if next_ms is not None and due else end_ms
                # A callback's own `advance` may have gone further.
                self.clock.advance(max(0, until_ms - self.clock.now_ms))
                try:
                    self.advance_clock(0)
                except SystemExit as error:
                    # Out of a callback. What else is due runs first, as without the exit.
                    leaving = error
                    continue
                if not due:
                    break
            if leaving is not None:
                raise leaving

    def check_and_complete(self, key: Hashable) -> int:
        """As of DelayedOperationPurgatory; on the test's thread, raise what callbacks have raised.

        `notify` and `notify_many` call it.
        """
        with self._step():
            return super().check_and_complete(key)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """As of DelayedOperationPurgatory; raise what callbacks raised, as `check_and_complete`."""
        with self._step():
            return super().cancel_for_key(key)

    @contextmanager
    def _step(self, on_any_thread: bool = False) -> Iterator[None]:
        """Do something that runs callbacks, and then raise what they have raised."""
        _ = self.is_closed  # NotInitializedError where `__init__` has not run
        thread = threading.get_ident()
        self._inside[thread] += 1
        try:
            yield
        finally:
            self._inside[thread] -= 1
            if on_any_thread:
                self._raise_first()
            elif thread == self._owner and not self._inside[thread]:
                told, self._told = self._told, len(self._raised)
                _raise_first(self._raised[told:])

    def close(self) -> list[DelayedOperation]:
        """Close the purgatory and cancel every pending operation.

        Returns:
            The operations that this call cancelled.

        Raises:
            BaseException: What a callback has raised; the first such error since `advance`, once
                everything is cancelled.
        """
        try:
            return super().close()
        finally:
            self._raise_first()

    def _raise_first(self) -> None:
        """Raise the first error of callbacks, unless this is inside of a callback.

        On another thread than the test's own, which may drop it, it is raised there again.
        """
        thread = threading.get_ident()
        if "_inside" not in vars(self) or self._inside[thread]:
            return  # Without `__init__`, the core's own method has said so.
        if thread != self._owner and self._raised:
            raise self._raised[0]
        errors: list[BaseException] = []
        self._told = 0
        while self._raised and thread == self._owner:
            errors.append(self._raised.pop(0))  # Another thread may append one meanwhile.
        _raise_first(errors)


class VirtualSelector(selectors.DefaultSelector):
    """A selector that moves the loop's time where a real one would wait.

    Attributes:
        now: The loop's time in seconds.
        jobs: What threads do for the loop: time stands still until it is done.
    """

    def __init__(self, next_timer: Callable[[], float | None]) -> None:
        """Make a selector whose time is 0; `next_timer` returns that of the loop's next timer."""
        self.now = 0.0
        self.jobs: set[object] = set()
        self._next_timer = next_timer
        super().__init__()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the files that are ready; if there are none, let time pass until the next timer.

        asyncio waits a day at most, and then looks again. Time jumps to the timer at once.

        While there are jobs, this waits for the first of them in real time, for 20 s at most. Jobs
        that take longer are waited for no more.
        """
        if timeout:
            until = self._next_timer()
            if until is not None:
                timeout = until - self.now if until - self.now < _NEVER_S else None
        ready = super().select(0)
        if not ready and (timeout is None or (timeout > 0 and self.jobs)):
            ready = super().select(_MAX_IDLE_S)
            if not ready:
                self.jobs.clear()
                if timeout is None:
                    raise RuntimeError(
                        "the virtual loop would wait for ever: no task is ready, no timer is set, "
                        f"and no thread or socket woke the loop for {_MAX_IDLE_S:g} s"
                    )
        if not ready:
            self.now += max(0.0, timeout or 0.0)
        return ready


class VirtualTimeEventLoop(asyncio.SelectorEventLoop):
    """asyncio's loop in virtual time: it stands still while callbacks run, and jumps between them.

    Sockets and threads work. Time stands still while an executor works for the loop, as in
    `asyncio.to_thread`. It does not wait for other threads, or for what a socket may receive.

    Attributes:
        callback_errors: What callbacks of operations in the loop's purgatories (`aio.Purgatory`)
            have raised. `run` raises the first; other runners leave that to the test.
    """

    def __init__(self) -> None:
        self._virtual = VirtualSelector(self._next_timer)
        self.callback_errors: list[BaseException] = []
        super().__init__(self._virtual)

    @property
    def _clock_resolution(self) -> float:
        # asyncio calls what is due before now and this, which has to be later than now: from 194
        # days on a nanosecond is lost in the rounding.
        return max(1e-9, 2 * math.ulp(self._virtual.now))

    @_clock_resolution.setter
    def _clock_resolution(self, _: float) -> None:
        """Ignore what asyncio sets: that of the real clock."""

    def _next_timer(self) -> float | None:
        # asyncio's, since Python 3.4: a heap whose first timer is not cancelled while it waits.
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return timers[0].when() if timers else None

    def time(self) -> float:
        """Return the virtual time in seconds, from 0."""
        return self._virtual.now

    def pass_time(self, seconds: float) -> None:
        """Let time pass inside a callback, as one that is busy for so long does.

        Raises:
            InvalidArgumentError: `seconds` is negative or not a finite number.
        """
        if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
            raise InvalidArgumentError("seconds", "a finite number, not negative", seconds)
        self._virtual.now += seconds

    def callback_failed(self, error: BaseException) -> None:
        """Keep what a callback has raised; called by the purgatories of the loop."""
        self.callback_errors.append(error)

    async def shutdown_default_executor(
        self,
        timeout: float | None = None,  # noqa: ARG002 - asyncio passes it from Python 3.12 on
    ) -> None:
        """Wait for the default executor's threads; `timeout` would be in virtual time."""
        await super().shutdown_default_executor()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call `func(*args)` in an executor, as the standard loop's method; time stands still."""
        if executor is not None and not callable(getattr(executor, "submit", None)):
            raise InvalidArgumentError("executor", "an executor, or None", executor)
        job = super().run_in_executor(executor, func, *args)
        self._virtual.jobs.add(job)
        job.add_done_callback(self._virtual.jobs.discard)
        return job


def run(main: Coroutine[Any, Any, T], *, raise_callback_errors: bool = True) -> T:
    """Run a coroutine on a loop in virtual time, as `asyncio.run` does in real time.

    >>> async def wait():
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run(wait())
    3600.0

    Args:
        main: The coroutine.
        raise_callback_errors: Raise what callbacks of operations have raised. False logs and counts
            it alone, as `aio.Purgatory` does.

    Returns:
        What the coroutine returned.

    Raises:
        InvalidArgumentError: `main` is no coroutine.
        BaseException: The first that a callback has raised, with notes on the others; else what the
            coroutine raised.
    """
    if not asyncio.iscoroutine(main):
        raise InvalidArgumentError("main", "a coroutine", main)
    loop = VirtualTimeEventLoop()
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            result = runner.run(main)
    finally:
        # Once the loop is closed: its last tasks may have ended operations.
        if raise_callback_errors:
            _raise_first(loop.callback_errors)
    return result
