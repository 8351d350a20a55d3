"""The event loop of a campaign: its actions, and its records for the checks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any

from benchmarks.soak.choices import LONG_MS, SHORT_MS, Choices, Keys
from benchmarks.soak.probe import EventCondition, Probe, TimedProbe
from benchmarks.soak.round_state import RoundState
from request_purgatory import PurgatoryClosedError
from request_purgatory.aio import Purgatory, TimingWheelEventLoop
from request_purgatory.clock import MonotonicClock

#: Actions between two iterations of the event loop.
_STEPS_PER_TURN = 40
#: Rounds before the loop is replaced. Every other loop is a TimingWheelEventLoop.
_ROUNDS_PER_LOOP = 20
_MAX_SHORT_S = SHORT_MS[-1] / 1000
#: Seconds after which a future that has not timed out is an error.
_GRACE_S = 30.0
_CLOCK = MonotonicClock()


class LoopWorker:
    """Does random actions on an asyncio purgatory.

    Attributes:
        holds: Futures of held conditions that do not time out in a round.
        short_holds: Futures of held conditions that may time out.
        waits: Futures of `Purgatory.wait`, and their operations.
        refused: Operations for which `Purgatory.wait` raised.
        refused_holds: Number of calls of `hold` that raised.
        metrics: The metrics of the round's purgatory after the round.
    """

    def __init__(self, seed: int, keys: Keys) -> None:
        choices = Choices(seed, "loop")
        self._watches = choices.watches(keys)
        self._checks = choices.events(keys)
        self._short = choices.among(SHORT_MS)
        self._offsets = choices.among(range(1, 60))
        actions: dict[Callable[[], object], float] = {
            self.hold: 40,
            self.notify: 40,
            self.hold_short: 8,
            self.wait: 8,
            self.wait_short: 4,
            self.cancel_future: 5,
            self.end: 2,
            self.hold_faulty: 1,
            self.cancel_for_key: 0.5,
            self.read_metrics: 0.3,
        }
        self._drawn_actions = choices.among(list(actions), list(actions.values()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rounds = 0
        self._problems: list[str] = []
        self.forget_round()

    def forget_round(self) -> None:
        """Drop all objects of the last round."""
        self.holds: list[asyncio.Future[Any]] = []
        self.short_holds: list[asyncio.Future[Any]] = []
        self.waits: list[tuple[asyncio.Future[Any], Probe]] = []
        self.refused: list[Probe] = []
        self.refused_holds = 0
        self.metrics: Any = None
        self.__dict__.pop("_purgatory", None)

    def close(self) -> None:
        """Close the loop."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def play(self, state: RoundState, steps: int) -> None:
        """Run a round on this worker's thread."""
        if self._loop is None or self._rounds % _ROUNDS_PER_LOOP == 0:
            self.close()
            wheel = self._rounds // _ROUNDS_PER_LOOP % 2
            self._loop = TimingWheelEventLoop() if wheel else asyncio.new_event_loop()
            self._loop.set_exception_handler(
                lambda _loop, context: self._problems.append(f"loop: {context}")
            )
        self._rounds += 1
        # The loop outlives the round, and must not keep the round's objects alive.
        self._problems = state.problems
        self._loop.run_until_complete(self._play_round(state, steps))

    async def _play_round(self, state: RoundState, steps: int) -> None:
        async with Purgatory("soak-aio", purge_interval=100, batch=50) as purgatory:
            self._purgatory = purgatory
            self._state = state
            state.aio = purgatory
            close_at = int(steps * state.loop_closes_at)
            try:
                for done in range(0, steps, _STEPS_PER_TURN):
                    for action in islice(self._drawn_actions, _STEPS_PER_TURN):
                        action()
                    await asyncio.sleep(0)
                    if done >= close_at:
                        purgatory.close()
                        state.shutdowns += 1
            except PurgatoryClosedError:
                pass
            while state.active_threads:  # They still notify, and end operations.
                await asyncio.sleep(0.001)
            if state.drains:
                await self._drain(state)
        # The loop's next iteration handles the operations that other threads have ended.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.metrics = purgatory.metrics()
        del self._purgatory, self._state

    async def _drain(self, state: RoundState) -> None:
        await asyncio.sleep(_MAX_SHORT_S)
        waited = _MAX_SHORT_S
        short = [op for _future, op in self.waits if op.delay_ms < LONG_MS]
        while waited < _GRACE_S and not (
            all(f.done() for f in self.short_holds) and all(op.is_completed for op in short)
        ):
            await asyncio.sleep(0.005)
            waited += 0.005
        if waited >= _GRACE_S:
            state.problems.append(f"loop: a timeout did not fire within {_GRACE_S} s")
        missed = sum(op.event.count >= op.need for _future, op in self.waits if not op.is_completed)
        if missed:
            state.problems.append(f"loop: {missed} operations did not complete at their event")

    # -- actions

    def _hold(
        self, held: list[asyncio.Future[Any]], timeout: float | None, need: int | None = None
    ) -> None:
        event, keys, events = next(self._watches)
        until = EventCondition(event, event.count + events if need is None else need)
        try:
            held.append(self._purgatory.hold(keys, until=until, timeout=timeout))
        except BaseException:
            self.refused_holds += 1
            raise

    def hold(self) -> None:
        self._hold(self.holds, None)

    def hold_short(self) -> None:
        self._hold(self.short_holds, next(self._short) / 1000)

    def hold_faulty(self) -> None:
        self._hold(self.holds, LONG_MS / 1000, -1)

    def wait(self) -> None:
        self._wait(Probe(LONG_MS))

    def wait_short(self) -> None:
        delay_ms = next(self._short)
        op = TimedProbe(delay_ms)
        op.clock = _CLOCK
        op.due_ns = op.clock.now_ns + delay_ms * 1_000_000
        self._wait(op)

    def _wait(self, op: Probe) -> None:
        event, keys, need = next(self._watches)
        op.calls = 0
        op.event = event
        op.need = event.count + need
        try:
            future = self._purgatory.wait(op, keys)
        except BaseException:
            self.refused.append(op)
            raise
        self.waits.append((future, op))
        self._state.aio_probes.append(op)

    def notify(self) -> None:
        event, key = next(self._checks)
        event.count += 1
        self._purgatory.notify(key)

    def cancel_future(self) -> None:
        if self.holds:
            self.holds[-min(next(self._offsets), len(self.holds))].cancel()
        if self.waits:
            self.waits[-min(next(self._offsets), len(self.waits))][0].cancel()

    def end(self) -> None:
        if self.waits:
            self.waits[-min(next(self._offsets), len(self.waits))][1].force_complete()

    def cancel_for_key(self) -> None:
        self._purgatory.cancel_for_key(next(self._checks)[1])

    def read_metrics(self) -> None:
        self._purgatory.metrics()
