"""The verdict on a round: how each operation ended, and whether it should have."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from operator import attrgetter
from typing import Any

from benchmarks.soak.choices import LONG_MS, SHORT_MS
from benchmarks.soak.interrupted import Interrupted, InterruptedWorker
from benchmarks.soak.loop_worker import LoopWorker
from benchmarks.soak.probe import Fault, FaultyProbe, Probe, QuorumProbe, history
from benchmarks.soak.worker import Worker
from benchmarks.soak.world import World
from request_purgatory import OperationCancelledError, PurgatoryClosedError

#: Seconds in which everything that is due has to end.
LOST_S = 30.0
_EXPECTED = {"completed": "1", "expired": "12", "cancelled": "3"}
_OUTCOMES = attrgetter("outcome")
_CALLS = attrgetter("calls")


class LostError(Exception):
    """An operation ended twice, or not at all, or otherwise than it should have."""


def judge(outcome: str | None, calls: int, *, refused: bool = False) -> str | None:
    """What is wrong with an operation's end; None if nothing is.

    Args:
        outcome: The operation's.
        calls: Its callbacks, as `probe.history` reads them.
        refused: The call that brought it to the purgatory raised.
    """
    digits = f"{calls:o}".strip("0")
    if outcome is None:
        return "it has not ended"
    if "4" in digits:
        return "it expired before its time"
    if "7" in digits:
        return "it expired far too late"
    ends = digits.replace("5", "").replace("6", "")
    expected = _EXPECTED[outcome]
    if ends == expected or (refused and outcome == "cancelled" and not ends):
        return None
    if (
        "6" in digits
        and len(ends) <= len(expected)
        and all(expected.count(call) >= ends.count(call) for call in ends)
    ):
        return None  # A signal came instead of the callback.
    return f"it is {outcome}, but its callbacks were: {history(calls)}"


class Verdict:
    """Looks at all that a round has left, and counts it.

    Attributes:
        ended: (kind, outcome) and how many ended so.
    """

    def __init__(self, world: World, workers: list[Worker], loop: LoopWorker) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self._world = world
        self._workers = workers
        self._loop = loop

    def drain(self) -> None:
        """See that whatever is due ends by itself, while nobody else is at work.

        LostError if something does not.
        """
        world = self._world
        missed = [
            op
            for worker in self._workers
            for op in worker.probes
            if op.outcome is None
            and type(op) not in (FaultyProbe, QuorumProbe)
            and op.event.count >= op.need
        ]
        if missed:
            self._fail("the last event did not complete it", missed[0])
        give_up = time.monotonic() + LOST_S
        while self._due():
            if time.monotonic() > give_up:
                due = self._due()[0]
                if isinstance(due, Probe):
                    self._fail(f"its timeout was lost: it did not come within {LOST_S} s", due)
                raise LostError(
                    f"the timeout of {due!r} was lost: it did not come within {LOST_S} s"
                )
            if world.manual is not None:
                world.manual.advance(2 * SHORT_MS[-1])
            world.timer.advance_clock(0)
            if not world.reaper:
                world.purgatory.advance_clock(0)
            time.sleep(0.001)

    def _due(self) -> list[Any]:
        due: list[Any] = [
            op
            for worker in self._workers
            for op in worker.probes
            if op.delay_ms < LONG_MS and op.outcome is None
        ]
        due += [
            future for worker in self._workers for future in worker.held_short if not future.done()
        ]
        if not due and self._world.timer.size:
            pending = (
                (worker, set(worker.ran) | set(worker.called_off)) for worker in self._workers
            )
            due += [
                handle
                for worker, known in pending
                for number, handle in enumerate(worker.handles)
                if handle is not None
                and handle.delay_ms < LONG_MS
                and number not in known
                and handle._callback is not None
            ]
        return due

    def read(self) -> None:
        """Judge every operation of a round that is over; LostError for the first that is wrong."""
        if self._world.problems:
            raise LostError("; ".join(self._world.problems))
        entered: Counter[str] = Counter()
        faults = slack = interrupts = 0
        for worker in self._workers:
            entered += self._read_probes(worker.probes, refused=False)
            entered += self._read_probes(worker.refused, refused=True)
            entered += self._read_held(worker.held, "hold", short=False)
            entered += self._read_held(worker.held_short, "hold", short=True)
            # A future that its owner cancels while another thread completes its operation is
            # cancelled all the same.
            slack += worker.held_refused + sum(
                future.cancelled() for future in (*worker.held, *worker.held_short)
            )
            faults += sum(
                f"{op.calls:o}".count("5")
                for op in (*worker.probes, *worker.refused)
                if type(op) is FaultyProbe
            )
            faults -= worker.caught
            if isinstance(worker, InterruptedWorker):
                interrupts += worker.interrupts_in_round
        self._read_handles()
        self._read_tasks()
        metrics = self._world.purgatory.metrics()
        self._compare(metrics, entered, slack + interrupts)
        if self._world.executor is None and not interrupts and metrics.callback_errors != faults:
            raise LostError(
                f"{faults} callbacks raised where the purgatory contains it, and it counted {metrics.callback_errors}"
            )
        self._read_loop()

    def _compare(self, metrics: Any, entered: Counter[str], slack: int) -> None:
        counted = {
            "completed": metrics.completions,
            "expired": metrics.expirations,
            "cancelled": metrics.cancellations,
        }
        for outcome, count in counted.items():
            if abs(count - entered[outcome]) > slack:
                raise LostError(
                    f"{entered[outcome]} operations are {outcome}, but the purgatory's metrics say {count}"
                )
        if metrics.num_delayed_operations:
            raise LostError(f"num_delayed is {metrics.num_delayed_operations} after the shutdown")

    def _read_probes(self, probes: list[Any], *, refused: bool) -> Counter[str]:
        entered: Counter[str] = Counter()
        ends = Counter(
            zip(map(type, probes), map(_OUTCOMES, probes), map(_CALLS, probes), strict=True)
        )
        for (kind, outcome, calls), count in ends.items():
            if refused and outcome is None:
                continue  # The purgatory was closed already.
            problem = judge(outcome, calls, refused=refused)
            if problem:
                self._fail(
                    problem,
                    next(
                        op
                        for op in probes
                        if op.outcome == outcome and op.calls == calls and type(op) is kind
                    ),
                )
            self.ended[kind.__name__, outcome] += count
            entered[outcome] += count
        if refused:  # One that another thread had ended before, and that found the purgatory closed, is in no metrics.
            entered.subtract(
                op.outcome for op in probes if op._purgatory is None and op.outcome is not None
            )
        return entered

    def _read_held(
        self, held: Sequence[Future[Any] | asyncio.Future[Any]], kind: str, *, short: bool
    ) -> Counter[str]:
        entered = Counter(map(outcome_of, held))
        if entered["pending"]:
            raise LostError(f"{entered['pending']} futures of `{kind}` are not done")
        if entered["expired"] and not short:
            raise LostError(
                f"{entered['expired']} futures of `{kind}` timed out {LONG_MS} ms before their time"
            )
        if entered["?"]:
            raise LostError(
                f"futures of `{kind}` have ended with: {[f for f in held if outcome_of(f) == '?'][:3]}"
            )
        for outcome, count in entered.items():
            self.ended[kind, outcome] += count
        return entered

    def _read_handles(self) -> None:
        """Each handle was called or called off, or the timer's shutdown returned it, or the executor dropped it: one of these."""
        drained = set(map(id, self._world.drained))
        dropped = (
            set() if self._world.executor is None else set(map(id, self._world.executor.dropped()))
        )
        for worker in self._workers:
            marks = bytearray(len(worker.handles))
            for number in (*worker.ran, *worker.called_off):
                if number < len(marks):
                    marks[number] += 1
            holes = worker.holes if isinstance(worker, InterruptedWorker) else set()
            if worker.early:
                raise LostError(
                    f"thread {worker.number}: handle {worker.early[0]} was called before its time"
                )
            if marks and max(marks) > 1:
                raise LostError(
                    f"thread {worker.number}: handle {marks.index(max(marks))} ended {max(marks)} times"
                )
            left = [number for number, count in enumerate(marks) if not count]
            ends: Counter[str] = Counter(
                completed=len(worker.ran), cancelled=len(worker.called_off)
            )
            for number in left:
                handle = id(worker.handles[number])
                if handle in drained or handle in dropped:
                    ends["cancelled"] += 1
                elif number not in holes:
                    raise LostError(
                        f"thread {worker.number}: handle {number}, {worker.handles[number]!r}, was lost"
                    )
            twice = [
                number
                for number, handle in enumerate(worker.handles)
                if marks[number] and id(handle) in drained
            ]
            if twice:
                raise LostError(
                    f"thread {worker.number}: handle {twice[0]} was returned by shutdown, and had ended"
                )
            for outcome, count in ends.items():
                self.ended["call_later", outcome] += count

    def _read_tasks(self) -> None:
        drained = Counter(map(id, self._world.drained))
        for worker in self._workers:
            for task in worker.tasks:
                ends = task.runs + task.offs + task.drops + drained[id(task)]
                if task.early or not (1 if task.adds else 0) <= ends <= task.adds:
                    raise LostError(
                        f"thread {worker.number}: a task was added {task.adds} times, ran {task.runs}, was cancelled "
                        f"{task.offs}, dropped {task.drops} and drained {drained[id(task)]} times, {task.early} of them early"
                    )
                if task.adds:
                    self.ended["task", "completed" if task.runs else "cancelled"] += 1

    def _read_loop(self) -> None:
        loop = self._loop
        entered = self._read_held(loop.holds, "aio hold", short=False)
        entered += self._read_held(loop.short_holds, "aio hold", short=True)
        for _future, op in loop.waits:
            problem = judge(op.outcome, op.calls)
            if problem:
                self._fail(problem, op)
            entered[str(op.outcome)] += 1
            self.ended["aio wait", str(op.outcome)] += 1
        undone = [op for future, op in loop.waits if not future.done()]
        if undone:
            self._fail("whoever waits for it on the loop was not told", undone[0])
        wrong = [
            op
            for future, op in loop.waits
            if outcome_of(future) not in (op.outcome, "told", "cancelled")
        ]
        if wrong:
            self._fail("whoever waits for it on the loop was told something else", wrong[0])
        self._read_probes(loop.refused, refused=True)
        self._compare(loop.metrics, entered, loop.held_refused + len(loop.refused))

    def _fail(self, problem: str, op: Any) -> None:
        where = "of the event loop"
        for worker in self._workers:
            for name, ops in (("operation", worker.probes), ("refused operation", worker.refused)):
                for number, other in enumerate(ops):
                    if other is op:
                        where = f"of thread {worker.number}, {name} {number} of {len(ops)}"
        known = {"delay_ms": op.delay_ms, "outcome": op.outcome, "callbacks": history(op.calls)}
        if isinstance(op, Probe):
            known |= {"need": op.need, "events": op.event.count}
        if hasattr(op, "due_ns"):
            known |= {"due_ns": op.due_ns, "now_ns": op.clock.now_ns}
        raise LostError(f"{type(op).__name__} {where}: {problem}; {known}")


def outcome_of(future: Future[Any] | asyncio.Future[Any]) -> str:
    """How a held condition's future ended.

    An outcome's name, "pending", "told" for the outcome of a `wait`, or "?".
    """
    if not future.done():
        return "pending"
    if future.cancelled():
        return "cancelled"
    error = future.exception()
    if error is None:
        result = future.result()
        return result if isinstance(result, str) else "completed"
    if isinstance(error, TimeoutError):
        return "expired"
    if isinstance(error, (PurgatoryClosedError, OperationCancelledError)):
        return "cancelled"
    return "completed" if isinstance(error, (Fault, Interrupted)) else "?"


def kinds(ended: Iterable[tuple[tuple[str, str], int]]) -> tuple[dict[str, int], dict[str, int]]:
    """Sum up by kind, and by outcome."""
    by_kind: Counter[str] = Counter()
    by_outcome: Counter[str] = Counter()
    for (kind, outcome), count in ended:
        by_kind[kind] += count
        by_outcome[outcome] += count
    return dict(by_kind), dict(by_outcome)
