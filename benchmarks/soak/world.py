"""What the threads of one round share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from benchmarks.soak.executors import FailingExecutor
from benchmarks.soak.probe import Probe
from request_purgatory import (
    DelayedOperationPurgatory,
    LegacyPurgatory,
    ManualClock,
    MonotonicClock,
    SystemTimer,
    TimerTask,
)
from request_purgatory.aio import Purgatory

#: Makes the purgatory of a round; tests give one that is broken.
Design = Callable[..., DelayedOperationPurgatory]


class World:
    """A purgatory, a timer and an asyncio purgatory, all as drawn, and when they are shut down.

    Attributes:
        number: of the round.
        manual: the clock, where it stands still until somebody moves it.
        shares: the purgatory has no timer of its own.
        drains: nobody shuts down: at the end whatever is due has to end by itself.
        closers: which thread shuts the purgatory down, the timer, and the executor; -1 is none.
        forker: which thread forks; -1 is none.
        at: after which part of its steps each does that.
        starts: the timer runs by itself, on a thread of its own.
        drained: what the timer's shutdown returned.
        aio: the event loop's purgatory, once its block was entered.
        aio_probes: operations that the event loop waits for, and any thread may end.
        problems: what went wrong while the threads were at work.
    """

    def __init__(
        self,
        number: int,
        draw: random.Random,
        threads: int,
        design: Design = DelayedOperationPurgatory,
    ) -> None:
        self.number = number
        self.manual = ManualClock() if draw.random() < 0.4 else None
        self.clock = self.manual or MonotonicClock()
        self.legacy = draw.random() < 0.06
        self.shares = not self.legacy and draw.random() < 0.4
        self.drains = draw.random() < 0.4
        self.executor = (
            FailingExecutor(refuse_every=draw.choice((0, 7))) if draw.random() < 0.12 else None
        )
        self.timer = SystemTimer(
            "soak-timer",
            tick_ms=draw.choice((1, 1, 1, 3)),
            wheel_size=draw.choice((2, 20, 64)),
            clock=self.clock,
            executor=self.executor,
        )
        self.reaper = draw.random() < 0.7
        self.own_timer: SystemTimer | None = None
        purge_interval = draw.choice((0, 10, 1000, 1000))
        shards = draw.choice((1, 16, 512))
        if self.legacy:
            self.purgatory: DelayedOperationPurgatory = LegacyPurgatory(
                "soak-legacy",
                clock=self.clock,
                purge_interval=max(purge_interval, 100),
                reaper=self.reaper,
            )
        else:
            timer = self.timer if self.shares else None
            if timer is None and self.manual is not None:
                timer = self.own_timer = SystemTimer("soak-own", clock=self.clock)
            self.purgatory = design(
                "soak",
                timer=timer,
                purge_interval=purge_interval,
                shards=shards,
                reaper=self.reaper,
            )
        self.closers = (
            (-1, -1, -1)
            if self.drains
            else tuple(draw.randrange(-1 if part else 0, threads) for part in range(3))
        )
        # Each fork takes as long as thousands of operations.
        self.forker = draw.randrange(threads) if draw.random() < 0.25 else -1
        self.starts = not self.shares and draw.random() < 0.3
        if self.starts:
            self.timer.start()
        self.at = tuple(draw.uniform(0.5, 1.0) for _ in range(4))
        self.closes_loop_at = 2.0 if self.drains else draw.uniform(0.5, 1.5)
        self.drained: list[TimerTask] = []
        self.aio: Purgatory | None = None
        self.aio_probes: list[Probe] = []
        self.problems: list[str] = []
        self.shutdowns = 0
        self.left = threads

    def describe(self) -> dict[str, Any]:
        """Return what was drawn, for a report."""
        return {
            "round": self.number,
            "design": type(self.purgatory).__name__,
            "clock": "manual" if self.manual is not None else "real",
            "timer": "shared" if self.shares else "own",
            "starts": self.starts,
            "tick_ms": self.timer.tick_ms,
            "executor": self.executor is not None,
            "reaper": self.reaper,
            "drains": self.drains,
            "purge_interval": self.purgatory.purge_interval,
            "closers": self.closers,
        }

    def close(self, part: int) -> None:
        """Shut down the purgatory (0), the timer (1) or the executor (2), while the others go on."""
        if part == 0:
            self.purgatory.shutdown()
            self.shutdowns += 1
        elif part == 1:
            self.drained += self.timer.shutdown()
            self.shutdowns += 1
        elif self.executor is not None:
            self.executor.cut()

    def finish(self) -> None:
        """Shut down whatever still runs; the threads have ended their round."""
        self.purgatory.shutdown()
        if self.executor is not None:
            self.executor.finish()
        self.drained += self.timer.shutdown()
        if self.own_timer is not None:
            self.own_timer.shutdown()
        self.shutdowns += 1
