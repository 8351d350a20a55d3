"""Checks after a round: how each operation ended, and whether that is correct."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from operator import attrgetter
from typing import Any

from benchmarks.soak.choices import LONG_MS, SHORT_MS
from benchmarks.soak.interrupted_worker import Interrupted, InterruptedWorker
from benchmarks.soak.loop_worker import LoopWorker
from benchmarks.soak.probe import Fault, FaultyProbe, Probe, QuorumProbe, describe_calls
from benchmarks.soak.round_state import RoundState
from benchmarks.soak.worker import Worker
from request_purgatory import OperationCancelledError, PurgatoryClosedError

#: Seconds in which all due operations have to end.
GRACE_S = 30.0
_EXPECTED = {"completed": "1", "expired": "12", "cancelled": "3"}
_OUTCOMES = attrgetter("outcome")
_CALLS = attrgetter("calls")


class RoundError(Exception):
    """An operation ended twice, never, or with the wrong callbacks."""


def find_wrong_end(outcome: str | None, calls: int, *, refused: bool = False) -> str | None:
    """Check how an operation ended.

    Args:
        outcome: The operation's outcome.
        calls: Its callbacks, as `probe.describe_calls` reads them.
        refused: Whether `try_complete_else_watch` raised.

    Returns:
        What is wrong; None if the end is correct.
    """
    digits = f"{calls:o}".strip("0")
    if outcome is None:
        return "it has not ended"
    if "4" in digits:
        return "it expired before its time"
    if "7" in digits:
        return "it expired more than 30 s late"
    ends = digits.replace("5", "").replace("6", "")
    expected = _EXPECTED[outcome]
    if ends == expected or (refused and outcome == "cancelled" and not ends):
        return None
    if (
        "6" in digits
        and len(ends) <= len(expected)
        and all(expected.count(call) >= ends.count(call) for call in ends)
    ):
        return None  # A signal handler raised before the callback recorded itself.
    return f"it is {outcome}, but its callbacks were: {describe_calls(calls)}"


class RoundChecker:
    """Checks and counts all operations of a round.

    Attributes:
        ended: Number of operations by kind and outcome.
    """

    def __init__(self, state: RoundState, workers: list[Worker], loop: LoopWorker) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self._state = state
        self._workers = workers
        self._loop = loop

    def drain(self) -> None:
        """Let time pass until all due operations have ended, after the threads' last action.

        Raises:
            RoundError: An operation missed its event, or did not expire within `GRACE_S`.
        """
        state = self._state
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
        deadline = time.monotonic() + GRACE_S
        while self._due():
            if time.monotonic() > deadline:
                due = self._due()[0]
                if isinstance(due, Probe):
                    self._fail(f"it did not expire within {GRACE_S} s", due)
                raise RoundError(f"{due!r} did not time out within {GRACE_S} s")
            if state.manual_clock is not None:
                state.manual_clock.advance(2 * SHORT_MS[-1])
            state.timer.advance_clock(0)
            if not state.reaper:
                state.purgatory.advance_clock(0)
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
        if not due and self._state.timer.size:
            pending = (
                (worker, set(worker.ran) | set(worker.cancelled_handles))
                for worker in self._workers
            )
            due += [
                handle
                for worker, known in pending
                for number, handle in enumerate(worker.handles)
                if handle is not None
                and handle.delay_ms < LONG_MS
                and number not in known
                and handle.callback is not None
            ]
        return due

    def check(self) -> None:
        """Check every operation of a round that is over.

        Raises:
            RoundError: An operation has ended wrongly, or the metrics are wrong.
        """
        if self._state.problems:
            raise RoundError("; ".join(self._state.problems))
        entered: Counter[str] = Counter()
        faults = slack = interrupts = 0
        for worker in self._workers:
            entered += self._check_probes(worker.probes, refused=False)
            entered += self._check_probes(worker.refused, refused=True)
            entered += self._check_held(worker.held, "hold", short=False)
            entered += self._check_held(worker.held_short, "hold", short=True)
            # A future may be cancelled while another thread completes its operation.
            slack += worker.refused_holds + sum(
                future.cancelled() for future in (*worker.held, *worker.held_short)
            )
            faults += sum(
                f"{op.calls:o}".count("5") + op.failed_tries
                for op in (*worker.probes, *worker.refused)
                if type(op) is FaultyProbe
            )
            faults -= worker.caught
            if isinstance(worker, InterruptedWorker):
                interrupts += worker.interrupts_in_round
        self._check_handles()
        self._check_tasks()
        metrics = self._state.purgatory.metrics()
        self._compare_metrics(metrics, entered, slack + interrupts)
        if self._state.executor is None and not interrupts and metrics.callback_errors != faults:
            raise RoundError(
                f"{faults} callbacks raised inside the purgatory, "
                f"but its metrics say {metrics.callback_errors}"
            )
        self._check_loop()

    def _compare_metrics(self, metrics: Any, entered: Counter[str], slack: int) -> None:
        counted = {
            "completed": metrics.completions,
            "expired": metrics.expirations,
            "cancelled": metrics.cancellations,
        }
        for outcome, count in counted.items():
            if abs(count - entered[outcome]) > slack:
                raise RoundError(
                    f"{entered[outcome]} operations are {outcome}, "
                    f"but the purgatory's metrics say {count}"
                )
        if metrics.num_delayed_operations:
            raise RoundError(
                f"num_delayed is {metrics.num_delayed_operations} after the shutdown, not 0"
            )

    def _check_probes(self, probes: list[Any], *, refused: bool) -> Counter[str]:
        entered: Counter[str] = Counter()
        ends = Counter(
            zip(map(type, probes), map(_OUTCOMES, probes), map(_CALLS, probes), strict=True)
        )
        for (kind, outcome, calls), count in ends.items():
            if refused and outcome is None:
                continue  # The purgatory was closed before.
            problem = find_wrong_end(outcome, calls, refused=refused)
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
        if refused:
            # An operation that another thread ended before it reached a closed purgatory is not in
            # the metrics.
            entered.subtract(
                op.outcome for op in probes if op._purgatory is None and op.outcome is not None
            )
        return entered

    def _check_held(
        self, held: Sequence[Future[Any] | asyncio.Future[Any]], kind: str, *, short: bool
    ) -> Counter[str]:
        entered = Counter(map(outcome_of, held))
        if entered["pending"]:
            raise RoundError(f"{entered['pending']} futures of `{kind}` are not done")
        if entered["expired"] and not short:
            raise RoundError(
                f"{entered['expired']} futures of `{kind}` timed out before their {LONG_MS} ms"
            )
        if entered["?"]:
            unexpected = [future for future in held if outcome_of(future) == "?"]
            raise RoundError(f"futures of `{kind}` ended with unexpected errors: {unexpected[:3]}")
        for outcome, count in entered.items():
            self.ended[kind, outcome] += count
        return entered

    def _check_handles(self) -> None:
        """Check that each handle ended in exactly one way.

        A handle runs, is cancelled, is returned by the timer's shutdown, or the executor drops it.
        """
        returned = set(map(id, self._state.returned_tasks))
        dropped = (
            set() if self._state.executor is None else set(map(id, self._state.executor.dropped()))
        )
        for worker in self._workers:
            marks = bytearray(len(worker.handles))
            for number in (*worker.ran, *worker.cancelled_handles):
                if number < len(marks):
                    marks[number] += 1
            unknown_handles = (
                worker.unknown_handles if isinstance(worker, InterruptedWorker) else set()
            )
            if worker.early:
                raise RoundError(
                    f"thread {worker.number}: handle {worker.early[0]} ran before its time"
                )
            if marks and max(marks) > 1:
                raise RoundError(
                    f"thread {worker.number}: handle {marks.index(max(marks))} "
                    f"ended {max(marks)} times"
                )
            not_ended = [number for number, count in enumerate(marks) if not count]
            ends: Counter[str] = Counter(
                completed=len(worker.ran), cancelled=len(worker.cancelled_handles)
            )
            for number in not_ended:
                handle = id(worker.handles[number])
                if handle in returned or handle in dropped:
                    ends["cancelled"] += 1
                elif number not in unknown_handles:
                    raise RoundError(
                        f"thread {worker.number}: handle {number}, "
                        f"{worker.handles[number]!r}, has not ended"
                    )
            twice = [
                number
                for number, handle in enumerate(worker.handles)
                if marks[number] and id(handle) in returned
            ]
            if twice:
                raise RoundError(
                    f"thread {worker.number}: shutdown returned handle {twice[0]}, which had ended"
                )
            for outcome, count in ends.items():
                self.ended["call_later_ms", outcome] += count

    def _check_tasks(self) -> None:
        returned = Counter(map(id, self._state.returned_tasks))
        for worker in self._workers:
            for task in worker.tasks:
                ends = task.runs + task.cancels + task.drops + returned[id(task)]
                if task.early or not (1 if task.adds else 0) <= ends <= task.adds:
                    raise RoundError(
                        f"thread {worker.number}: a task was added {task.adds} times, but ran "
                        f"{task.runs} times ({task.early} of them early), was cancelled "
                        f"{task.cancels} times, dropped {task.drops} times, and returned by "
                        f"shutdown {returned[id(task)]} times"
                    )
                if task.adds:
                    self.ended["task", "completed" if task.runs else "cancelled"] += 1

    def _check_loop(self) -> None:
        loop = self._loop
        entered = self._check_held(loop.holds, "aio hold", short=False)
        entered += self._check_held(loop.short_holds, "aio hold", short=True)
        for _future, op in loop.waits:
            problem = find_wrong_end(op.outcome, op.calls)
            if problem:
                self._fail(problem, op)
            entered[str(op.outcome)] += 1
            self.ended["aio wait", str(op.outcome)] += 1
        undone = [op for future, op in loop.waits if not future.done()]
        if undone:
            self._fail("its future on the loop is not done", undone[0])
        wrong = [
            op for future, op in loop.waits if outcome_of(future) not in (op.outcome, "cancelled")
        ]
        if wrong:
            self._fail("its future on the loop has another outcome", wrong[0])
        self._check_probes(loop.refused, refused=True)
        self._compare_metrics(loop.metrics, entered, loop.refused_holds + len(loop.refused))

    def _fail(self, problem: str, op: Any) -> None:
        where = "of the event loop"
        for worker in self._workers:
            for name, ops in (("operation", worker.probes), ("refused operation", worker.refused)):
                for number, other in enumerate(ops):
                    if other is op:
                        where = f"of thread {worker.number}, {name} {number} of {len(ops)}"
        known = {
            "delay_ms": op.delay_ms,
            "outcome": op.outcome,
            "callbacks": describe_calls(op.calls),
        }
        if isinstance(op, Probe):
            known |= {"need": op.need, "events": op.event.count}
        if hasattr(op, "due_ns"):
            known |= {"due_ns": op.due_ns, "now_ns": op.clock.now_ns}
        raise RoundError(f"{type(op).__name__} {where}: {problem}; {known}")


def outcome_of(future: Future[Any] | asyncio.Future[Any]) -> str:
    """Return how a future of `hold` or `wait` ended.

    Returns:
        An outcome, "pending", or "?" for an unexpected error.
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


def count_by_kind_and_outcome(
    ended: Iterable[tuple[tuple[str, str], int]],
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of ended operations by kind, and by outcome."""
    by_kind: Counter[str] = Counter()
    by_outcome: Counter[str] = Counter()
    for (kind, outcome), count in ended:
        by_kind[kind] += count
        by_outcome[outcome] += count
    return dict(by_kind), dict(by_outcome)
