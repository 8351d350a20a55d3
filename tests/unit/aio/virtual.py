"""Loops whose time is virtual.

It stands still while callbacks run, and jumps to the next timer when nothing is to be done.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from request_purgatory.aio import TimingWheelTimers

T = TypeVar("T")


class JumpingSelector(selectors.BaseSelector):
    """Waits by moving the loop's time instead."""

    def __init__(self) -> None:
        self.real = selectors.DefaultSelector()
        self.now = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self.real.select(0)
        if not ready:
            if timeout is None:
                ready = self.real.select(20.0)
                assert ready, "the loop would wait for ever"
            self.now += timeout or 0.0
        return ready

    def register(self, *args: Any) -> selectors.SelectorKey:
        return self.real.register(*args)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self.real.unregister(fileobj)

    def modify(self, *args: Any) -> selectors.SelectorKey:
        return self.real.modify(*args)

    def get_map(self) -> Any:
        return self.real.get_map()

    def close(self) -> None:
        self.real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """The standard loop in virtual time."""

    def __init__(self) -> None:
        self.jumping = JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now

    def pass_time(self, seconds: float) -> None:
        """A callback that takes so long."""
        self.jumping.now += seconds


class VirtualWheelLoop(TimingWheelTimers, VirtualLoop):
    """The same with its timers on the wheel."""


def run(main: Callable[[], Coroutine[Any, Any, T]], loop: type[VirtualLoop] = VirtualLoop) -> T:
    """Run a coroutine function to its end on a virtual loop."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())
