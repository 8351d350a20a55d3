"""One interface for threads and asyncio, and what it accepts and answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import request_purgatory
from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    OperationCancelledError,
    PurgatoryClosedError,
    aio,
)
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.purgatory._holds_requests import HoldsRequests, documented
from tests.support.invariants import check_invariants
from tests.support.pending import watch
from tests.support.requests import Request
from tests.unit.aio.virtual import run

SHARED = (
    *("hold", "gather", "notify", "notify_many", "cancel_for_key", "renew", "close"),
    *("try_complete_else_watch", "check_and_complete", "metrics", "num_watchers", "snapshot"),
)


@pytest.mark.parametrize("name", SHARED)
def test_both_hosts_take_the_same_arguments(name: str) -> None:
    # All but `self`, which compiled methods take by position only.
    of_threads = list(
        inspect.signature(getattr(DelayedOperationPurgatory, name)).parameters.values()
    )
    of_asyncio = list(inspect.signature(getattr(aio.Purgatory, name)).parameters.values())
    assert [(each.name, each.kind, each.default) for each in of_threads[1:]] == [
        (each.name, each.kind, each.default) for each in of_asyncio[1:]
    ]


def test_class_of_a_host_gets_the_docstrings_of_the_methods_that_it_has() -> None:
    class Host:
        def hold(self) -> None:
            """Return nothing."""

        def other(self) -> None:
            """Stay."""

    assert documented(Host) is Host
    assert Host.hold.__doc__ == HoldsRequests.hold.__doc__
    assert Host.other.__doc__ == "Stay."
    assert not hasattr(Host, "gather")


def test_no_key_at_all_may_be_notified() -> None:
    with DelayedOperationPurgatory(reaper=False) as purgatory:
        request = watch(purgatory, "a")
        purgatory.notify_many([])
        assert request.tries == 1


# Each case: what ends a `hold`, and the error that its future raises on both hosts.
ENDS: dict[str, tuple[Callable[[Any], object], type[BaseException]]] = {
    "timeout": (lambda purgatory: None, TimeoutError),
    "key": (lambda purgatory: purgatory.cancel_for_key("a"), OperationCancelledError),
    "close": (lambda purgatory: purgatory.close(), PurgatoryClosedError),
    "condition": (lambda purgatory: purgatory.notify("a"), ZeroDivisionError),
    "iteration": (lambda purgatory: purgatory.notify("a"), RuntimeError),
}


@pytest.mark.parametrize("end", ENDS)
def test_both_hosts_raise_the_same_errors(end: str) -> None:
    act, error = ENDS[end]
    raised: list[BaseException] = []
    if end == "condition":
        raised = [ZeroDivisionError()]
    elif end == "iteration":
        raised = [StopIteration()]

    def make_condition() -> Callable[[], bool]:
        looks = iter([False])

        def until() -> bool:
            for look in looks:
                return look
            if raised:
                raise raised[0]
            return False

        return until

    clock = ManualClock()
    timer = request_purgatory.SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory(timer=timer, reaper=False)
    held = purgatory.hold(["a"], until=make_condition(), timeout=1)
    act(purgatory)
    clock.advance(1000)
    timer.advance_clock(0)
    assert type(held.exception(0)) is error

    async def hold() -> None:
        async with aio.Purgatory() as purgatory:
            held = purgatory.hold(["a"], until=make_condition(), timeout=1)
            act(purgatory)
            with pytest.raises(error):
                await held

    run(hold)


def test_name_is_optional() -> None:
    purgatories = [
        DelayedOperationPurgatory(reaper=False),
        LegacyPurgatory(reaper=False),
        aio.Purgatory(),
    ]
    assert [purgatory.name for purgatory in purgatories] == ["purgatory"] * 3


@pytest.mark.parametrize("answer", [0, "", [], False])
def test_falsy_answer_needs_a_sentinel(
    purgatory: DelayedOperationPurgatory, answer: object
) -> None:
    answers: list[Any] = [None]
    by_truth = purgatory.hold(["a"], until=lambda: answers[-1], timeout=1)
    by_sentinel = purgatory.hold(["a"], until=lambda: answers[-1], timeout=1, not_yet=None)
    answers.append(answer)
    purgatory.notify("a")
    assert (by_truth.done(), by_sentinel.result(0)) == (False, answer)
    answers.append("truth")
    purgatory.notify("a")
    assert by_truth.result(0) == "truth"


@pytest.mark.parametrize(
    ("timeout", "timeout_ms"), [(timedelta(milliseconds=20), 20), (0.02, 20), (1, 1000)]
)
def test_timeout_is_seconds_or_a_timedelta(
    purgatory: DelayedOperationPurgatory,
    clock: ManualClock,
    timeout: float | timedelta,
    timeout_ms: int,
) -> None:
    held = purgatory.hold(["a"], until=lambda: False, timeout=timeout)
    clock.advance(timeout_ms - 1)
    purgatory.advance_clock(0)
    assert not held.done()
    clock.advance(1)
    purgatory.advance_clock(0)
    assert isinstance(held.exception(0), TimeoutError)


def test_no_timeout_waits_without_a_limit(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    held = [purgatory.hold(["a"], until=lambda: False) for _ in range(2)]
    clock.advance(365 * 24 * 3_600_000)
    purgatory.advance_clock(0)
    assert [each.done() for each in held] == [False, False]


def test_notify_many_tries_each_key_once(purgatory: DelayedOperationPurgatory) -> None:
    requests = [watch(purgatory, key) for key in "abc"]
    purgatory.notify_many(["a", "b", "a"])
    assert [request.tries for request in requests] == [2, 2, 1]
    with pytest.raises(InvalidArgumentError, match="keys must be a list of keys, not one string"):
        purgatory.notify_many("ab")


def test_notify_many_goes_on_after_an_error(purgatory: DelayedOperationPurgatory) -> None:
    def leave() -> None:
        raise SystemExit(3)

    first, second = watch(purgatory, "a"), watch(purgatory, "b")
    first.during["try"] = leave
    with pytest.raises(SystemExit):
        purgatory.notify_many(["a", "b"])
    assert second.tries == 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: DelayedOperationPurgatory("p", reaper=False),
            "<DelayedOperationPurgatory 'p' pending=0>",
        ),
        (lambda: LegacyPurgatory("p", reaper=False), "<LegacyPurgatory 'p' pending=0>"),
        (lambda: aio.Purgatory("p"), "<request_purgatory.aio.purgatory.Purgatory 'p' not entered>"),
    ],
)
def test_repr_has_the_name_and_the_state(make: Callable[[], object], text: str) -> None:
    assert repr(make()) == text


def test_repr_of_a_closed_purgatory_says_so(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.close()
    assert repr(purgatory).endswith(" 'test' closed>")


# -- leases


def test_renewed_operation_expires_later(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    lease = watch(purgatory, "a", 100)
    clock.advance(90)
    assert purgatory.renew(lease, 0.1) is True
    clock.advance(99)
    purgatory.advance_clock(0)
    assert lease.outcome is None
    assert purgatory.num_delayed == 1
    clock.advance(1)
    purgatory.advance_clock(0)
    assert (lease.outcome, lease.calls) == ("expired", ["complete", "expiration"])
    assert purgatory.renew(lease, 0.1) is False
    check_invariants(purgatory)


def test_lease_may_be_renewed_for_a_shorter_time(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    lease = watch(purgatory, "a", 60_000)
    assert purgatory.renew(lease, timedelta(milliseconds=20))
    assert lease.timeout_ms == 20
    clock.advance(20)
    purgatory.advance_clock(0)
    assert lease.outcome == "expired"


def test_operation_renewed_in_its_first_try_enters_with_that_timeout(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    renewed: list[bool] = []
    lease = Request(60_000)
    lease.during["try"] = lambda: renewed.append(purgatory.renew(lease, 0.02))
    purgatory.try_complete_else_watch(lease, ["a"])
    assert (renewed, lease.timeout_ms) == ([True], 20)
    clock.advance(19)
    purgatory.advance_clock(0)
    assert lease.outcome is None
    clock.advance(1)
    purgatory.advance_clock(0)
    assert lease.outcome == "expired"
    check_invariants(purgatory)


def test_operation_renewed_while_it_falls_due_stays_pending(
    make_wheel_purgatory: Callable[..., DelayedOperationPurgatory], clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory()
    lease = Request(10)
    other = Request(10)
    other.during["complete"] = lambda: purgatory.renew(lease, 1)
    for request in (other, lease):
        purgatory.try_complete_else_watch(request, ["a"])
    clock.advance(10)
    purgatory.advance_clock(0)
    assert (other.outcome, lease.outcome) == ("expired", None)
    # As an executor that was handed the expiration before the renewal.
    lease.run()
    assert (lease.outcome, purgatory.num_delayed) == (None, 1)
    clock.advance(1000)
    purgatory.advance_clock(0)
    assert lease.outcome == "expired"
    check_invariants(purgatory)


def test_renewal_of_another_purgatorys_operation_is_refused(
    purgatory: DelayedOperationPurgatory,
) -> None:
    with pytest.raises(InvalidArgumentError, match="operation must be one of purgatory 'test'"):
        purgatory.renew(Request(10), 1)
    with pytest.raises(InvalidArgumentError, match="timeout must be seconds or a timedelta"):
        purgatory.renew(watch(purgatory, "a"), "1")  # type: ignore[arg-type]


def test_renewal_after_the_close_renews_nothing(purgatory: DelayedOperationPurgatory) -> None:
    lease = watch(purgatory, "a")
    purgatory.close()
    assert purgatory.renew(lease, 1) is False


def test_lease_on_an_event_loop_moves_its_alarm() -> None:
    async def renew() -> list[float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        ended: list[float] = []
        async with aio.Purgatory() as purgatory:
            longer, shorter = Request(100), Request(60_000)
            waits = [purgatory.wait(longer, ["a"]), purgatory.wait(shorter, ["a"])]
            await asyncio.sleep(0.09)
            assert purgatory.renew(longer, 0.5) is True
            assert purgatory.renew(shorter, 0.2) is True
            for wait in waits[::-1]:
                assert await wait == "expired"
                ended.append(round(loop.time() - began, 3))
            assert purgatory.renew(longer, 0.5) is False
        return ended

    assert run(renew) == [0.29, 0.59]
