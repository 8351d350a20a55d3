"""A clock on which one thread plays several."""

from __future__ import annotations

from collections.abc import Callable

from request_purgatory import ManualClock
from request_purgatory._native.parker import Parker
from tests.support.sleeping_threads import has_token


class ScriptedClock(ManualClock):
    """A clock on which nobody sleeps: each sleep runs the next action instead, on its thread.

    So one thread plays several, each asleep inside the sleep of the one before.

    Attributes:
        sleeps: The end of each sleep.
        actions: What to do in each sleep, with the sleeper's parker. A sleep for which there is
            none lasts until its end.
    """

    def __init__(self, *actions: Callable[[Parker], object]) -> None:
        super().__init__()
        self.actions = list(actions)
        self.sleeps: list[int | None] = []

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        assert not has_token(parker), "this sleep would end at once, for an old reason"
        self.sleeps.append(until_ms)
        if self.actions:
            self.actions.pop(0)(parker)
        else:
            assert until_ms is not None, "nothing would end this sleep"
            self.advance(max(until_ms - self.now_ms, 0))
