"""What a purgatory keeps, says and refuses at its end."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
    SystemTimer,
)
from request_purgatory.purgatory.core import checked_keys
from tests.conftest import MakePurgatory
from tests.support.interleaving import (
    InterleavedClock,
    interleave_lists,
    interleave_tasks,
    interpreted_only,
)
from tests.support.invariants import check_invariants
from tests.support.requests import Request


def test_number_of_cancelled_operations_is_logged(
    purgatory: DelayedOperationPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "request_purgatory")
    for _ in range(3):
        purgatory.try_complete_else_watch(Request(), ["a"])
    purgatory.close()
    assert [record.getMessage() for record in caplog.records] == [
        "purgatory 'test': closed with 3 operations pending, now cancelled"
    ]
    purgatory.close()
    assert len(caplog.records) == 1


def test_purge_is_logged(
    make_wheel_purgatory: MakePurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    purgatory = make_wheel_purgatory()
    caplog.set_level(logging.DEBUG, "request_purgatory")
    request = Request()
    purgatory.try_complete_else_watch(request, ["a", "b"])
    request.force_complete()
    assert purgatory.purge() == 2
    assert [record.getMessage() for record in caplog.records] == [
        "purgatory 'test': purged 2 entries"
    ]


def test_closed_purgatory_keeps_no_operation_that_has_ended(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request()
    ghost = weakref.ref(request)
    purgatory.try_complete_else_watch(request, ["a"])
    request.force_complete()
    del request
    assert ghost() is not None
    purgatory.close()
    assert ghost() is None


def test_purgatory_that_is_dropped_cancels_without_a_word(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    purgatory.__del__()
    assert (request.outcome, request.calls, timer.size) == ("cancelled", [], 0)
    assert purgatory.is_closed
    with pytest.raises(PurgatoryClosedError):
        purgatory.try_complete_else_watch(Request(), ["a"])


@interpreted_only
def test_operation_that_a_close_has_cancelled_meanwhile_is_no_error(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    request = Request()
    interleave_tasks(timer).before(1, purgatory.close)
    assert purgatory.try_complete_else_watch(request, ["a"]) is False
    assert request.calls == ["cancellation"]
    check_invariants(purgatory)


def test_operation_that_ends_before_it_is_counted_has_not_waited() -> None:
    clock = InterleavedClock()
    timer = SystemTimer("test", clock=clock)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        request = Request()
        clock.interrupt = request.force_complete
        assert purgatory.try_complete_else_watch(request, ["a"]) is False
        metrics = purgatory.metrics()
        assert (metrics.completions, metrics.total_wait_ms) == (1, 0)
        assert metrics.wait_histogram_ms[0] == 1


def test_request_that_enters_finds_that_a_purge_is_due(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory(purge_interval=1000)
    for _ in range(3):
        request = Request()
        purgatory.try_complete_else_watch(request, ["a"])
        request.cancel()
    purgatory.purge_interval = 1
    assert not purgatory._purge_requested
    purgatory.try_complete_else_watch(Request(), ["a"])
    assert purgatory._purge_requested


@pytest.mark.parametrize("keys", [["a", "b"], ("a", "b")])
def test_keys_in_a_list_are_not_copied(keys: object) -> None:
    assert checked_keys("keys", keys) is keys  # type: ignore[arg-type]


def test_operation_that_is_its_own_key_is_freed_with_the_table(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory()
    request = Request()
    ghost = weakref.ref(request)
    purgatory.try_complete_else_watch(request, [request, "another"])
    gc.disable()
    try:
        purgatory.close()
        del request
        assert ghost() is None
    finally:
        gc.enable()


@interpreted_only
def test_watch_that_another_thread_removes_first_is_not_counted(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory(shards=1)
    request = Request()
    purgatory.try_complete_else_watch(request, ["a", "b"])
    shard = purgatory._table.shard_of("a")
    lock = interleave_lists(shard)
    watchers = shard.get("b")
    assert watchers is not None
    lock.before(1, lambda: shard.drop(watchers, request))
    assert purgatory._table.drop_watches(request) == 1
    assert not lock._lock.locked()
    assert purgatory.watched == 0
