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
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from datetime import timedelta
from typing import Any, TypeVar, TypeVarTuple

from request_purgatory.clock import ManualClock
from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError
from request_purgatory.purgatory.hold import timeout_to_ms
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer.timer import SystemTimer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Real seconds that a virtual loop waits for another thread: without timers for any, and before its
#: time jumps for a job of an executor.
_MAX_IDLE_S = 20.0


class ManualPurgatory(DelayedOperationPurgatory):
    """A purgatory without a thread, whose clock stands still until the test advances it.

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
    ) -> None:
        """Make an empty purgatory; the arguments are those of DelayedOperationPurgatory."""
        self.clock = ManualClock()
        super().__init__(
            name,
            timer=SystemTimer(name, clock=self.clock),
            purge_interval=purge_interval,
            shards=shards,
            reaper=False,
            on_end=on_end,
        )

    def advance(self, seconds: float | timedelta) -> None:
        """Let time pass, and return when everything that fell due has run.

        The clock stops at each deadline in between, so each callback finds the time at which it is
        due. A purge that is due runs, too.

        Args:
            seconds: How much time passes: seconds or a timedelta, not negative; rounded up to whole
                milliseconds.

        Raises:
            InvalidArgumentError: `seconds` is negative or not a finite number.
            PurgatoryClosedError: The purgatory is closed.
        """
        if self.is_closed:
            raise PurgatoryClosedError(self.name)
        end_ms = self.clock.now_ms + timeout_to_ms(seconds)
        while True:
            next_ms = self.timer.next_expiration_ms
            if next_ms is None or next_ms > end_ms:
                break
            self.clock.advance(max(0, next_ms - self.clock.now_ms))
            self.advance_clock(0)
        self.clock.advance(end_ms - self.clock.now_ms)
        self.advance_clock(0)


class VirtualSelector(selectors.BaseSelector):
    """A selector that moves the loop's time where a real one would wait.

    Attributes:
        now: The loop's time in seconds.
        jobs: What threads do for the loop: time stands still until it is done.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: set[object] = set()
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the files that are ready; if there are none, let `timeout` seconds pass.

        While there are jobs, this waits for the first of them in real time, for 20 s at most. Jobs
        that take longer are waited for no more.

        Returns:
            The ready files, as of `selectors`.

        Raises:
            RuntimeError: The loop has no timer, and no thread or socket woke it for 20 s.
        """
        ready = self._real.select(0)
        if not ready and (timeout is None or (timeout > 0 and self.jobs)):
            ready = self._real.select(_MAX_IDLE_S)
            if not ready:
                self.jobs.clear()
                if timeout is None:
                    raise RuntimeError(
                        "the virtual loop would wait for ever: no task is ready, no timer is set, "
                        f"and no thread or socket woke the loop for {_MAX_IDLE_S:g} s"
                    )
        if not ready:
            self.now += timeout or 0.0
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Register a file.

        Returns:
            The registration, as of `selectors`.
        """
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Unregister a file.

        Returns:
            The registration, as of `selectors`.
        """
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Change a registration.

        Returns:
            The new registration, as of `selectors`.
        """
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the registered files."""
        return self._real.get_map()

    def close(self) -> None:
        """Close the real selector."""
        self._real.close()


class VirtualTimeEventLoop(asyncio.SelectorEventLoop):
    """asyncio's loop in virtual time: it stands still while callbacks run, and jumps between them.

    Sockets and threads work. Time stands still while an executor works for the loop, as in
    `asyncio.to_thread`. It does not wait for other threads, or for what a socket may receive.
    """

    def __init__(self) -> None:
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the virtual time in seconds, from 0."""
        return self._virtual.now

    def pass_time(self, seconds: float) -> None:
        """Let time pass inside a callback, as one that is busy for so long does."""
        self._virtual.now += seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call `func(*args)` in an executor, as the standard loop's method; time stands still.

        Returns:
            A future of the result.
        """
        job = super().run_in_executor(executor, func, *args)
        self._virtual.jobs.add(job)
        job.add_done_callback(self._virtual.jobs.discard)
        return job


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop in virtual time, as `asyncio.run` does in real time.

    >>> async def wait():
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run(wait())
    3600.0

    Args:
        main: The coroutine.

    Returns:
        What the coroutine returned.

    Raises:
        InvalidArgumentError: `main` is no coroutine.
    """
    if not asyncio.iscoroutine(main):
        raise InvalidArgumentError("main", "a coroutine", main)
    with asyncio.Runner(loop_factory=VirtualTimeEventLoop) as runner:
        return runner.run(main)
