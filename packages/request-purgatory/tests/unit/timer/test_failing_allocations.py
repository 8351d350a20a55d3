"""Every public call of a timer, where it finds no memory."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory import ManualClock, SystemTimer, TimerHandle, TimerTask
from request_purgatory._native import primitives
from tests.support.failing_allocations import (
    fails_at_the_limit,
    fails_each,
    fails_in_a_row,
    with_whole_lists,
)
from tests.support.invariants import check_invariants

pytest.importorskip("_testcapi", reason="this Python has no tests of its own")

pytestmark = [
    pytest.mark.slow,
    with_whole_lists,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.skipif(
        not primitives.COMPILED, reason="interpreted, each number is an object that needs memory"
    ),
]


class CountedTask(TimerTask):
    """Counts its runs; small numbers need no memory."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.runs = 0

    def run(self) -> None:
        self.runs += 1


class TimerScene:
    """A timer with tasks and handles, near and far."""

    def __init__(self, call: Callable[[Any], object]) -> None:
        self.clock = ManualClock()
        self.timer = SystemTimer("test", wheel_size=4, clock=self.clock)
        self.tasks = [CountedTask(1 + 3 * number) for number in range(20)]
        for task in self.tasks:
            self.timer.add(task)
        self.runs = [0] * 6
        self.handles: list[TimerHandle] = [
            self.timer.call_later_ms(1 + 7 * index, self.counting(index)) for index in range(5)
        ]
        self.new = CountedTask(5)
        self.drained: list[TimerTask] | None = None
        self._call = call

    def counting(self, index: int) -> Callable[[], None]:
        runs = self.runs

        def count() -> None:
            runs[index] += 1

        return count

    def call(self) -> object:
        return self._call(self)

    def check(self, failed: bool) -> None:
        timer = self.timer
        check_invariants(timer)
        pending = [task for task in [*self.tasks, self.new] if task._timer_list is not None]
        handles = [handle for handle in self.handles if handle._timer_list is not None]
        assert timer.size in (len(pending) + len(handles), len(pending) + len(handles) + 1)
        was_pending = [task in pending for task in self.tasks]
        ran = [task.runs for task in self.tasks]
        try:
            self.clock.advance(10_000)
            timer.advance_clock(0)
        except RuntimeError:  # The call has shut it down.
            if failed and timer.size:
                self.drained = timer.shutdown()
            if self.drained is not None:
                assert set(map(id, self.tasks)) <= set(map(id, self.drained))
        else:
            for task, before, runs in zip(self.tasks, was_pending, ran, strict=True):
                assert task.runs == runs + before
            assert all(task.runs == 1 for task in self.tasks[2:])
            assert all(runs == 1 for runs in self.runs[1:5])
        check_invariants(timer)
        timer.shutdown()
        assert timer.size == 0

    def check_row(self, failed: bool) -> None:
        self.check(failed)

    def referents(self) -> list[weakref.ref[Any]]:
        return [weakref.ref(self.timer), weakref.ref(self.clock)]


def run_due(scene: TimerScene) -> None:
    scene.clock.advance(30)
    scene.timer.run_due(3)
    scene.timer.advance_clock(0)


def shut_down(scene: TimerScene) -> None:
    scene.drained = scene.timer.shutdown()


CALLS: dict[str, Callable[[TimerScene], object]] = {
    "add": lambda scene: scene.timer.add(scene.new),
    "add_again": lambda scene: scene.timer.add(scene.tasks[1]),
    "cancel": lambda scene: scene.tasks[0].cancel(),
    "call_later": lambda scene: scene.timer.call_later_ms(3, scene.counting(5)),
    "call_at_once": lambda scene: scene.timer.call_later_ms(0, scene.counting(5)),
    "call_far_later": lambda scene: scene.timer.call_later_ms(10**13, scene.counting(5)).cancel(),
    "cancel_handle": lambda scene: scene.handles[0].cancel(),
    "advance_clock": run_due,
    "shutdown": shut_down,
    "look": lambda scene: (
        scene.timer.size,
        scene.timer.next_expiration_ms,
        scene.timer.occupancy(),
        repr(scene.timer),
        repr(scene.handles[1]),
        repr(scene.tasks[1]),
    ),
    "make": lambda scene: SystemTimer("made", clock=scene.clock).shutdown(),
}


@pytest.mark.parametrize("call", CALLS)
def test_call_of_a_timer_fails_alone(call: str) -> None:
    fails_each(lambda: TimerScene(CALLS[call]))


@pytest.mark.parametrize("call", CALLS)
def test_call_of_a_timer_fails_alone_without_memory_to_go_on(call: str) -> None:
    fails_in_a_row(lambda: TimerScene(CALLS[call]))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is that of Linux")
@pytest.mark.parametrize("call", CALLS)
def test_call_of_a_timer_fails_alone_at_the_limit(call: str) -> None:
    fails_at_the_limit(lambda: TimerScene(CALLS[call]))
