"""A thread of the campaign: what it does, and what it has to remember for the verdict."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any

from benchmarks.soak.choices import LONG_MS, SHORT_MS, Choices, Keys
from benchmarks.soak.forks import fork_and_use
from benchmarks.soak.probe import (
    ChainedProbe,
    Fault,
    FaultyProbe,
    Probe,
    QuorumProbe,
    RingProbe,
    TimedProbe,
    Until,
    note_quorum,
)
from benchmarks.soak.timer_user import TimerUser
from benchmarks.soak.world import World
from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    PurgatoryClosedError,
    SystemTimer,
    TimerClosedError,
)

#: Calls that a closed purgatory refuses before a thread leaves the round.
_REFUSALS = 25


class Worker(TimerUser):
    """Draws from its own lists, so the same seed does the same, whatever the other threads do.

    What ends is found in the lists below; only this worker's thread adds to them or takes from
    them.

    Attributes:
        probes, refused: operations that entered the purgatory, and those for which that call
            raised.
        held: the futures of held conditions whose time can't run out; `held_short` may time out.
        caught: how many of the purgatory's faults reached this thread.
        held_refused: how many calls of `hold` raised.
        rings: weak references to what was dropped.
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
        actions = self._actions()
        self._acts = choices.among(list(actions), list(actions.values()))
        self.others: Sequence[Worker] = ()
        self._other: Iterator[Worker] = iter(())
        self._choices = choices
        self._forks = forks
        self.forks = 0
        self.collections = 0
        self.rings: list[weakref.ref[Any]] = []

    def meet(self, others: Sequence[Worker]) -> None:
        """Learn whose operations this thread may end, beside its own."""
        self.others = others
        self._other = self._choices.among(others)

    def _actions(self) -> dict[Callable[[], object], float]:
        """The actions with their weights.

        The dear ones are rare, so that the cheap ones come often.
        """
        return {
            self.watch: 300,
            self.check: 200,
            self.check_twice: 15,
            self.call_later: 280,
            self.call_off: 150,
            self.burst: 20,
            self.watch_timed: 30,
            self.force: 20,
            self.cancel: 20,
            self.discard: 10,
            self.force_other: 15,
            self.look: 10,
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
            self.end_for_loop: 3,
            self.cancel_for_key: 2,
            self.advance: 4,
            self.purge: 0.5,
            self.read: 0.2,
            self.drop_ring: 0.2,
            self.collect: 0.2,
        }

    def begin(self, world: World) -> None:
        super().begin(world)
        self.purgatory: DelayedOperationPurgatory = world.purgatory
        self._enter = world.purgatory.try_complete_else_watch
        self._check = world.purgatory.check_and_complete
        self.probes: list[Any] = []
        self.refused: list[Any] = []
        self.held: list[Future[Any]] = []
        self.held_short: list[Future[Any]] = []
        self.answers: list[Future[Any]] = []
        self.rings.clear()
        self.caught = 0
        self.held_refused = 0

    def forget(self) -> None:
        super().forget()
        for name in ("purgatory", "_enter", "_check"):
            self.__dict__.pop(name, None)
        lists: tuple[list[Any], ...] = (
            self.probes,
            self.refused,
            self.held,
            self.held_short,
            self.answers,
        )
        for gone in lists:
            gone.clear()

    def play(self, steps: int) -> None:
        """Do that many steps, with the shutdowns and the fork that fall to this thread in between."""
        world = self.world
        actors = (*world.closers, world.forker if self._forks else -1)
        mine = sorted(
            (int(steps * at), part)
            for part, at in enumerate(world.at)
            if actors[part] == self.number
        )
        done = 0
        for step, part in mine:
            self._go(islice(self._acts, step - done))
            if part < len(world.closers):
                world.close(part)
            else:
                self.fork()
            done = step
        self._go(islice(self._acts, steps - done))

    def _go(self, acts: Iterator[Callable[[], object]]) -> None:
        refusals = 0
        while refusals < _REFUSALS:
            try:
                for act in acts:
                    act()
            except Fault:
                self.caught += 1
            except (PurgatoryClosedError, TimerClosedError):
                refusals += 1
            else:
                return

    # -- operations

    def watch(self) -> None:
        self._put(Probe(LONG_MS))

    def refuse(self) -> None:
        """The last operation was not taken."""
        self.refused.append(self.probes.pop())

    def _put(self, op: Probe) -> None:
        event, keys, need = next(self._watches)
        op.calls = 0
        op.event = event
        op.need = event.count + need
        self.probes.append(op)
        try:
            self._enter(op, keys)
        except BaseException:
            self.refuse()
            raise

    def _timed(self, kind: type[TimedProbe]) -> Any:
        delay_ms = next(self._short)
        op = kind(delay_ms)
        op.clock = clock = self.world.clock
        op.due_ns = clock.now_ns + delay_ms * 1_000_000
        return op

    def watch_timed(self) -> None:
        self._put(self._timed(TimedProbe))

    def watch_faulty(self) -> None:
        op = self._timed(FaultyProbe)
        op.fuse, op.faulty = next(self._faults)
        self._put(op)

    def watch_chained(self) -> None:
        op = ChainedProbe(LONG_MS)
        op.caused, op.key = next(self._checks)
        op.cause = self._check
        self._put(op)

    def check(self) -> None:
        event, key = next(self._checks)
        event.count += 1
        self._check(key)

    def check_twice(self) -> None:
        _event, key = next(self._checks)
        self._check(key)

    def force(self) -> None:
        back = next(self._backs)
        if back <= len(self.probes):
            self.probes[-back].force_complete()

    def force_other(self) -> None:
        other = next(self._other)
        back = next(self._backs)
        try:
            op = other.probes[-back]
        except IndexError:
            return
        op.force_complete() if back % 3 else op.cancel()

    def cancel(self) -> None:
        back = next(self._backs)
        if back <= len(self.probes):
            self.probes[-back].cancel()

    def discard(self) -> None:
        back = next(self._backs)
        if back <= len(self.probes):
            self.purgatory.discard(self.probes[-back])

    def cancel_for_key(self) -> None:
        self.purgatory.cancel_for_key(next(self._checks)[1])

    def look(self) -> None:
        _event, key = next(self._checks)
        assert self.purgatory.watched_under(key) >= 0
        assert self.purgatory.num_delayed >= 0

    def purge(self) -> None:
        self.purgatory.purge()

    def read(self) -> None:
        metrics = self.purgatory.metrics()
        assert metrics.num_delayed_operations >= 0
        assert all(isinstance(op, DelayedOperation) for op in self.purgatory.operations())

    # -- futures

    def hold(self) -> None:
        event, keys, need = next(self._watches)
        short = next(self._short)
        until = Until(event, event.count + need if short != SHORT_MS[-1] else -1)
        timeout, held = (
            (short / 1000, self.held_short) if short % 2 else (LONG_MS / 1000, self.held)
        )
        try:
            held.append(self.purgatory.hold(keys, until=until, timeout=timeout))
        except BaseException:
            self.held_refused += 1
            raise

    def cancel_held(self) -> None:
        if self.held:
            self.held[-min(next(self._backs), len(self.held))].cancel()

    def wait_for_quorum(self) -> None:
        needed, of = next(self._sizes)
        answers: list[Future[Any]] = [Future() for _ in range(of)]
        op = QuorumProbe(LONG_MS, answers, note_quorum, needed=needed)  # type: ignore[arg-type]
        op.calls = 0
        self.probes.append(op)
        try:
            op.watch_in(self.purgatory)
        except BaseException:
            self.refuse()
            raise
        self.answers += answers

    def answer_quorum(self) -> None:
        if self.answers:
            answer = self.answers[-min(next(self._backs), len(self.answers))]
            if not answer.done():
                answer.set_result(None)

    # -- the clock, the loop, the process

    def advance(self) -> None:
        world = self.world
        if world.manual is not None:
            world.manual.advance(next(self._steps))
        if not world.reaper:
            self.purgatory.advance_clock(0)
        self.timer.advance_clock(0)

    def notify_loop(self) -> None:
        event, key = next(self._loop_checks)
        purgatory = self.world.aio
        if purgatory is not None:
            event.count += 1
            purgatory.notify_threadsafe(key)

    def end_for_loop(self) -> None:
        back = next(self._backs)
        try:
            op = self.world.aio_probes[-back]
        except IndexError:
            return
        op.force_complete() if back % 2 else op.cancel()

    def drop_ring(self) -> None:
        purgatory = DelayedOperationPurgatory("soak-ring", reaper=False, shards=2)
        op = RingProbe(LONG_MS)
        op.ring = purgatory
        purgatory.try_complete_else_watch(op, [1, 2])
        timer = SystemTimer("soak-ring")
        timer.call_later(LONG_MS, timer.add, op)
        self.rings += (weakref.ref(purgatory), weakref.ref(timer))

    def collect(self) -> None:
        gc.collect(next(self._backs) % 2)
        self.collections += 1

    def fork(self) -> None:
        self.forks += 1
        pending = [op for op in self.probes[-200:] if not op.is_completed]
        problem = fork_and_use(self.world, pending)
        if problem:
            self.world.problems.append(f"thread {self.number}: {problem}")
