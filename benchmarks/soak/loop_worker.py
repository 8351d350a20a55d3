"""The event loop of the campaign."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any

from benchmarks.soak.choices import LONG_MS, SHORT_MS, Choices, Keys
from benchmarks.soak.probe import Probe, TimedProbe, Until
from benchmarks.soak.world import World
from request_purgatory import MonotonicClock, PurgatoryClosedError
from request_purgatory.aio import Purgatory, TimingWheelEventLoop

#: Steps between two turns of the loop.
_TURN = 40
#: A round's loop is a new one after so many rounds; every other one has its timers on the wheel.
_ROUNDS_PER_LOOP = 20
_MOST_SHORT_S = SHORT_MS[-1] / 1000
#: Seconds after which a future that should have timed out is lost.
_LOST_S = 30.0
_CLOCK = MonotonicClock()


class LoopWorker:
    """Plays its part of each round on an event loop.

    Attributes:
        holds, short_holds: futures of held conditions; only the latter may time out.
        waits: futures of operations that are waited for, and those operations.
        metrics: of the round's purgatory, after its end.
    """

    def __init__(self, seed: int, keys: Keys) -> None:
        choices = Choices(seed, "loop")
        self._watches = choices.watches(keys)
        self._checks = choices.events(keys)
        self._short = choices.among(SHORT_MS)
        self._backs = choices.among(range(1, 60))
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
            self.read: 0.3,
        }
        self._acts = choices.among(list(actions), list(actions.values()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rounds = 0
        self._problems: list[str] = []
        self.forget()

    def forget(self) -> None:
        """Drop all of the last round."""
        self.holds: list[asyncio.Future[Any]] = []
        self.short_holds: list[asyncio.Future[Any]] = []
        self.waits: list[tuple[asyncio.Future[Any], Probe]] = []
        self.refused: list[Probe] = []
        self.held_refused = 0
        self.metrics: Any = None
        self.__dict__.pop("_purgatory", None)

    def close(self) -> None:
        """Close the loop."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def play(self, world: World, steps: int) -> None:
        """Play a round; on this worker's thread."""
        if self._loop is None or self._rounds % _ROUNDS_PER_LOOP == 0:
            self.close()
            wheel = self._rounds // _ROUNDS_PER_LOOP % 2
            self._loop = TimingWheelEventLoop() if wheel else asyncio.new_event_loop()
            self._loop.set_exception_handler(
                lambda _loop, context: self._problems.append(f"loop: {context}")
            )
        self._rounds += 1
        # The loop outlives the round, and must not keep it.
        self._problems = world.problems
        self._loop.run_until_complete(self._play(world, steps))

    async def _play(self, world: World, steps: int) -> None:
        async with Purgatory("soak-aio", purge_interval=100, batch=50) as purgatory:
            self._purgatory = purgatory
            self._world = world
            world.aio = purgatory
            close_at = int(steps * world.closes_loop_at)
            try:
                for done in range(0, steps, _TURN):
                    for act in islice(self._acts, _TURN):
                        act()
                    await asyncio.sleep(0)
                    if done >= close_at:
                        purgatory.close()
                        world.shutdowns += 1
            except PurgatoryClosedError:
                pass
            while world.left:  # The threads go on to notify, and end what is waited for.
                await asyncio.sleep(0.001)
            if world.drains:
                await self._drain(world)
        # What other threads have ended is told by the loop's next turn.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.metrics = purgatory.metrics()
        del self._purgatory, self._world

    async def _drain(self, world: World) -> None:
        await asyncio.sleep(_MOST_SHORT_S)
        waited = _MOST_SHORT_S
        short = [op for _future, op in self.waits if op.delay_ms < LONG_MS]
        while waited < _LOST_S and not (
            all(f.done() for f in self.short_holds) and all(op.is_completed for op in short)
        ):
            await asyncio.sleep(0.005)
            waited += 0.005
        if waited >= _LOST_S:
            world.problems.append(f"loop: a timeout was lost: it did not come within {_LOST_S} s")
        missed = sum(op.event.count >= op.need for _future, op in self.waits if not op.is_completed)
        if missed:
            world.problems.append(f"loop: {missed} operations have missed their event")

    # -- actions

    def _hold(
        self, held: list[asyncio.Future[Any]], timeout: float | None, need: int | None = None
    ) -> None:
        event, keys, events = next(self._watches)
        until = Until(event, event.count + events if need is None else need)
        try:
            held.append(self._purgatory.hold(keys, until=until, timeout=timeout))
        except BaseException:
            self.held_refused += 1
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
        self._world.aio_probes.append(op)

    def notify(self) -> None:
        event, key = next(self._checks)
        event.count += 1
        self._purgatory.notify(key)

    def cancel_future(self) -> None:
        if self.holds:
            self.holds[-min(next(self._backs), len(self.holds))].cancel()
        if self.waits:
            self.waits[-min(next(self._backs), len(self.waits))][0].cancel()

    def end(self) -> None:
        if self.waits:
            self.waits[-min(next(self._backs), len(self.waits))][1].force_complete()

    def cancel_for_key(self) -> None:
        self._purgatory.cancel_for_key(next(self._checks)[1])

    def read(self) -> None:
        self._purgatory.metrics()
