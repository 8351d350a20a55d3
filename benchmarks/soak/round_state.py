"""The objects that the threads of one round share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from benchmarks.soak.executors import FailingExecutor
from benchmarks.soak.probe import Probe
from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
    TimerTask,
)
from request_purgatory.aio import Purgatory
from request_purgatory.clock import MonotonicClock
from request_purgatory.legacy import LegacyPurgatory

#: Makes the purgatory of a round; tests pass broken ones.
PurgatoryFactory = Callable[..., DelayedOperationPurgatory]


class RoundState:
    """A purgatory and a timer with random settings, and when the threads shut them down.

    Attributes:
        number: Number of the round, from 0.
        clock: The clock of purgatory and timer.
        manual_clock: The clock if it is a manual one, which the threads move; else None.
        legacy: Whether the purgatory has the 0.8 design.
        shares_timer: Whether the purgatory uses `timer`, and no timer of its own.
        drains: Whether no thread shuts anything down, so that all due operations must end at the
            end of the round.
        executor: The timer's executor, or None.
        timer: The timer that the threads use.
        reaper: Whether the purgatory has a reaper thread.
        own_timer: The purgatory's own timer if it has a manual clock; else None.
        purgatory: The purgatory.
        closing_threads: The numbers of the threads that shut down purgatory, timer and executor; -1
            for none.
        forking_thread: The number of the thread that forks; -1 for none.
        times: When these threads act, each as a share of its actions in the round.
        loop_closes_at: When the event loop closes its purgatory, as a share of its actions; above 1
            for never.
        starts_timer: Whether the timer has its own thread.
        returned_tasks: The tasks that the timer's shutdown returned.
        aio: The event loop's purgatory, once the loop has entered its block.
        aio_probes: Operations that the event loop waits for, and that any thread may end.
        problems: Problems that the threads found.
        shutdowns: Number of shutdowns.
        active_threads: Number of threads that are not at the end of the round.
    """

    def __init__(
        self,
        number: int,
        draw: random.Random,
        threads: int,
        make_purgatory: PurgatoryFactory = DelayedOperationPurgatory,
    ) -> None:
        self.number = number
        self.manual_clock = ManualClock() if draw.random() < 0.4 else None
        self.clock = self.manual_clock or MonotonicClock()
        self.legacy = draw.random() < 0.06
        self.shares_timer = not self.legacy and draw.random() < 0.4
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
            timer = self.timer if self.shares_timer else None
            if timer is None and self.manual_clock is not None:
                timer = self.own_timer = SystemTimer("soak-own", clock=self.clock)
            self.purgatory = make_purgatory(
                "soak",
                timer=timer,
                purge_interval=purge_interval,
                shards=shards,
                reaper=self.reaper,
            )
        self.closing_threads = (
            (-1, -1, -1)
            if self.drains
            else tuple(draw.randrange(-1 if part else 0, threads) for part in range(3))
        )
        # A fork takes as long as thousands of operations.
        self.forking_thread = draw.randrange(threads) if draw.random() < 0.25 else -1
        self.starts_timer = not self.shares_timer and draw.random() < 0.3
        if self.starts_timer:
            self.timer.start()
        self.times = tuple(draw.uniform(0.5, 1.0) for _ in range(4))
        self.loop_closes_at = 2.0 if self.drains else draw.uniform(0.5, 1.5)
        self.returned_tasks: list[TimerTask] = []
        self.aio: Purgatory | None = None
        self.aio_probes: list[Probe] = []
        self.problems: list[str] = []
        self.shutdowns = 0
        self.active_threads = threads

    def describe(self) -> dict[str, Any]:
        """Return the random settings, for a report."""
        return {
            "round": self.number,
            "design": type(self.purgatory).__name__,
            "clock": "manual" if self.manual_clock is not None else "real",
            "timer": "shared" if self.shares_timer else "own",
            "starts_timer": self.starts_timer,
            "tick_ms": self.timer.tick_ms,
            "executor": self.executor is not None,
            "reaper": self.reaper,
            "drains": self.drains,
            "purge_interval": self.purgatory.purge_interval,
            "closing_threads": self.closing_threads,
        }

    def close(self, part: int) -> None:
        """Shut down the purgatory (0), the timer (1) or the executor (2) during a round."""
        if part == 0:
            self.purgatory.close()
            self.shutdowns += 1
        elif part == 1:
            self.returned_tasks += self.timer.shutdown()
            self.shutdowns += 1
        elif self.executor is not None:
            self.executor.shutdown_now()

    def close_all(self) -> None:
        """Shut down the rest, after the threads have ended the round."""
        self.purgatory.close()
        if self.executor is not None:
            self.executor.shutdown_and_wait()
        self.returned_tasks += self.timer.shutdown()
        if self.own_timer is not None:
            self.own_timer.shutdown()
        self.shutdowns += 1
