"""Loops in virtual time, with asyncio's timers and with those of the timing wheel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from request_purgatory.aio import TimingWheelTimers
from request_purgatory.testing import VirtualTimeEventLoop

T = TypeVar("T")


class VirtualLoop(VirtualTimeEventLoop):
    """The standard loop in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.pass_time(1_000.0)


class VirtualWheelLoop(TimingWheelTimers, VirtualLoop):
    """The virtual loop with its timers on the wheel."""


def run(main: Callable[[], Coroutine[Any, Any, T]], loop: type[VirtualLoop] = VirtualLoop) -> T:
    """Run a coroutine function on a virtual loop and return its result."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())
