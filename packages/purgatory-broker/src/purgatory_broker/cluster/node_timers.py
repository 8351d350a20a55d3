"""What a node does later, and again and again, on the event loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from purgatory_broker.deferred_actions import ActionQueue


@dataclass(slots=True, eq=False)
class NodeTimers:
    """Calls in a block of the actions, until the node stops."""

    actions: ActionQueue
    _timers: set[asyncio.TimerHandle] = field(default_factory=set)

    def call_later(self, delay_ms: int, action: Callable[[], object]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            with self.actions:
                action()

        timer = asyncio.get_running_loop().call_later(delay_ms / 1_000, run)
        self._timers.add(timer)

    def call_every(self, interval_ms: int, action: Callable[[], object]) -> None:
        """Call for the first time after one interval; an action that fails is called again."""

        def run() -> None:
            self.call_every(interval_ms, action)
            action()

        self.call_later(interval_ms, run)

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
