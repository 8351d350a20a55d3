"""The reaper: the purgatory's own clock thread, on virtual time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer
from request_purgatory.legacy import LegacyPurgatory
from tests.support.requests import Request
from tests.support.sleeping_threads import SleepRecordingClock
from tests.support.thread_group import ThreadGroup

TIME_LIMIT = 20.0


@pytest.fixture
def sleeper_clock() -> SleepRecordingClock:
    """Return a manual clock that records the threads that sleep on it."""
    return SleepRecordingClock()


@pytest.fixture
def reaped(sleeper_clock: SleepRecordingClock) -> Iterator[DelayedOperationPurgatory]:
    """Return a purgatory of the new design with a reaper that sleeps."""
    timer = SystemTimer("test", clock=sleeper_clock)
    with DelayedOperationPurgatory("test", timer=timer, purge_interval=3) as purgatory:
        sleeper_clock.wait_for_sleep(1)
        yield purgatory


class Told(Request):
    """A request whose end can be waited for."""

    def __init__(self, delay_ms: int = 1000) -> None:
        super().__init__(delay_ms)
        self.told = threading.Event()
        self.thread = ""

    def on_expiration(self) -> None:
        super().on_expiration()
        self.thread = threading.current_thread().name
        self.told.set()


@pytest.mark.parametrize("design", ["wheel", "legacy"])
def test_reaper_expires_when_the_clock_moves(
    sleeper_clock: SleepRecordingClock, design: str
) -> None:
    purgatory = (
        LegacyPurgatory("test", clock=sleeper_clock)
        if design == "legacy"
        else DelayedOperationPurgatory("test", timer=SystemTimer("test", clock=sleeper_clock))
    )
    with purgatory:
        requests = [Told(delay_ms) for delay_ms in (10, 50, 3_600_000)]
        for request in requests:
            purgatory.try_complete_else_watch(request, ["a"])
        sleeper_clock.advance(10)
        assert requests[0].told.wait(TIME_LIMIT)
        assert [request.outcome for request in requests] == ["expired", None, None]
        sleeper_clock.advance(3_600_000)
        assert requests[1].told.wait(TIME_LIMIT)
        assert requests[2].told.wait(TIME_LIMIT)
        assert {request.thread for request in requests} == {"test-reaper"}
        assert purgatory.num_delayed == 0


def test_idle_reaper_sleeps_without_a_limit(
    sleeper_clock: SleepRecordingClock, reaped: DelayedOperationPurgatory
) -> None:
    """It asked to be woken by nothing but a notification, and nothing has woken it.

    It can't use CPU.
    """
    assert sleeper_clock.sleeps == [None]
    assert (sleeper_clock.asleep, reaped.num_delayed) == (1, 0)


def test_reaper_with_something_pending_sleeps_until_its_bucket(
    sleeper_clock: SleepRecordingClock, reaped: DelayedOperationPurgatory
) -> None:
    reaped.try_complete_else_watch(Request(15), ["a"])
    assert sleeper_clock.wait_for_sleep(2) == 15
    requests = [Request(delay_ms) for delay_ms in (15, 16, 19)]
    for request in requests:
        reaped.try_complete_else_watch(request, ["b"])
        request.ready = True
    assert reaped.check_and_complete("b") == 3
    assert sleeper_clock.asleep == 1
    assert sleeper_clock.sleeps == [None, 15]


def test_sleeping_reaper_is_woken_by_an_earlier_request(
    sleeper_clock: SleepRecordingClock, reaped: DelayedOperationPurgatory
) -> None:
    reaped.try_complete_else_watch(Told(15), ["a"])
    assert sleeper_clock.wait_for_sleep(2) == 15
    early = Told(5)
    reaped.try_complete_else_watch(early, ["a"])
    assert sleeper_clock.wait_for_sleep(3) == 5
    sleeper_clock.advance(5)
    assert early.told.wait(TIME_LIMIT)


def test_reaper_is_woken_for_a_purge(
    sleeper_clock: SleepRecordingClock, reaped: DelayedOperationPurgatory
) -> None:
    requests = [Request() for _ in range(4)]
    for request in requests:
        reaped.try_complete_else_watch(request, ["a", "b"])
    sleeper_clock.wait_for_sleep(2)  # The first request has told it when its time is over.
    for request in requests[:3]:
        request.force_complete()
    assert (sleeper_clock.asleep, reaped.metrics().purges) == (1, 0)
    requests[3].force_complete()
    sleeper_clock.wait_for_sleep(3)
    assert (reaped.metrics().purges, reaped.watched) == (1, 0)


def test_reaper_is_woken_for_every_purge(
    sleeper_clock: SleepRecordingClock, reaped: DelayedOperationPurgatory
) -> None:
    for round_number in range(1, 20):
        requests = [Request() for _ in range(4)]
        for request in requests:
            reaped.try_complete_else_watch(request, ["a", "b"])
        for request in requests:
            request.force_complete()
        sleeps = 1
        while reaped.metrics().purges < round_number:
            sleeper_clock.wait_for_sleep(sleeps)
            sleeps = len(sleeper_clock.sleeps) + 1
    assert reaped.metrics().purges >= 19


@pytest.mark.parametrize("taker", ["its own thread", "another reaper"])
def test_reaper_is_woken_for_a_purge_whatever_else_sleeps_on_its_timer(
    sleeper_clock: SleepRecordingClock, taker: str
) -> None:
    timer = SystemTimer("test", clock=sleeper_clock)
    with ExitStack() as stack:
        if taker == "its own thread":
            stack.enter_context(timer)
        else:
            stack.enter_context(DelayedOperationPurgatory("other", timer=timer))
        sleeper_clock.wait_for_sleep(1)
        purgatory = stack.enter_context(
            DelayedOperationPurgatory("test", timer=timer, purge_interval=0)
        )
        for number in range(10):
            slept = len(sleeper_clock.sleeps)
            request = Request()
            purgatory.try_complete_else_watch(request, ["a", "b"])
            request.force_complete()
            while purgatory.metrics().purges <= number:
                sleeper_clock.wait_for_sleep(slept + 1)
                slept += 1
            assert purgatory.watched == 0
    timer.shutdown()


def test_purge_that_was_requested_before_keeps_no_thread_asleep(
    clock: ManualClock, thread_group: ThreadGroup
) -> None:
    timer = SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False, purge_interval=0)
    request = Request()
    purgatory.try_complete_else_watch(request, ["a", "b"])
    request.force_complete()
    assert purgatory._purge_requested
    thread_group.start(purgatory.advance_clock, None)
    thread_group.join()
    assert (purgatory.watched, purgatory._purge_requested) == (0, False)
    purgatory.close()


def test_purge_request_that_came_to_nothing_is_not_the_last(
    sleeper_clock: SleepRecordingClock, reaped: DelayedOperationPurgatory
) -> None:
    """The reaper found that no purge was due any more.

    It is woken all the same when the next one is.
    """
    inside, release = threading.Event(), threading.Event()

    class Busy(Request):
        def on_expiration(self) -> None:
            inside.set()
            assert release.wait(TIME_LIMIT)

    requests = [Request() for _ in range(10)]
    for request in [Busy(1), *requests]:
        reaped.try_complete_else_watch(request, ["a", "b"])
    sleeper_clock.advance(1)
    assert inside.wait(TIME_LIMIT)
    slept = len(sleeper_clock.sleeps)
    for request in requests[:5]:
        request.force_complete()
    reaped.purge_interval = 1_000
    release.set()
    sleeper_clock.wait_for_sleep(slept + 1)
    assert reaped.metrics().purges == 0
    reaped.purge_interval = 3
    requests[5].force_complete()
    sleeper_clock.wait_for_sleep(slept + 2)
    assert (reaped.metrics().purges, reaped.watched) == (1, 8)


def test_reaper_of_the_0_8_design_looks_every_200_ms(sleeper_clock: SleepRecordingClock) -> None:
    with LegacyPurgatory("test", clock=sleeper_clock, purge_interval=2) as purgatory:
        assert sleeper_clock.wait_for_sleep(1) == 200
        sleeper_clock.advance(200)
        assert sleeper_clock.wait_for_sleep(2) == 400
        requests = [Request(1_000) for _ in range(3)]
        for request in requests:
            purgatory.try_complete_else_watch(request, ["a"])
            request.force_complete()
        slept = len(sleeper_clock.sleeps)
        assert purgatory.metrics().purges == 0
        sleeper_clock.advance(200)
        while purgatory.metrics().purges == 0:
            slept += 1
            sleeper_clock.wait_for_sleep(slept)
        assert purgatory.watched == 0


def test_shutdown_ends_the_reaper(
    reaped: DelayedOperationPurgatory, sleeper_clock: SleepRecordingClock
) -> None:
    threads = [thread for thread in threading.enumerate() if thread.name == "test-reaper"]
    assert len(threads) == 1
    reaped.try_complete_else_watch(Request(3_600_000), ["a"])
    assert len(reaped.close()) == 1
    assert not threads[0].is_alive()


def test_callback_on_the_reaper_may_shut_the_purgatory_down(
    reaped: DelayedOperationPurgatory, sleeper_clock: SleepRecordingClock
) -> None:
    cancelled: list[object] = []
    done = threading.Event()

    class Last(Request):
        def on_expiration(self) -> None:
            cancelled.extend(reaped.close())
            done.set()

    (thread,) = [thread for thread in threading.enumerate() if thread.name == "test-reaper"]
    pending = Request()
    reaped.try_complete_else_watch(Last(10), ["a"])
    reaped.try_complete_else_watch(pending, ["a"])
    sleeper_clock.advance(10)
    assert done.wait(TIME_LIMIT)
    assert cancelled == [pending]
    thread.join(TIME_LIMIT)
    assert not thread.is_alive()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_reaper_outlives_what_a_callback_raises(
    reaped: DelayedOperationPurgatory,
    sleeper_clock: SleepRecordingClock,
    error: type[BaseException],
) -> None:
    class Leaving(Request):
        def on_expiration(self) -> None:
            raise error

    told = Told(20)
    reaped.try_complete_else_watch(Leaving(10), ["a"])
    reaped.try_complete_else_watch(told, ["a"])
    sleeper_clock.advance(20)
    assert told.told.wait(TIME_LIMIT)
    assert reaped.num_delayed == 0


def test_shutdown_wakes_a_thread_that_advances_the_clock_itself(
    sleeper_clock: SleepRecordingClock, thread_group: ThreadGroup
) -> None:
    for purgatory in (
        DelayedOperationPurgatory(
            "test", timer=SystemTimer("test", clock=sleeper_clock), reaper=False
        ),
        LegacyPurgatory("test", clock=sleeper_clock, reaper=False),
    ):
        slept = len(sleeper_clock.sleeps)
        thread_group.start(purgatory.advance_clock, None)
        sleeper_clock.wait_for_sleep(slept + 1)
        purgatory.close()
        thread_group.join()


def test_reaper_works_on_the_machines_clock() -> None:
    told = Told(5)
    with DelayedOperationPurgatory("real") as purgatory:
        purgatory.try_complete_else_watch(told, ["a"])
        assert told.told.wait(TIME_LIMIT)
        assert told.thread == "real-reaper"
        assert purgatory.num_delayed == 0


def test_reaper_whose_timer_was_shut_down_logs_how_many_have_no_timeout(
    sleeper_clock: SleepRecordingClock, caplog: pytest.LogCaptureFixture
) -> None:
    timer = SystemTimer("test", clock=sleeper_clock)
    with DelayedOperationPurgatory("shop", timer=timer) as purgatory:
        sleeper_clock.wait_for_sleep(1)
        request = Request(60_000)
        purgatory.try_complete_else_watch(request, ["a"])
        reaper = purgatory._reaper
        assert timer.shutdown() == [request]
        assert reaper is not None
        reaper._thread.join(TIME_LIMIT)
        assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
            (
                "WARNING",
                "purgatory 'shop': its timer was shut down before it: 1 pending operations have no "
                "timeout any more, and wait for an event or for `close`",
            )
        ]
        request.ready = True
        assert purgatory.check_and_complete("a") == 1


def test_close_of_a_purgatory_logs_nothing_of_its_timer(
    reaped: DelayedOperationPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    reaped.close()
    assert "timer" not in caplog.text
