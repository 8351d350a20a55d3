"""A dropped request, handle, timer or purgatory is freed, whatever ring it was part of."""

from __future__ import annotations

import gc
import logging
import os
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
    SystemTimer,
    TimerHandle,
    TimerTask,
)
from request_purgatory._native import hiding
from request_purgatory.legacy import LegacyPurgatory
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail


class Payload:
    """Something that a callback refers to, which may refer to anything."""

    def __init__(self) -> None:
        self.ring: object = None

    def __call__(self, *args: object) -> None:
        """Do nothing, as a callback."""


@pytest.fixture(autouse=True)
def collector_at_rest() -> Iterator[None]:
    """Collect only where the test asks for it, so that nothing is freed by chance."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def make_timer() -> tuple[SystemTimer, ManualClock]:
    clock = ManualClock()
    return SystemTimer("leaks", clock=clock), clock


def blocks_kept(step: Callable[[], object], rounds: int = 2_000) -> int:
    """How many more memory blocks the process has after many rounds of `step` than after a few."""
    for _ in range(50):
        step()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(rounds):
        step()
    gc.collect()
    return sys.getallocatedblocks() - before


# -- handles


def test_what_a_handle_refers_to_goes_when_it_fires_or_is_cancelled() -> None:
    timer, clock = make_timer()
    fired, cancelled = Payload(), Payload()
    ghosts = [weakref.ref(fired), weakref.ref(cancelled)]
    handles = [timer.call_later_ms(10, fired, fired), timer.call_later_ms(10, cancelled, cancelled)]
    del fired, cancelled
    handles[1].cancel()
    clock.advance(10)
    timer.advance_clock(0)
    assert [ghost() for ghost in ghosts] == [None, None]
    assert all(handle.delay_ms == 10 for handle in handles)


def test_handles_come_and_go_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Fired, cancelled, forgotten before they fired, and with a callback that raises.

    No block of memory stays.
    """
    timer, clock = make_timer()
    caplog.set_level(logging.CRITICAL)

    def step() -> None:
        timer.call_later_ms(1, Payload())
        timer.call_later_ms(1, Payload(), 1, 2).cancel()
        timer.call_later_ms(1, fail)
        timer.call_later_ms(70_000, Payload()).cancel()
        clock.advance(1)
        timer.advance_clock(0)

    assert blocks_kept(step) < 100
    assert timer.size == 0


def test_timer_that_is_dropped_with_handles_pending_takes_them_along() -> None:
    timer, _ = make_timer()
    payload = Payload()
    ghost = weakref.ref(payload)
    for number in range(100_000):
        timer.call_later_ms(1 + number * 7, payload)
    gone = weakref.ref(timer)
    del timer, payload
    gc.collect()
    assert (gone(), ghost()) == (None, None)


def test_ring_through_a_callback_is_found() -> None:
    """The timer holds the handle, the handle the callback, the callback the timer.

    Only the collector can see that.
    """
    timer, _ = make_timer()
    payload = Payload()
    payload.ring = timer
    ghosts = [weakref.ref(timer), weakref.ref(payload)]
    timer.call_later_ms(10, payload)
    timer.call_later_ms(50_000, payload.__call__, timer)
    timer.call_later_ms(10, timer.advance_clock, 0)
    del timer, payload
    assert any(ghost() is not None for ghost in ghosts), (
        "no ring was made: this would prove nothing"
    )
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None]


def test_ring_through_a_task_of_a_subclass_is_found() -> None:
    class Task(TimerTask):
        ring: object

        def run(self) -> None:
            """Never called here."""

    timer, _ = make_timer()
    ghost = weakref.ref(timer)
    for delay_ms in (10, 10, 10, 900):
        task = Task(delay_ms)
        task.ring = timer
        timer.add(task)
        timer.call_later_ms(delay_ms, task.cancel)
    del timer, task
    gc.collect()
    assert ghost() is None


def test_handle_that_is_kept_survives_its_timer() -> None:
    timer, _ = make_timer()
    first, second = timer.call_later_ms(10, fail), timer.call_later_ms(10, fail)
    ghost = weakref.ref(timer)
    del timer
    gc.collect()
    assert ghost() is None
    assert isinstance(first, TimerHandle)
    assert (first.cancel(), second.cancel()) == (False, False)
    assert "delay_ms=10" in repr(first)


