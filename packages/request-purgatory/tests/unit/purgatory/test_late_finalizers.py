"""Dropped purgatories and timers, finalized while their thread is inside of the core.

Interpreted, the collector may come there. Compiled, nothing does.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable

import pytest

from request_purgatory import DelayedOperationPurgatory, SystemTimer
from request_purgatory._native import primitives
from request_purgatory.legacy import LegacyPurgatory
from tests.support.requests import Request

pytestmark = pytest.mark.skipif(
    primitives.COMPILED, reason="nothing interrupts the compiled core inside of a lock"
)


def make_timer() -> SystemTimer:
    return SystemTimer("test")


def make_wheel() -> DelayedOperationPurgatory:
    return DelayedOperationPurgatory("test", reaper=False)


def make_legacy() -> LegacyPurgatory:
    return LegacyPurgatory("test", reaper=False)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "in use"])
@pytest.mark.parametrize("make", [make_timer, make_wheel, make_legacy])
def test_finalizer_inside_of_the_core_reports_nothing(
    make: Callable[[], SystemTimer | DelayedOperationPurgatory],
    closed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_value))
    dropped = make()
    ghosts: list[weakref.ref[object]] = [weakref.ref(dropped)]
    for number in range(5):
        request = Request(60_000)
        ghosts.append(weakref.ref(request))
        if isinstance(dropped, SystemTimer):
            dropped.add(request)
        else:
            dropped.try_complete_else_watch(request, ["a", number])
    del request
    if closed:
        _ = dropped.shutdown() if isinstance(dropped, SystemTimer) else dropped.close()
        del _
    lock = primitives.CoreLock()
    lock.acquire()
    del dropped
    gc.collect()
    lock.release()
    gc.collect()
    assert reports == []
    assert [ghost() for ghost in ghosts] == [None] * 6


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]], ids=["one key", "two keys"])
def test_purgatory_that_is_dropped_abandons_what_waits(keys: list[str]) -> None:
    abandoned: list[int] = []

    class Noted(Request):
        def _abandon_in_child(self) -> None:
            abandoned.append(id(self))
            super()._abandon_in_child()

    purgatory = make_wheel()
    requests = [Noted(60_000) for _ in range(2)]
    expected = sorted(map(id, requests))
    for request in requests:
        purgatory.try_complete_else_watch(request, keys)
    del purgatory, requests, request
    gc.collect()
    assert sorted(abandoned) == expected


def test_purgatory_that_a_finalizer_brings_back_holds_no_ended_operation() -> None:
    back: list[object] = []

    class Returning(Request):
        def __del__(self) -> None:
            back.append(self._purgatory)

    purgatory = make_wheel()
    request = Returning()
    purgatory.try_complete_else_watch(request, ["a", "b"])
    assert request.force_complete()
    assert purgatory._backlog.chain.length == 1
    del purgatory, request
    gc.collect()
    (returned,) = back
    assert isinstance(returned, DelayedOperationPurgatory)
    assert (returned.watched, returned._backlog.chain.length) == (0, 0)
