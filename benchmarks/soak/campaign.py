"""The rounds of one process."""

from __future__ import annotations

import faulthandler
import gc
import logging
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.soak import rss
from benchmarks.soak.choices import Keys
from benchmarks.soak.interrupted import InterruptedWorker
from benchmarks.soak.loop_worker import LoopWorker
from benchmarks.soak.plan import THREADS, Plan
from benchmarks.soak.verdict import LostError, Verdict, kinds
from benchmarks.soak.worker import Worker
from benchmarks.soak.world import Design, World
from request_purgatory import DelayedOperationPurgatory

#: Seconds without the end of a round after which all threads' tracebacks are printed and the
#: process ends.
_STUCK_S = 300
#: The interpreter's own is 5 ms; with less, threads meet one another in more places.
_SWITCH_INTERVALS_S = (0.005, 0.002, 0.0005)


class Campaign:
    """Plays rounds until the plan is fulfilled or an operation has not ended as it should have.

    Attributes:
        ended: operations that have ended and were judged.
        problem: what was wrong; None as long as nothing was.
    """

    def __init__(self, plan: Plan, design: Design = DelayedOperationPurgatory) -> None:
        """`design` makes the purgatories; tests give a broken one."""
        self.plan = plan
        self._design = design
        self._draw = random.Random(f"{plan.seed}/rounds")
        # The loop's purgatory has events of its own: each is followed by a notification there, and
        # a check here.
        keys, loop_keys = Keys(), Keys()
        self._threads = [
            Worker(number, plan.seed, keys, loop_keys, forks=plan.forks)
            for number in range(THREADS)
        ]
        for worker in self._threads:
            worker.meet([other for other in self._threads if other is not worker])
        self._interrupted = (
            InterruptedWorker(THREADS, plan.seed, keys, loop_keys) if plan.signals else None
        )
        self._workers: list[Worker] = [
            *self._threads,
            *([self._interrupted] if self._interrupted else []),
        ]
        self._loop = LoopWorker(plan.seed, loop_keys)
        self._begins = threading.Barrier(THREADS + 2)
        self._ends = threading.Barrier(THREADS + 2)
        self._lock = threading.Lock()
        self._world: World | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._began = 0.0
        self._steps = 0
        self.ended = 0
        self.rounds = 0
        self.shutdowns = 0
        self.rings = 0
        self.collections = 0
        self.problem: str | None = None
        self.samples: list[rss.Sample] = []

    def run(
        self, report: Callable[[dict[str, Any]], object] = lambda _progress: None
    ) -> dict[str, Any]:
        """Play; the result as `result` has it.

        Args:
            report: Called about once a second with the progress.
        """
        core_log = logging.getLogger("request_purgatory")
        level = core_log.level
        # Faults are contained and logged, by the million; what is counted is in the metrics.
        core_log.setLevel(logging.CRITICAL + 1)
        interval_s = sys.getswitchinterval()
        self._began = time.monotonic()
        cpu_began = time.process_time()
        threads = [
            threading.Thread(target=self._serve, args=(worker,), daemon=True)
            for worker in (*self._threads, self._loop)
        ]
        for thread in threads:
            thread.start()
        gc.collect()
        gc.freeze()
        collected = _collections()
        try:
            self._play_all(report)
        finally:
            self._world = None
            self._begins.wait()
            for thread in threads:
                thread.join(30)
            sys.setswitchinterval(interval_s)
            gc.unfreeze()
            core_log.setLevel(level)
            faulthandler.cancel_dump_traceback_later()
        self.problem = self.problem or rss.growth(self.samples)
        self.collections = _collections() - collected
        return self.result(time.process_time() - cpu_began)

    def _play_all(self, report: Callable[[dict[str, Any]], object]) -> None:
        sampled = reported = 0.0
        while not self._is_over():
            faulthandler.dump_traceback_later(_STUCK_S, exit=True)
            try:
                self._play()
            except LostError as error:
                self.problem = f"{error}; {self._world.describe() if self._world else ''}"
                return
            seconds = time.monotonic() - self._began
            if seconds - sampled >= self.plan.sample_s:
                sampled = seconds
                self.samples.append(rss.sample(seconds, self.ended))
            if seconds - reported >= 1:
                reported = seconds
                report(self.progress())

    def _is_over(self) -> bool:
        if self.plan.operations is not None and self.ended >= self.plan.operations:
            return True
        return time.monotonic() - self._began >= self.plan.seconds

    def _play(self) -> None:
        world = World(self.rounds, self._draw, THREADS, self._design)
        self._world = world
        self._steps = self._draw.choice(self.plan.steps)
        if world.executor is not None:
            # Each task takes two switches of threads.
            self._steps = min(self.plan.steps)
        sys.setswitchinterval(self._draw.choice(_SWITCH_INTERVALS_S))
        for worker in self._workers:
            worker.begin(world)
        self._loop.forget()
        self._begins.wait()
        if self._interrupted is not None:
            self._interrupted.play(self._steps // 4)
        self._ends.wait()
        verdict = Verdict(world, self._workers, self._loop)
        try:
            if world.drains and not world.problems:
                verdict.drain()
        finally:
            world.finish()
        verdict.read()
        self._counts += verdict.ended
        self.ended += verdict.ended.total()
        self.shutdowns += world.shutdowns
        self.rounds += 1
        rings = [ring for worker in self._workers for ring in worker.rings]
        self.rings += len(rings)
        for worker in self._workers:
            worker.forget()
        self._loop.forget()
        self._world = None
        del world, verdict
        gc.collect()
        kept = [ring() for ring in rings if ring() is not None]
        if kept:
            raise LostError(
                f"round {self.rounds - 1}: {kept[0]!r} was dropped with an operation pending, and is still there"
            )

    def _serve(self, worker: Worker | LoopWorker) -> None:
        while True:
            self._begins.wait()
            world = self._world
            if world is None:
                break
            try:
                if isinstance(worker, LoopWorker):
                    worker.play(world, self._steps // 4)
                else:
                    worker.play(self._steps)
            except BaseException:
                world.problems.append(f"{worker!r}: {traceback.format_exc()}")
            finally:
                if isinstance(worker, Worker):
                    with self._lock:
                        world.left -= 1
            del world
            self._ends.wait()
        if isinstance(worker, LoopWorker):
            worker.close()

    def progress(self) -> dict[str, Any]:
        """Return how far it came."""
        return {
            "seconds": time.monotonic() - self._began,
            "operations": self.ended,
            "rounds": self.rounds,
            "rss_kb": rss.resident_kb(),
        }

    def result(self, cpu_s: float) -> dict[str, Any]:
        """Return all that was counted, as JSON takes it."""
        by_kind, by_outcome = kinds(self._counts.items())
        return self.progress() | {
            "seed": self.plan.seed,
            "cpu_s": cpu_s,
            "problem": self.problem,
            "by_kind": by_kind,
            "by_outcome": by_outcome,
            "signals": self._interrupted.interrupts if self._interrupted else 0,
            "forks": sum(worker.forks for worker in self._workers),
            "collections": self.collections,
            "rings": self.rings,
            "shutdowns": self.shutdowns,
            "samples": [one.to_json() for one in self.samples],
        }


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())