def test_handle_that_is_kept_keeps_what_it_refers_to() -> None:
    """The collector must not take a callback apart that a handle still has.

    Once the handle goes, all goes.
    """
    timer, clock = make_timer()
    payload = Payload()
    payload.ring = timer
    ghost = weakref.ref(payload)
    handle = timer.call_later_ms(10, payload)
    timer.call_later_ms(10, fail)
    del timer, payload
    gc.collect()
    kept = ghost()
    assert kept is not None
    timer = kept.ring  # type: ignore[assignment]
    assert isinstance(timer, SystemTimer)
    assert handle.cancel()
    assert (timer.size, clock.now_ms) == (1, 0)
    del timer, kept
    gc.collect()
    assert ghost() is None


def test_collections_while_handles_are_pending_change_nothing() -> None:
    timer, clock = make_timer()
    payload = Payload()
    payload.ring = timer
    called: list[int] = []
    handles = [
        timer.call_later_ms(1 + number % 500, called.append, number) for number in range(1_000)
    ]
    timer.call_later_ms(40, payload)
    del payload
    for _ in range(3):
        gc.collect()
        check_invariants(timer)
    for handle in handles[::2]:
        handle.cancel()
    clock.advance(500)
    timer.advance_clock(0)
    assert sorted(called) == list(range(1, 1_000, 2))


# -- operations


@pytest.mark.parametrize("design", [DelayedOperationPurgatory, LegacyPurgatory])
def test_requests_come_and_go_without_a_trace(design: type[DelayedOperationPurgatory]) -> None:
    clock = ManualClock()
    purgatory: DelayedOperationPurgatory
    if design is LegacyPurgatory:
        purgatory = LegacyPurgatory("leaks", clock=clock, purge_interval=0, reaper=False)
    else:
        purgatory = DelayedOperationPurgatory(
            "leaks", timer=SystemTimer("leaks", clock=clock), purge_interval=0, reaper=False
        )

    def step() -> None:
        completed, expired, cancelled = Request(1_000), Request(1), Request(1_000)
        for request in (completed, expired, cancelled):
            purgatory.try_complete_else_watch(request, ["a", ("b", 1)])
        completed.ready = True
        purgatory.check_and_complete("a")
        cancelled.cancel()
        clock.advance(1)
        purgatory.advance_clock(0)
        purgatory.purge()

    assert blocks_kept(step, 500) < 100
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_request_is_freed_when_it_was_answered() -> None:
    purgatory = DelayedOperationPurgatory("leaks", timer=make_timer()[0], reaper=False)
    payload = Payload()
    ghost = weakref.ref(payload)

    class Holding(DelayedOperation):
        payload: Payload
        ready = False

        def try_complete(self) -> bool:
            return self.ready and self.force_complete()

        def on_complete(self) -> None:
            """Nothing to do."""

    request = Holding(10)
    request.payload = payload
    purgatory.try_complete_else_watch(request, ["a"])
    request.ready = True
    purgatory.check_and_complete("a")
    del request, payload
    assert ghost() is None


@pytest.mark.parametrize("keys", [["a"], ["a", "b", "b", ("c", 1)]])
def test_purgatory_that_is_dropped_with_requests_pending_takes_them_along(
    keys: list[object],
) -> None:
    timer, _ = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)
    payload = Payload()
    payload.ring = purgatory
    ghosts: list[weakref.ref[object]] = [
        weakref.ref(timer),
        weakref.ref(purgatory),
        weakref.ref(payload),
    ]
    for number in range(50):
        request = Request(10 + number * 100)
        request.during["complete"] = payload
        purgatory.try_complete_else_watch(request, keys)
    del timer, purgatory, payload, request
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None, None]


def test_ring_through_a_watch_key_is_found() -> None:
    timer, _ = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)
    ghosts: list[weakref.ref[object]] = [weakref.ref(timer), weakref.ref(purgatory)]
    wait: Future[object] = Future()
    purgatory.gather([wait], timeout=1)
    del timer, purgatory, wait
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None]


