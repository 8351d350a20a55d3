"""Every public call of the core, where it finds no memory."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
    TimerTask,
)
from request_purgatory._native import forks, primitives
from request_purgatory.legacy import LegacyPurgatory
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
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


class Counted(DelayedOperation):
    """Counts its ends; small numbers need no memory."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.ready = False
        self.ended = 0

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.ended += 1

    def on_cancellation(self) -> None:
        self.ended += 1


class CountedTask(TimerTask):
    """Counts its runs."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.runs = 0

    def run(self) -> None:
        self.runs += 1


class Subclass(DelayedOperationPurgatory):
    """A class of Python, where every look for an override of a method makes an object."""


class PurgatoryScene:
    """A purgatory with operations of several timeouts and keys, and with futures."""

    def __init__(
        self, kind: type[DelayedOperationPurgatory], call: Callable[[Any], object]
    ) -> None:
        self.clock = ManualClock()
        self.purgatory: DelayedOperationPurgatory
        if kind is LegacyPurgatory:
            self.purgatory = LegacyPurgatory("test", clock=self.clock, reaper=False)
        else:
            self.purgatory = kind(
                "test", timer=SystemTimer("test", clock=self.clock), reaper=False, shards=2
            )
        self.requests = [Counted(10 if number % 2 else 5_000) for number in range(24)]
        for number, request in enumerate(self.requests):
            keys = ["a", "b", number % 3, "c", "d"][: 1 + number % 5]
            self.purgatory.try_complete_else_watch(request, keys)
        self.requests[0].ready = self.requests[5].ready = self.requests[9].ready = True
        self.answers: list[Any] = [None] * 4
        self.answers[0] = self.purgatory.hold(["a", "h"], until=bool, timeout=0.01)
        self.answers[1] = self.purgatory.hold(["h"], until=bool, timeout=60)
        self.parts: list[Future[int]] = [Future() for _ in range(3)]
        self.answers[2] = self.purgatory.gather(self.parts, quorum=2, timeout=0.01)
        self.notes = [0, 0, 0]
        for index in range(3):
            self.answers[index].add_done_callback(self.noting(index))
        self.new = Counted(20)
        self.entered = False
        self.made: list[DelayedOperationPurgatory] = []
        self._call = call

    def noting(self, index: int) -> Callable[[object], None]:
        notes = self.notes

        def note(_: object) -> None:
            notes[index] += 1

        return note

    def call(self) -> object:
        return self._call(self)

    def check(self, failed: bool) -> None:
        purgatory = self.purgatory
        requests = self.requests
        ended = [request for request in requests if request.is_completed]
        assert sum(request.ended for request in requests) == len(ended)
        for made in self.made:
            made.close()
        if not purgatory.is_closed:
            check_invariants(purgatory)
            self.check_use()
        self.clock.advance(100)
        if not purgatory.is_closed:
            purgatory.advance_clock(0)
            # Of what has ended, nothing stays in the lists.
            purgatory.purge()
        purgatory.close()
        assert [request.ended for request in requests] == [1] * len(requests)
        assert self.new.ended <= 1
        if not failed:
            assert self.new.ended == self.entered
        assert self.new._timer_list is None
        assert (purgatory.num_delayed, purgatory.timer.size) == (0, 0)
        assert purgatory.watched == 0
        for index in range(3):
            assert self.answers[index].done(), f"answer {index} is missing"
        assert self.notes == [1, 1, 1]
        metrics = purgatory.metrics()
        entered = metrics.completions + metrics.expirations + metrics.cancellations
        assert metrics.num_delayed_operations == 0
        assert entered >= len(requests) + 3

    def check_row(self, failed: bool) -> None:
        """Check that all is ended; of the callbacks and answers some have found no memory."""
        purgatory = self.purgatory
        for made in self.made:
            made.close()
        if not purgatory.is_closed:
            check_invariants(purgatory)
            self.check_use()
        self.clock.advance(100)
        if not purgatory.is_closed:
            purgatory.advance_clock(0)
            purgatory.purge()
        purgatory.close()
        assert all(request.is_completed for request in self.requests)
        assert all(request.ended <= 1 for request in [*self.requests, self.new])
        assert (purgatory.num_delayed, purgatory.timer.size, purgatory.watched) == (0, 0, 0)
        for index in range(3):
            assert self.answers[index].done(), f"answer {index} is missing"

    def check_use(self) -> None:
        """Check that the purgatory takes further operations, and ends them."""
        pending = self.purgatory.num_delayed
        further = Counted(1_000)
        self.purgatory.try_complete_else_watch(further, ["z"])
        assert self.purgatory.num_delayed == pending + 1
        further.ready = True
        assert self.purgatory.check_and_complete("z") == 1
        assert (further.ended, self.purgatory.num_delayed) == (1, pending)

    def referents(self) -> list[weakref.ref[Any]]:
        return [
            weakref.ref(self.purgatory),
            weakref.ref(self.purgatory.timer),
            *(weakref.ref(request) for request in self.requests),
            weakref.ref(self.answers[0]),
        ]


def watch_new(scene: PurgatoryScene, *keys: object) -> None:
    scene.purgatory.try_complete_else_watch(scene.new, keys)
    scene.entered = True


def complete_new(scene: PurgatoryScene) -> None:
    scene.new.ready = True
    scene.purgatory.try_complete_else_watch(scene.new, ["a", "new"])
    scene.entered = True


def expire(scene: PurgatoryScene) -> None:
    scene.clock.advance(50)
    scene.purgatory.advance_clock(0)


def hold_and_cancel(scene: PurgatoryScene) -> None:
    scene.purgatory.hold(["h", "new"], until=bool, timeout=3).cancel()


def hold_at_once(scene: PurgatoryScene) -> None:
    scene.purgatory.hold(["h", "new"], until=lambda: True, timeout=3)


def hold_for_no_time(scene: PurgatoryScene) -> None:
    scene.purgatory.hold(["h", "new"], until=bool, timeout=0)


def gather(scene: PurgatoryScene) -> None:
    scene.purgatory.gather(scene.parts, timeout=0.02)


def end_parts(scene: PurgatoryScene) -> None:
    for part in scene.parts:
        if not part.done():
            part.set_result(1)


def make_and_close(scene: PurgatoryScene) -> None:
    # Without a thread: CPython's `Thread.start` waits for ever where the thread finds no memory.
    purgatory = DelayedOperationPurgatory("made", shards=2, reaper=False)
    scene.made.append(purgatory)
    purgatory.close()


def use_block(scene: PurgatoryScene) -> None:
    with DelayedOperationPurgatory("made", shards=2, reaper=False) as purgatory:
        purgatory.try_complete_else_watch(scene.new, ["a"])
        scene.entered = True


CALLS: dict[str, Callable[[PurgatoryScene], object]] = {
    "watch": lambda scene: watch_new(scene, "a"),
    "watch_new_keys": lambda scene: watch_new(scene, "n", ("m", 1), 3.5, "o", "p"),
    "complete_at_once": complete_new,
    "force_complete": lambda scene: scene.requests[3].force_complete(),
    "cancel": lambda scene: scene.requests[4].cancel(),
    "discard": lambda scene: scene.purgatory._discard(scene.requests[4]),
    "renew": lambda scene: scene.purgatory.renew(scene.requests[1], 0.03),
    "renew_far": lambda scene: scene.purgatory.renew(scene.requests[1], 10**9),
    "check_and_complete": lambda scene: scene.purgatory.check_and_complete("a"),
    "notify": lambda scene: scene.purgatory.notify("b"),
    "notify_many": lambda scene: scene.purgatory.notify_many(["a", "b", "h"]),
    "cancel_for_key": lambda scene: scene.purgatory.cancel_for_key("a"),
    "cancel_for_key_of_holds": lambda scene: scene.purgatory.cancel_for_key("h"),
    "advance_clock": expire,
    "purge": lambda scene: (scene.requests[4].cancel(), scene.purgatory.purge()),
    "metrics": lambda scene: scene.purgatory.metrics(),
    "snapshot": lambda scene: str(scene.purgatory.snapshot()),
    "operations": lambda scene: scene.purgatory.operations(),
    "counts": lambda scene: (
        scene.purgatory.watched,
        scene.purgatory.num_keys,
        scene.purgatory.num_delayed,
        scene.purgatory.num_watchers("a"),
        repr(scene.purgatory),
    ),
    "hold_at_once": hold_at_once,
    "hold_for_no_time": hold_for_no_time,
    "hold_and_cancel": hold_and_cancel,
    "cancel_future": lambda scene: scene.answers[1].cancel(),
    "gather": gather,
    "end_parts": end_parts,
    "close": lambda scene: scene.purgatory.close(),
    "make_and_close": make_and_close,
    "block": use_block,
}


class CrowdScene(PurgatoryScene):
    """A key with more operations than there are small numbers, which need no memory."""

    def __init__(self, kind: type[DelayedOperationPurgatory]) -> None:
        super().__init__(kind, lambda scene: scene.purgatory.cancel_for_key("a"))
        crowd = [Counted(10 if number % 2 else 5_000) for number in range(300)]
        for request in crowd:
            self.purgatory.try_complete_else_watch(request, ["a", "b"])
        self.requests += crowd


class ForkedScene(PurgatoryScene):
    """A purgatory that is reset as in a forked child.

    Not by a fork: CPython's own handlers leave locks held, and start none of ours, where they find
    no memory.
    """

    def __init__(self, kind: type[DelayedOperationPurgatory]) -> None:
        # A first call needs memory, where a tool has used `sys.monitoring`.
        self.call()
        super().__init__(kind, bool)

    def call(self) -> object:
        return forks._after_in_child()

    def check(self, failed: bool) -> None:
        assert not failed
        check_invariants(self.purgatory)
        assert self.purgatory.num_delayed == 0
        self.check_use()
        self.clock.advance(10_000)
        self.purgatory.advance_clock(0)
        assert sum(request.ended for request in self.requests) == 0
        self.purgatory.close()


class ReaperScene(PurgatoryScene):
    """A purgatory whose reaper finds no memory, or the thread that moves its clock."""

    def __init__(self, kind: type[DelayedOperationPurgatory]) -> None:
        super().__init__(kind, ReaperScene.expire)
        self.reaped = kind("reaped", timer=SystemTimer("reaped", clock=self.clock), shards=2)
        self.last = Last(20)
        self.others = [Counted(10) for _ in range(3)]
        for request in [*self.others, self.last]:
            self.reaped.try_complete_else_watch(request, ["a", "b"])

    def expire(self) -> None:
        self.clock.advance(50)
        self.last.done.acquire(timeout=10)

    def check(self, failed: bool) -> None:
        assert self.reaped._reaper is not None
        if not self.last.ended:
            self.clock.advance(50 - self.clock.now_ms)
            assert self.last.done.acquire(timeout=10), "the reaper expires nothing"
        assert self.reaped._reaper._thread.is_alive()
        assert [request.ended for request in self.others] == [1] * 3
        self.reaped.close()
        assert not self.reaped._reaper._thread.is_alive()
        super().check(failed)

    def referents(self) -> list[weakref.ref[Any]]:
        return []


class Last(Counted):
    """Says when it has expired."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.done = threading.Lock()
        self.done.acquire()

    def on_complete(self) -> None:
        self.ended += 1
        self.done.release()


KINDS = {"wheel": DelayedOperationPurgatory, "subclass": Subclass, "legacy": LegacyPurgatory}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_call_of_a_purgatory_fails_alone(call: str, kind: str) -> None:
    fails_each(lambda: PurgatoryScene(KINDS[kind], CALLS[call]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_call_of_a_purgatory_ends_all_without_memory_to_go_on(call: str, kind: str) -> None:
    fails_in_a_row(lambda: PurgatoryScene(KINDS[kind], CALLS[call]))


@pytest.mark.parametrize("kind", KINDS)
def test_cancellation_of_a_crowd_fails_alone(kind: str) -> None:
    fails_each(lambda: CrowdScene(KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_reset_in_a_forked_child_is_complete(kind: str) -> None:
    fails_each(lambda: ForkedScene(KINDS[kind]))


@pytest.mark.parametrize("kind", ["wheel", "subclass"])
def test_reaper_survives(kind: str) -> None:
    fails_each(lambda: ReaperScene(KINDS[kind]))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is that of Linux")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_call_of_a_purgatory_fails_alone_at_the_limit(call: str, kind: str) -> None:
    fails_at_the_limit(lambda: PurgatoryScene(KINDS[kind], CALLS[call]))
