"""The parker: sleeping and waking without a lock."""

from __future__ import annotations

import threading

import pytest

from request_purgatory._native.parker import Parker
from tests.support.sleeping_threads import has_token
from tests.support.thread_group import ThreadGroup


def test_wake_up_before_the_sleep_ends_it_at_once() -> None:
    parker = Parker()
    parker.unpark()
    parker.unpark()
    assert has_token(parker)
    assert parker.park(None)
    assert not has_token(parker)


@pytest.mark.parametrize("timeout", [0, -1, -1e9, 0.001])
def test_sleep_ends_with_its_time(timeout: float) -> None:
    assert not Parker().park(timeout)


def test_sleep_longer_than_a_lock_can_wait(thread_group: ThreadGroup) -> None:
    parker = Parker()
    thread_group.start(parker.park, 1e300)
    parker.unpark()
    thread_group.join()


def test_concurrent_wake_ups_leave_one_token(thread_group: ThreadGroup, switching: None) -> None:
    parker = Parker()
    woken = []

    def wake() -> None:
        for _ in range(2_000):
            parker.unpark()

    def sleep() -> None:
        while not done.is_set():
            woken.append(parker.park(0.01))

    done = threading.Event()
    sleeper = thread_group.start(sleep)
    threads = [thread_group.start(wake) for _ in range(4)]
    for thread in threads:
        thread.join(20)
    done.set()
    parker.unpark()
    sleeper.join(20)
    thread_group.join()
    assert any(woken)
