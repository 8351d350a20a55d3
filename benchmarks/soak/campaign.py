"""The part of a campaign that one process runs."""

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

from benchmarks.soak import memory_samples
from benchmarks.soak.choices import Keys
from benchmarks.soak.interrupted_worker import InterruptedWorker
from benchmarks.soak.loop_worker import LoopWorker
from benchmarks.soak.plan import THREADS, Plan
from benchmarks.soak.round_checker import RoundChecker, RoundError, count_by_kind_and_outcome
from benchmarks.soak.round_state import PurgatoryFactory, RoundState
from benchmarks.soak.worker import Worker
from request_purgatory import DelayedOperationPurgatory

#: Seconds after which a round counts as deadlocked: the process prints all threads' tracebacks and
#: ends.
_DEADLOCK_TIMEOUT_S = 300
#: The default is 5 ms; with less, threads are interrupted in more places.
_SWITCH_INTERVALS_S = (0.005, 0.002, 0.0005)


class Campaign:
    """Runs rounds until the plan is fulfilled or a problem is found.

    Attributes:
        plan: The plan.
        ended: Number of operations that have ended and were checked.
        rounds: Number of rounds.
        shutdowns: Number of shutdowns during rounds.
        cycles: Number of dropped reference cycles.
        collections: Number of garbage collections.
        problem: The first problem; None if there is none.
        samples: The memory over time.
    """

    def __init__(
        self, plan: Plan, make_purgatory: PurgatoryFactory = DelayedOperationPurgatory
    ) -> None:
        """Create a campaign.

        Args:
            plan: The plan.
            make_purgatory: Makes the purgatory of each round; tests pass broken ones.
        """
        self.plan = plan
        self._make_purgatory = make_purgatory
        self._random = random.Random(f"{plan.seed}/rounds")
        # The loop's purgatory has its own events, as each event is followed by a check in one
        # purgatory only.
        keys, loop_keys = Keys(), Keys()
        self._threads = [
            Worker(number, plan.seed, keys, loop_keys, forks=plan.forks)
            for number in range(THREADS)
        ]
        for worker in self._threads:
            worker.set_peers([peer for peer in self._threads if peer is not worker])
        self._interrupted = (
            InterruptedWorker(THREADS, plan.seed, keys, loop_keys) if plan.signals else None
        )
        self._workers: list[Worker] = [
            *self._threads,
            *([self._interrupted] if self._interrupted else []),
        ]
        self._loop = LoopWorker(plan.seed, loop_keys)
        self._round_begins = threading.Barrier(THREADS + 2)
        self._round_ends = threading.Barrier(THREADS + 2)
        self._lock = threading.Lock()
        self._state: RoundState | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._began = 0.0
        self._steps = 0
        self.ended = 0
        self.rounds = 0
        self.shutdowns = 0
        self.cycles = 0
        self.collections = 0
        self.problem: str | None = None
        self._stopped = False
        self.samples: list[memory_samples.Sample] = []

    def run(
        self, report: Callable[[dict[str, Any]], object] = lambda _progress: None
    ) -> dict[str, Any]:
        """Run the campaign.

        Args:
            report: Called about once a second with the progress.

        Returns:
            The counts, as JSON values.
        """
        core_log = logging.getLogger("request_purgatory")
        level = core_log.level
        # The probes' errors would be logged by the million; the metrics count them.
        core_log.setLevel(logging.CRITICAL + 1)
        interval_s = sys.getswitchinterval()
        self._began = time.monotonic()
        cpu_began = time.process_time()
        threads = [
            threading.Thread(target=self._run_thread, args=(worker,), daemon=True)
            for worker in (*self._threads, self._loop)
        ]
        for thread in threads:
            thread.start()
        gc.collect()
        gc.freeze()
        collected = _collections()
        try:
            self._play_rounds(report)
        finally:
            self._state = None
            self._round_begins.wait()
            for thread in threads:
                thread.join(30)
            sys.setswitchinterval(interval_s)
            gc.unfreeze()
            core_log.setLevel(level)
            faulthandler.cancel_dump_traceback_later()
        self.problem = self.problem or memory_samples.find_growth(
            self.samples, keeps_pages=memory_samples.keeps_pages()
        )
        self.collections = _collections() - collected
        return self.result(time.process_time() - cpu_began)

    def _play_rounds(self, report: Callable[[dict[str, Any]], object]) -> None:
        sampled = reported = 0.0
        while not self._is_over():
            # To the process's own standard error: `sys.stderr` may be no file, as under pytest.
            faulthandler.dump_traceback_later(_DEADLOCK_TIMEOUT_S, exit=True, file=2)
            try:
                self._play_round()
            except RoundError as error:
                self.problem = f"{error}; {self._state.describe() if self._state else ''}"
                return
            seconds = time.monotonic() - self._began
            if seconds - sampled >= self.plan.sample_s:
                sampled = seconds
                self.samples.append(memory_samples.take_sample(seconds, self.ended))
            if seconds - reported >= 1:
                reported = seconds
                report(self.progress())

    def stop(self) -> None:
        """End the campaign after the present round; a signal handler may call this."""
        self._stopped = True

    def _is_over(self) -> bool:
        if self._stopped:
            return True
        if self.plan.operations is not None and self.ended >= self.plan.operations:
            return True
        return time.monotonic() - self._began >= self.plan.seconds

    def _play_round(self) -> None:
        state = RoundState(self.rounds, self._random, THREADS, self._make_purgatory)
        self._state = state
        self._steps = self._random.choice(self.plan.steps)
        if state.executor is not None:
            # Tasks on an executor are slow: each one takes two switches of threads.
            self._steps = min(self.plan.steps)
        sys.setswitchinterval(self._random.choice(_SWITCH_INTERVALS_S))
        for worker in self._workers:
            worker.begin_round(state)
        self._loop.forget_round()
        self._round_begins.wait()
        if self._interrupted is not None:
            self._interrupted.play(self._steps // 4)
        self._round_ends.wait()
        checker = RoundChecker(state, self._workers, self._loop)
        try:
            if state.drains and not state.problems:
                checker.drain()
        finally:
            state.close_all()
        checker.check()
        self._counts += checker.ended
        self.ended += checker.ended.total()
        self.shutdowns += state.shutdowns
        self.rounds += 1
        cycles = [cycle for worker in self._workers for cycle in worker.cycles]
        self.cycles += len(cycles)
        for worker in self._workers:
            worker.forget_round()
        self._loop.forget_round()
        self._state = None
        del state, checker
        gc.collect()
        leaked = [cycle() for cycle in cycles if cycle() is not None]
        if leaked:
            raise RoundError(
                f"round {self.rounds - 1}: {leaked[0]!r} was dropped with a pending operation, "
                "and the collector has not freed it"
            )

    def _run_thread(self, worker: Worker | LoopWorker) -> None:
        while True:
            self._round_begins.wait()
            state = self._state
            if state is None:
                break
            try:
                if isinstance(worker, LoopWorker):
                    worker.play(state, self._steps // 4)
                else:
                    worker.play(self._steps)
            except BaseException:
                state.problems.append(f"{worker!r}: {traceback.format_exc()}")
            finally:
                if isinstance(worker, Worker):
                    with self._lock:
                        state.active_threads -= 1
            del state
            self._round_ends.wait()
        if isinstance(worker, LoopWorker):
            worker.close()

    def progress(self) -> dict[str, Any]:
        """Return the progress so far, as JSON values."""
        return {
            "seconds": time.monotonic() - self._began,
            "operations": self.ended,
            "rounds": self.rounds,
            "rss_kb": memory_samples.resident_kb(),
        }

    def result(self, cpu_s: float) -> dict[str, Any]:
        """Return the result: all counts and samples, as JSON values."""
        by_kind, by_outcome = count_by_kind_and_outcome(self._counts.items())
        return self.progress() | {
            "seed": self.plan.seed,
            "cpu_s": cpu_s,
            "problem": self.problem,
            "by_kind": by_kind,
            "by_outcome": by_outcome,
            "signals": self._interrupted.interrupts if self._interrupted else 0,
            "forks": sum(worker.forks for worker in self._workers),
            "collections": self.collections,
            "cycles": self.cycles,
            "shutdowns": self.shutdowns,
            "samples": [one.to_json() for one in self.samples],
        }


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())
