"""Sleeping and being woken, without a lock around either."""

from __future__ import annotations

import threading

import pytest

from request_purgatory._native.parker import Parker
from tests.support.thread_group import Crew


def test_wake_up_before_the_sleep_ends_it_at_once() -> None:
    """One token, however often it was put there."""
    parker = Parker()
    parker.unpark()
    parker.unpark()
    assert parker.has_token
    assert parker.park(None)
    assert not parker.has_token


@pytest.mark.parametrize("timeout", [0, -1, -1e9, 0.001])
def test_sleep_ends_with_its_time(timeout: float) -> None:
    """False says that nobody woke it; a time in the past only looks."""
    assert not Parker().park(timeout)


def test_sleep_longer_than_a_lock_can_wait(crew: Crew) -> None:
    """It is cut, and the caller looks again."""
    parker = Parker()
    crew.start(parker.park, 1e300)
    parker.unpark()
    crew.join()


def test_threads_that_wake_at_once_leave_one_token(crew: Crew, switching: None) -> None:
    """None of them fails because another one was quicker."""
    parker = Parker()
    woken = []

    def wake() -> None:
        for _ in range(2_000):
            parker.unpark()

    def sleep() -> None:
        while not done.is_set():
            woken.append(parker.park(0.01))

    done = threading.Event()
    sleeper = crew.start(sleep)
    threads = [crew.start(wake) for _ in range(4)]
    for thread in threads:
        thread.join(20)
    done.set()
    parker.unpark()
    sleeper.join(20)
    crew.join()
    assert any(woken)