@pytest.mark.parametrize("keys", [[], ["a"]], ids=["one key", "two keys"])
@pytest.mark.parametrize(
    "end", ["a check", "time", "its owner", "discard", "its key's end", "shutdown", "refusal"]
)
def test_request_that_is_its_own_key_is_freed(end: str, keys: list[object]) -> None:
    timer, clock = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)
    payload = Payload()
    ghost = weakref.ref(payload)
    ends: dict[str, Callable[[Request], object]] = {
        "a check": purgatory.check_and_complete,
        "time": lambda _request: (clock.advance(10), purgatory.advance_clock(0)),
        "its owner": Request.force_complete,
        "discard": purgatory._discard,
        "its key's end": purgatory.cancel_for_key,
        "shutdown": lambda _request: purgatory.close(),
    }
    request = Request(10, complete=payload)
    del payload
    if end == "refusal":
        request.during["try"] = fail
        with pytest.raises(Fault):
            purgatory.try_complete_else_watch(request, [request, *keys])
    else:
        purgatory.try_complete_else_watch(request, [request, *keys])
        request.ready = True
        ends[end](request)
    assert request.is_completed
    del request
    purgatory.purge()
    gc.collect()
    assert ghost() is None


def test_ring_through_a_request_that_its_caller_holds_is_found() -> None:
    timer, clock = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)

    def expire(request: Request) -> None:
        clock.advance(10)
        request.run()

    ghosts: list[weakref.ref[object]] = [weakref.ref(purgatory)]
    for end in (Request.force_complete, Request.cancel, expire, None):
        request, payload = Request(10), Payload()
        payload.ring = (request, purgatory)
        request.during["complete"] = payload
        ghosts.append(weakref.ref(payload))
        purgatory.try_complete_else_watch(request, ["a", "b"])
        if end is not None:
            end(request)
    del timer, purgatory, request, payload, expire
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None] * 5


# -- collections that the interpreter starts by itself


def collect_automatically(enough: Callable[[], bool]) -> None:
    """Allocate until `enough` is true, so that the interpreter starts full collections by itself.

    It does so once the objects that survived are a quarter more than at the last one.

    Args:
        enough: Called now and then.
    """
    kept: list[object] = []
    most = 2 * len(gc.get_objects()) + 1_000_000
    gc.enable()
    try:
        while len(kept) < most and not enough():
            kept.extend([] for _ in range(1_000))
    finally:
        gc.disable()
    assert enough(), f"no collection did it within {most:,} allocations"


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]], ids=["one key", "two keys"])
def test_automatic_collection_finds_a_dropped_ring(keys: list[str]) -> None:
    timer, _ = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)
    payload = Payload()
    payload.ring = purgatory
    ghosts = [weakref.ref(purgatory), weakref.ref(payload)]
    purgatory.try_complete_else_watch(Request(1_000, complete=payload), keys)
    del timer, purgatory, payload
    assert all(ghost() is not None for ghost in ghosts), "no ring: this would prove nothing"
    collect_automatically(lambda: all(ghost() is None for ghost in ghosts))


# -- hiding: what waits is no work for the collector, but in a full collection

needs_hiding = pytest.mark.skipif(
    not hiding.HIDES, reason="this build hides nothing from the collector"
)


def hiding_purgatory(purge_interval: int = 1000) -> tuple[DelayedOperationPurgatory, ManualClock]:
    timer, clock = make_timer()
    return DelayedOperationPurgatory(
        "leaks", timer=timer, purge_interval=purge_interval, reaper=False
    ), clock


def is_seen_in_a_full_collection(request: Request) -> bool:
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
def test_request_that_checks_have_met_under_all_keys_is_not_hidden_any_more() -> None:
    purgatory, _ = hiding_purgatory(purge_interval=1_000_000)
    requests = [Request(1_000) for _ in range(1_002)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
        request.force_complete()
        assert not gc.is_tracked(request)
    assert purgatory.check_and_complete("a") == 0
    last = Request(1_000)
    purgatory.try_complete_else_watch(last, ["a"])
    for _ in range(1_001):
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


def collect_twice_automatically() -> None:
    """Return after two full collections that the interpreter started by itself."""
    before = gc.get_stats()[2]["collections"]
    collect_automatically(lambda: gc.get_stats()[2]["collections"] >= before + 2)


COLLECTIONS: dict[str, Callable[[], object]] = {
    "none": lambda: None,
    "full": lambda: (gc.collect(), gc.collect()),
    "automatic": collect_twice_automatically,
}
# Free-threaded builds have one generation; from 3.14.0 to 3.14.4 the collector is incremental.
has_generations = not sysconfig.get_config_var("Py_GIL_DISABLED") and not (
    (3, 14) <= sys.version_info < (3, 14, 5)
)


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
    for _ in range(1_000):
        request = Request(1_000)
        request.during["try"] = payload
        purgatory.try_complete_else_watch(request, ["a"])
        request.force_complete()
    purgatory.check_and_complete("a")
    del payload
    assert ghost() is not None
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
