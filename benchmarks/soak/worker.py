"""A thread of the campaign: its actions, and its records for the checks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any

from benchmarks.soak.choices import LONG_MS, SHORT_MS, Choices, Keys
from benchmarks.soak.forks import use_in_fork
from benchmarks.soak.probe import (
    ChainedProbe,
    CyclicProbe,
    EventCondition,
    Fault,
    FaultyProbe,
    Probe,
    QuorumProbe,
    TimedProbe,
)
from benchmarks.soak.round_state import RoundState
from benchmarks.soak.timer_worker import TimerWorker
from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    PurgatoryClosedError,
    SystemTimer,
    TimerClosedError,
)
from request_purgatory.purgatory.hold_future import HoldFuture

#: Number of calls that a closed purgatory or timer rejects before a thread leaves the round.
_REFUSALS = 25


class Worker(TimerWorker):
    """Does random actions on the round's purgatory.

    The actions depend on the seed, and not on other threads. Only the worker's thread changes its
    lists.

    Attributes:
        number: The thread's number.
        peers: The workers whose operations this one may end.
        probes: Operations that entered the purgatory.
        refused: Operations for which `try_complete_else_watch` raised.
        held: Futures of held conditions that do not time out in a round.
        held_short: Futures of held conditions that may time out.
        answers: The futures that quorums wait for.
        caught: Number of the probes' errors that reached this thread.
        refused_holds: Number of calls of `hold` that raised.
        forks: Number of forks.
        collections: Number of garbage collections that this thread started.
        cycles: Weak references to dropped reference cycles.
    """

    def __init__(self, number: int, seed: int, keys: Keys, loop_keys: Keys, *, forks: bool) -> None:
        choices = Choices(seed, f"thread {number}")
        super().__init__(choices)
        self.number = number
        self._watches = choices.watches(keys)
        self._checks = choices.events(keys)
        self._loop_checks = choices.events(loop_keys)
        self._faults = choices.among([(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)])
        self._sizes = choices.among([(needed, of) for of in (1, 2, 3) for needed in range(of + 1)])
        self._steps = choices.among((1, 1, 2, 5, 30))
        actions = self._action_weights()
        self._drawn_actions = choices.among(list(actions), list(actions.values()))
        self.peers: Sequence[Worker] = ()
        self._peer: Iterator[Worker] = iter(())
        self._choices = choices
        self._forks = forks
        self.forks = 0
        self.collections = 0
        self.cycles: list[weakref.ref[Any]] = []

    def set_peers(self, peers: Sequence[Worker]) -> None:
        """Set the workers whose operations this one may end, besides its own."""
        self.peers = peers
        self._peer = self._choices.among(peers)

    def _action_weights(self) -> dict[Callable[[], object], float]:
        """Return the actions with their weights, which are small for slow actions."""
        return {
            self.watch: 300,
            self.check: 200,
            self.check_without_event: 15,
            self.call_later: 280,
            self.cancel_handle: 150,
            self.burst: 20,
            self.watch_timed: 30,
            self.complete: 20,
            self.cancel: 20,
            self.discard: 10,
            self.complete_of_peer: 15,
            self.read_counts: 10,
            self.watch_chained: 6,
            self.watch_faulty: 8,
            self.call_later_checked: 8,
            self.call_later_faulty: 2,
            self.hold: 4,
            self.cancel_held: 2,
            self.wait_for_quorum: 2,
            self.answer_quorum: 3,
            self.add_task: 4,
            self.move_task: 4,
            self.cancel_task: 2,
            self.notify_loop: 6,
            self.end_loop_operation: 3,
            self.cancel_for_key: 2,
            self.advance: 4,
            self.purge: 0.5,
            self.read_metrics: 0.2,
            self.drop_cycle: 0.2,
            self.collect: 0.2,
        }

    def begin_round(self, state: RoundState) -> None:
        super().begin_round(state)
        self.purgatory: DelayedOperationPurgatory = state.purgatory
        self._enter = state.purgatory.try_complete_else_watch
        self._check = state.purgatory.check_and_complete
        self.probes: list[Any] = []
        self.refused: list[Any] = []
        self.held: list[Future[Any]] = []
        self.held_short: list[Future[Any]] = []
        self.answers: list[Future[Any]] = []
        self.cycles.clear()
        self.caught = 0
        self.refused_holds = 0

    def forget_round(self) -> None:
        super().forget_round()
        for name in ("purgatory", "_enter", "_check"):
            self.__dict__.pop(name, None)
        lists: tuple[list[Any], ...] = (
            self.probes,
            self.refused,
            self.held,
            self.held_short,
            self.answers,
        )
        for entries in lists:
            entries.clear()

    def play(self, steps: int) -> None:
        """Do `steps` actions, and this thread's shutdowns and fork in between."""
        state = self.state
        actors = (*state.closing_threads, state.forking_thread if self._forks else -1)
        mine = sorted(
            (int(steps * time), part)
            for part, time in enumerate(state.times)
            if actors[part] == self.number
        )
        done = 0
        for step, part in mine:
            self._run_actions(islice(self._drawn_actions, step - done))
            if part < len(state.closing_threads):
                state.close(part)
            else:
                self.fork()
            done = step
        self._run_actions(islice(self._drawn_actions, steps - done))

    def _run_actions(self, actions: Iterator[Callable[[], object]]) -> None:
        refusals = 0
        while refusals < _REFUSALS:
            try:
                for action in actions:
                    action()
            except Fault:
                self.caught += 1
            except (PurgatoryClosedError, TimerClosedError):
                refusals += 1
            else:
                return

    # -- operations

    def watch(self) -> None:
        self._enter_probe(Probe(LONG_MS))

    def move_last_to_refused(self) -> None:
        """Record that the purgatory did not accept the last operation."""
        self.refused.append(self.probes.pop())

    def _enter_probe(self, op: Probe) -> None:
        event, keys, need = next(self._watches)
        op.calls = 0
        op.event = event
        op.need = event.count + need
        self.probes.append(op)
        try:
            self._enter(op, keys)
        except BaseException:
            self.move_last_to_refused()
            raise

    def _timed(self, kind: type[TimedProbe]) -> Any:
        delay_ms = next(self._short)
        op = kind(delay_ms)
        op.clock = clock = self.state.clock
        op.due_ns = clock.now_ns + delay_ms * 1_000_000
        return op

    def watch_timed(self) -> None:
        self._enter_probe(self._timed(TimedProbe))

    def watch_faulty(self) -> None:
        op = self._timed(FaultyProbe)
        op.failed_tries = 0
        op.failing_try, op.failing_callback = next(self._faults)
        self._enter_probe(op)

    def watch_chained(self) -> None:
        op = ChainedProbe(LONG_MS)
        op.caused, op.key = next(self._checks)
        op.cause = self._check
        self._enter_probe(op)

    def check(self) -> None:
        event, key = next(self._checks)
        event.count += 1
        self._check(key)

    def check_without_event(self) -> None:
        _event, key = next(self._checks)
        self._check(key)

    def complete(self) -> None:
        offset = next(self._offsets)
        if offset <= len(self.probes):
            self.probes[-offset].force_complete()

    def complete_of_peer(self) -> None:
        other = next(self._peer)
        offset = next(self._offsets)
        try:
            op = other.probes[-offset]
        except IndexError:
            return
        op.force_complete() if offset % 3 else op.cancel()

    def cancel(self) -> None:
        offset = next(self._offsets)
        if offset <= len(self.probes):
            self.probes[-offset].cancel()

    def discard(self) -> None:
        offset = next(self._offsets)
        if offset <= len(self.probes):
            self.purgatory._discard(self.probes[-offset])

    def cancel_for_key(self) -> None:
        self.purgatory.cancel_for_key(next(self._checks)[1])

    def read_counts(self) -> None:
        _event, key = next(self._checks)
        assert self.purgatory.num_watchers(key) >= 0
        assert self.purgatory.num_delayed >= 0

    def purge(self) -> None:
        self.purgatory.purge()

    def read_metrics(self) -> None:
        metrics = self.purgatory.metrics()
        assert metrics.num_delayed_operations >= 0
        assert all(isinstance(op, DelayedOperation) for op in self.purgatory.operations())

    # -- futures

    def hold(self) -> None:
        event, keys, need = next(self._watches)
        short = next(self._short)
        until = EventCondition(event, event.count + need if short != SHORT_MS[-1] else -1)
        timeout, held = (
            (short / 1000, self.held_short) if short % 2 else (LONG_MS / 1000, self.held)
        )
        try:
            held.append(self.purgatory.hold(keys, until=until, timeout=timeout))
        except BaseException:
            self.refused_holds += 1
            raise

    def cancel_held(self) -> None:
        if self.held:
            self.held[-min(next(self._offsets), len(self.held))].cancel()

    def wait_for_quorum(self) -> None:
        needed, of = next(self._sizes)
        answers: list[Future[Any]] = [Future() for _ in range(of)]
        op = QuorumProbe(tuple(answers), needed, LONG_MS, HoldFuture())
        op.calls = 0
        self.probes.append(op)
        try:
            op.watch_in(self.purgatory)
        except BaseException:
            self.move_last_to_refused()
            raise
        self.answers += answers

    def answer_quorum(self) -> None:
        if self.answers:
            answer = self.answers[-min(next(self._offsets), len(self.answers))]
            if not answer.done():
                answer.set_result(None)

    # -- the clock, the loop, the process

    def advance(self) -> None:
        state = self.state
        if state.manual_clock is not None:
            state.manual_clock.advance(next(self._steps))
        if not state.reaper:
            self.purgatory.advance_clock(0)
        self.timer.advance_clock(0)

    def notify_loop(self) -> None:
        event, key = next(self._loop_checks)
        purgatory = self.state.aio
        if purgatory is not None:
            event.count += 1
            purgatory.notify_threadsafe(key)

    def end_loop_operation(self) -> None:
        offset = next(self._offsets)
        try:
            op = self.state.aio_probes[-offset]
        except IndexError:
            return
        op.force_complete() if offset % 2 else op.cancel()

    def drop_cycle(self) -> None:
        purgatory = DelayedOperationPurgatory("soak-cycle", reaper=False, shards=2)
        op = CyclicProbe(LONG_MS)
        op.purgatory = purgatory
        purgatory.try_complete_else_watch(op, [1, 2])
        timer = SystemTimer("soak-cycle")
        timer.call_later_ms(LONG_MS, timer.add, op)
        self.cycles += (weakref.ref(purgatory), weakref.ref(timer))

    def collect(self) -> None:
        gc.collect(next(self._offsets) % 2)
        self.collections += 1

    def fork(self) -> None:
        self.forks += 1
        pending = [op for op in self.probes[-200:] if not op.is_completed]
        problem = use_in_fork(self.state, pending)
        if problem:
            self.state.problems.append(f"thread {self.number}: {problem}")
