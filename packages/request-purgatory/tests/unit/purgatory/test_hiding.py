"""What waits is hidden from the cyclic collector, which finds all rings nevertheless."""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
    SystemTimer,
)
from request_purgatory._native import hiding, primitives
from request_purgatory.purgatory.hold_future import HoldFuture
from tests.support.garbage import Payload, collect_automatically, make_timer
from tests.support.requests import Request

pytestmark = pytest.mark.usefixtures("collector_at_rest")

# Free-threaded builds have one generation; from 3.14.0 to 3.14.4 the collector is incremental.
has_generations = not sysconfig.get_config_var("Py_GIL_DISABLED") and not (
    (3, 14) <= sys.version_info < (3, 14, 5)
)

needs_hiding = pytest.mark.skipif(
    not hiding.HIDES, reason="this build hides nothing from the collector"
)


def hiding_purgatory(purge_interval: int = 1000) -> tuple[DelayedOperationPurgatory, ManualClock]:
    timer, clock = make_timer()
    return DelayedOperationPurgatory(
        "leaks", timer=timer, purge_interval=purge_interval, reaper=False
    ), clock


def is_seen_in_a_full_collection(request: object) -> bool:
    seen: list[bool] = []

    def look(phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(gc.is_tracked(request))

    gc.callbacks.append(look)
    gc.collect()
    gc.callbacks.remove(look)
    return seen == [True]


@needs_hiding
def test_pending_request_is_hidden_between_full_collections() -> None:
    purgatory, _ = hiding_purgatory()
    request = Request(1_000)
    assert gc.is_tracked(request)
    purgatory.try_complete_else_watch(request, ["a", "b"])
    for _ in range(2):
        assert not gc.is_tracked(request)
        assert is_seen_in_a_full_collection(request)
    gc.collect(1)
    assert not gc.is_tracked(request)
    purgatory.close()


ENDS: dict[str, Callable[[DelayedOperationPurgatory, ManualClock, Request], object]] = {
    "a check": lambda purgatory, _clock, _request: purgatory.check_and_complete("a"),
    "time": lambda purgatory, clock, _request: (clock.advance(1_000), purgatory.advance_clock(0)),
    "its owner": lambda _purgatory, _clock, request: request.force_complete(),
    "cancelling": lambda _purgatory, _clock, request: request.cancel(),
    "its key's end": lambda purgatory, _clock, _request: purgatory.cancel_for_key("a"),
    "shutdown": lambda purgatory, _clock, _request: purgatory.close(),
}


@needs_hiding
@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
@pytest.mark.parametrize("end", ENDS)
def test_request_that_has_left_is_not_hidden_any_more(end: str, keys: list[str]) -> None:
    """However it ended; at the latest when its last entry was met or purged.

    Till then full collections see it.
    """
    purgatory, clock = hiding_purgatory()
    request = Request(1_000)
    purgatory.try_complete_else_watch(request, keys)
    request.ready = True
    ENDS[end](purgatory, clock, request)
    assert request.is_completed
    if not purgatory.is_closed:
        assert is_seen_in_a_full_collection(request)
        purgatory.purge()
    assert gc.is_tracked(request)


@needs_hiding
@pytest.mark.parametrize("end", ENDS)
def test_future_is_hidden_while_it_waits(end: str) -> None:
    purgatory, clock = hiding_purgatory()
    ready: list[int] = []
    future = purgatory.hold(["a"], until=lambda: ready, timeout=1)
    assert isinstance(future, HoldFuture)
    operation: Any = future.operation
    for _ in range(2):
        assert not gc.is_tracked(future)
        assert is_seen_in_a_full_collection(future)
    ready.append(1)
    ENDS[end](purgatory, clock, operation)
    assert gc.is_tracked(future)
    assert future.done()


@needs_hiding
def test_what_a_running_thread_refers_to_stays_hidden_in_full_collections() -> None:
    """None of it is garbage: the thread has the purgatory, which has it all."""
    with DelayedOperationPurgatory("leaks") as purgatory:
        request = Request(60_000)
        purgatory.try_complete_else_watch(request, ["a"])
        future = purgatory.hold(["a"], until=lambda: False, timeout=60)
        while not purgatory._reaper.is_running:
            purgatory.timer.wake()
        assert not is_seen_in_a_full_collection(request)
        assert not is_seen_in_a_full_collection(future)
        assert not gc.is_tracked(request)
        assert not gc.is_tracked(future)
    assert not purgatory._reaper.is_running
    assert gc.is_tracked(request)
    assert gc.is_tracked(future)


@pytest.mark.skipif(not primitives.COMPILED, reason="interpreted, the collector sees all")
@pytest.mark.parametrize("has_thread", [True, False])
def test_full_collections_pass_over_the_tasks_of_a_timer_with_its_own_thread(
    has_thread: bool,
) -> None:
    timer = SystemTimer("leaks")
    payload = Payload()
    bucket = timer.call_later_ms(60_000, payload)._timer_list
    found: list[bool] = []

    def look(phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            found.append(payload in gc.get_referents(bucket))

    if has_thread:
        timer.start()
        while not timer._clock_thread.is_running:
            timer.wake()
    gc.callbacks.append(look)
    gc.collect()
    gc.callbacks.remove(look)
    assert found == [not has_thread]
    assert payload in gc.get_referents(bucket)
    timer.shutdown()


def test_operations_are_hidden_where_automatic_collections_may_be_full_ones() -> None:
    assert hiding.HIDES is (primitives.COMPILED and has_generations)


@needs_hiding
def test_full_collections_look_into_the_purgatories_that_no_thread_drives_alone() -> None:
    dropped, _ = hiding_purgatory()
    payload = Payload()
    payload.ring = dropped
    ghost = weakref.ref(dropped)
    dropped.try_complete_else_watch(Request(1_000, complete=payload), ["a"])
    with DelayedOperationPurgatory("leaks") as purgatory:
        purgatory.try_complete_else_watch(Request(60_000), ["a"])
        while not purgatory._reaper.is_running:
            purgatory.timer.wake()
        del dropped, payload
        gc.collect()
        assert ghost() is None


def test_collections_pass_over_what_waits_only_as_long_as_they_are_told() -> None:
    purgatory, _ = hiding_purgatory()
    request = Request(1_000)
    purgatory.try_complete_else_watch(request, ["a"])
    owners = [purgatory._table.shard_of("a"), request._timer_list]

    def found() -> list[bool]:
        return [request in gc.get_referents(owner) for owner in owners]

    usual = found()
    purgatory._pass_over(True)
    if primitives.COMPILED:
        assert usual == [True, True]
        assert found() == [False, False]
    purgatory._pass_over(False)
    assert found() == usual
    purgatory.close()


@needs_hiding
def test_request_that_checks_have_met_under_all_keys_is_not_hidden_any_more() -> None:
    purgatory, _ = hiding_purgatory(purge_interval=1_000_000)
    requests = [Request(1_000) for _ in range(2_002)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
        request.force_complete()
        assert not gc.is_tracked(request)
    assert purgatory.check_and_complete("a") == 0
    last = Request(1_000)
    purgatory.try_complete_else_watch(last, ["a"])
    for _ in range(2_001):
        extra = Request(1_000)
        purgatory.try_complete_else_watch(extra, ["b"])
        extra.force_complete()
    assert all(gc.is_tracked(request) for request in requests)
    assert not gc.is_tracked(last)


@needs_hiding
def test_request_is_not_hidden_once_its_timer_was_shut_down() -> None:
    purgatory, _ = hiding_purgatory()
    request = Request(1_000)
    purgatory.try_complete_else_watch(request, ["a"])
    assert purgatory.timer.shutdown() == [request]
    assert gc.is_tracked(request)


@needs_hiding
def test_collector_is_left_alone_once_no_purgatory_hides_anything() -> None:
    gc.collect()
    before = len(gc.callbacks)
    purgatory, _ = hiding_purgatory()
    other, _ = hiding_purgatory()
    assert len(gc.callbacks) <= before + 1
    request = Request(1_000)
    purgatory.try_complete_else_watch(request, ["a"])
    del other
    gc.collect()
    assert not gc.is_tracked(request)
    del purgatory, request
    gc.collect()
    gc.collect()
    assert len(gc.callbacks) <= before


def test_requests_that_are_hidden_keep_what_they_refer_to() -> None:
    purgatory, clock = hiding_purgatory()
    requests = []
    for _ in range(200):
        request = Request(10)
        payload = Payload()
        payload.ring = payload
        request.during["complete"] = payload
        requests.append(weakref.ref(payload))
        purgatory.try_complete_else_watch(request, ["a"])
        del payload, request
        gc.collect(0)
        gc.collect(1)
    assert all(ghost() is not None for ghost in requests)
    clock.advance(10)
    purgatory.advance_clock(0)
    purgatory.purge()
    gc.collect()
    assert [ghost() for ghost in requests] == [None] * 200


@needs_hiding
def test_collections_are_noticed_once_whatever_number_of_purgatories() -> None:
    for _ in range(3):
        purgatories = [
            DelayedOperationPurgatory("test", timer=make_timer()[0], reaper=False) for _ in range(3)
        ]
        assert [callback.__name__ for callback in gc.callbacks].count("_around_collections") == 1
        for purgatory in purgatories:
            purgatory.close()
        del purgatory, purgatories
    gc.callbacks.clear()
    purgatory = DelayedOperationPurgatory("test", timer=make_timer()[0], reaper=False)
    assert [callback.__name__ for callback in gc.callbacks] == ["_around_collections"]
    purgatory.close()


@needs_hiding
def test_purgatory_asks_to_be_called_again_when_others_emptied_the_callbacks() -> None:
    purgatory, _ = hiding_purgatory()
    request = Request(1_000)
    purgatory.try_complete_else_watch(request, ["a"])
    others = gc.callbacks[:]
    gc.callbacks.clear()
    assert not is_seen_in_a_full_collection(request)
    purgatory.purge()
    assert is_seen_in_a_full_collection(request)
    gc.callbacks[:] = others
    purgatory.close()


@pytest.mark.skipif(not primitives.COMPILED, reason="interpreted, no collection is noticed")
def test_collections_are_noticed_again_on_builds_that_hide_nothing_too() -> None:
    purgatory = DelayedOperationPurgatory("test", timer=make_timer()[0], reaper=False)
    others = gc.callbacks[:]
    gc.callbacks.clear()
    purgatory.purge()
    names = [callback.__name__ for callback in gc.callbacks]
    gc.callbacks[:] = others
    purgatory.close()
    assert names == ["_around_collections"]


def collect_twice_automatically() -> None:
    """Return after two full collections that the interpreter started by itself."""
    before = gc.get_stats()[2]["collections"]
    collect_automatically(lambda: gc.get_stats()[2]["collections"] >= before + 2)


COLLECTIONS: dict[str, Callable[[], object]] = {
    "none": lambda: None,
    "full": lambda: (gc.collect(), gc.collect()),
    "automatic": collect_twice_automatically,
}


@pytest.fixture(params=COLLECTIONS)
def collect(request: pytest.FixtureRequest) -> Callable[[], object]:
    """Return a function that carries out one kind of collection."""
    if request.param == "automatic" and not has_generations:
        pytest.skip("no automatic collection of this interpreter is a full one")
    return COLLECTIONS[request.param]


def test_collections_add_and_drop_no_reference_to_what_waits(
    collect: Callable[[], object],
) -> None:
    purgatory, _ = hiding_purgatory()
    requests = [Request(1 + number * 100) for number in range(20)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a", "b"])
    for request in requests[::2]:
        request.force_complete()
    before = [sys.getrefcount(request) for request in requests]
    collect()
    assert [sys.getrefcount(request) for request in requests] == before
    purgatory.close()


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]], ids=["one key", "two keys"])
@pytest.mark.parametrize("end", ENDS)
def test_request_that_has_left_is_freed_at_once(
    end: str, keys: list[str], collect: Callable[[], object]
) -> None:
    purgatory, clock = hiding_purgatory()
    request, payload = Request(1_000), Payload()
    ghost = weakref.ref(payload)
    request.during["try"] = payload
    purgatory.try_complete_else_watch(request, keys)
    collect()
    request.ready = True
    ENDS[end](purgatory, clock, request)
    assert request.is_completed
    if not purgatory.is_closed:
        purgatory.purge()
    del request, payload
    assert ghost() is None
    purgatory.close()


def test_requests_of_a_timer_that_was_shut_down_are_freed_at_once(
    collect: Callable[[], object],
) -> None:
    purgatory, _ = hiding_purgatory()
    request, payload = Request(1_000), Payload()
    ghost = weakref.ref(payload)
    request.during["try"] = payload
    purgatory.try_complete_else_watch(request, ["a"])
    collect()
    assert purgatory.timer.shutdown() == [request]
    assert purgatory._discard(request)
    del request, payload
    purgatory.purge()
    assert ghost() is None


def test_requests_that_checks_have_met_under_all_keys_are_freed_before_a_purge() -> None:
    purgatory, _ = hiding_purgatory(purge_interval=1_000_000)
    payload = Payload()
    ghost = weakref.ref(payload)
    for _ in range(2_000):
        request = Request(1_000)
        request.during["try"] = payload
        purgatory.try_complete_else_watch(request, ["a"])
        request.force_complete()
    purgatory.check_and_complete("a")
    del payload
    assert ghost() is not None
    for _ in range(2_000):
        extra = Request(1_000)
        purgatory.try_complete_else_watch(extra, ["b"])
        extra.force_complete()
    del request
    assert ghost() is None
    purgatory.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_requests_are_freed_at_once_in_a_forked_child(collect: Callable[[], object]) -> None:
    purgatory, _ = hiding_purgatory()
    request, payload = Request(1_000), Payload()
    ghost = weakref.ref(payload)
    request.during["try"] = payload
    purgatory.try_complete_else_watch(request, ["a", "b"])
    ended = Request(1_000)
    ended.during["try"] = payload
    purgatory.try_complete_else_watch(ended, ["a", "b"])
    ended.force_complete()
    collect()
    child = os.fork()
    if child == 0:
        del request, ended, payload
        os._exit(0 if ghost() is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    purgatory.close()


def test_purgatory_that_a_finalizer_brought_back_is_closed() -> None:
    kept: list[Request] = []

    class Kept(Request):
        def __del__(self) -> None:
            kept.append(self)

    def drop_a_ring() -> None:
        purgatory = DelayedOperationPurgatory("leaks", reaper=False)
        purgatory.try_complete_else_watch(Kept(), ["a"])

    drop_a_ring()
    gc.collect()
    request = kept.pop()
    purgatory = request._purgatory
    assert isinstance(purgatory, DelayedOperationPurgatory)
    assert (purgatory.is_closed, request.outcome, request.calls) == (True, "cancelled", [])
    with pytest.raises(PurgatoryClosedError):
        purgatory.try_complete_else_watch(Request(), ["a"])
