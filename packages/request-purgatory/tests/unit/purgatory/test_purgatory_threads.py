"""The purgatory under real threads.

Whatever they race for, every operation ends once, and no event is lost.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
    SystemTimer,
    TaskInUseError,
)
from request_purgatory.legacy import LegacyPurgatory
from tests.conftest import MakePurgatory
from tests.support.invariants import check_invariants
from tests.support.requests import Request
from tests.support.thread_group import ThreadGroup

TIME_LIMIT = 20.0


class Counted(DelayedOperation):
    """Counts how often it was told of an end, and notices when two tries overlap."""

    overlaps = 0

    def __init__(
        self,
        delay_ms: int = 60_000,
        *,
        needs: int = 1,
        level: Counter[int] | None = None,
        key: int = 0,
    ) -> None:
        super().__init__(delay_ms)
        self.needs = needs
        self.level = Counter() if level is None else level
        self.key = key
        self.told: list[str] = []
        self.refused = 0
        self.inside = False

    def try_complete(self) -> bool:
        if self.inside:
            Counted.overlaps += 1
        self.inside = True
        satisfied = self.level[self.key] >= self.needs
        time.sleep(
            0
        )  # Another thread's turn, at the worst place: between the look and what follows from it.
        self.inside = False
        return satisfied and self.force_complete()

    def on_complete(self) -> None:
        self.told.append("complete")

    def on_expiration(self) -> None:
        self.told.append("expiration")

    def on_cancellation(self) -> None:
        self.told.append("cancellation")

    def assert_ended_once(self) -> None:
        """One end, told once: by a callback, or to the caller by an exception."""
        told = {
            "completed": ["complete"],
            "expired": ["complete", "expiration"],
            "cancelled": ["cancellation"],
        }
        if self.refused:
            assert (self.refused, self.told, self.outcome) in [(1, [], "cancelled"), (1, [], None)]
        else:
            assert self.told == told[str(self.outcome)], f"{self!r} was told {self.told}"


@pytest.fixture(autouse=True)
def no_tries_overlap() -> Iterator[None]:
    """Fail if tries of one operation overlap."""
    Counted.overlaps = 0
    yield
    assert Counted.overlaps == 0


def test_every_operation_ends_once_whatever_threads_race_for_it(
    make_purgatory: MakePurgatory, clock: ManualClock, thread_group: ThreadGroup, switching: None
) -> None:
    purgatory = make_purgatory(purge_interval=50)
    level: Counter[int] = Counter()
    keys = 7
    operations: list[Counted] = []
    watching = [threading.Event() for _ in range(3)]
    start = threading.Barrier(8)

    def watch(number: int) -> None:
        random_numbers = random.Random(number)
        start.wait(TIME_LIMIT)
        for _ in range(1500):
            key = random_numbers.randrange(keys)
            needs = level[key] + random_numbers.randint(0, 4)
            operation = Counted(
                random_numbers.choice([0, 1, 3, 40, 60_000]), needs=needs, level=level, key=key
            )
            operations.append(operation)
            purgatory.try_complete_else_watch(
                operation, [key, random_numbers.randrange(keys), (number, key)]
            )
        watching[number].set()

    def until_all_is_watched(work: object, number: int) -> None:
        random_numbers = random.Random(number)
        start.wait(TIME_LIMIT)
        while not all(event.is_set() for event in watching):
            work(random_numbers)  # type: ignore[operator]
            time.sleep(0)  # The next thread's turn, instead of the rest of this one's.

    def bring_an_event(random_numbers: random.Random) -> None:
        key = random_numbers.randrange(keys)
        level[key] += 1
        purgatory.check_and_complete(key)

    def end_one(random_numbers: random.Random) -> None:
        if operations:
            operation = random_numbers.choice(operations)
            random_numbers.choice([operation.cancel, operation.force_complete])()

    def cancel_a_key(random_numbers: random.Random) -> None:
        for operation in purgatory.cancel_for_key(random_numbers.randrange(2 * keys)):
            assert operation.outcome == "cancelled"

    def advance(random_numbers: random.Random) -> None:
        clock.advance(random_numbers.randrange(3))
        purgatory.advance_clock(0)

    for number in range(3):
        thread_group.start(watch, number)
    for number, work in enumerate([bring_an_event, bring_an_event, end_one, cancel_a_key, advance]):
        thread_group.start(until_all_is_watched, work, number)
    thread_group.join()

    check_invariants(purgatory)
    pending = {operation for operation in operations if not operation.is_completed}
    assert purgatory.num_delayed == len(pending)
    # The level may have been raised by a thread that the interpreter stopped before its check;
    # after one more, none is owed.
    for key in range(keys):
        purgatory.check_and_complete(key)
    assert all(
        level[operation.key] < operation.needs
        for operation in operations
        if not operation.is_completed
    )
    pending = {operation for operation in operations if not operation.is_completed}
    assert set(purgatory.close()) == pending
    for operation in operations:
        operation.assert_ended_once()
    metrics = purgatory.metrics()
    assert (
        metrics.completions + metrics.expirations + metrics.cancellations == len(operations) == 4500
    )
    assert Counter(operation.outcome for operation in operations) == Counter(
        completed=metrics.completions, expired=metrics.expirations, cancelled=metrics.cancellations
    )
    assert (purgatory.timer.size, metrics.callback_errors) == (0, 0)


def test_event_that_races_with_the_watch_is_never_missed(
    make_purgatory: MakePurgatory, thread_group: ThreadGroup, switching: None
) -> None:
    purgatory = make_purgatory()
    rounds = 2_000
    operations = [Counted(key=number, level=Counter()) for number in range(rounds)]
    turn = threading.Barrier(2)

    def watch() -> None:
        for number, operation in enumerate(operations):
            turn.wait(TIME_LIMIT)
            purgatory.try_complete_else_watch(operation, [number])

    def bring_events() -> None:
        for number, operation in enumerate(operations):
            turn.wait(TIME_LIMIT)
            operation.level[number] += 1
            purgatory.check_and_complete(number)

    thread_group.start(watch)
    thread_group.start(bring_events)
    thread_group.join()
    assert [operation.outcome for operation in operations] == ["completed"] * rounds
    assert purgatory.num_delayed == 0
    check_invariants(purgatory)


def test_no_check_is_lost_on_a_try_that_is_running(
    make_purgatory: MakePurgatory, thread_group: ThreadGroup, switching: None
) -> None:
    purgatory = make_purgatory()
    rounds, threads = 600, 4
    lock = threading.Lock()
    operations = [Counted(key=number, level=Counter(), needs=threads) for number in range(rounds)]
    for number, operation in enumerate(operations):
        purgatory.try_complete_else_watch(operation, [number])
    turn = threading.Barrier(threads)
    completed: list[int] = []

    def acknowledge() -> None:
        for number, operation in enumerate(operations):
            turn.wait(TIME_LIMIT)
            with lock:
                operation.level[number] += 1
            completed.append(purgatory.check_and_complete(number))

    for _ in range(threads):
        thread_group.start(acknowledge)
    thread_group.join()
    assert [operation.outcome for operation in operations] == ["completed"] * rounds
    assert sum(completed) == rounds
    assert purgatory.operations() == []


@pytest.mark.parametrize("design", ["wheel", "legacy"])
@pytest.mark.parametrize("own_timer", [True, False])
def test_shutdown_that_races_with_watches_leaves_nothing_pending(
    thread_group: ThreadGroup, switching: None, design: str, own_timer: bool
) -> None:
    """Each operation is reported once: by its callback, or by the error that its watcher gets.

    With a reaper.
    """
    for _ in range(10):
        clock = ManualClock()
        purgatory: DelayedOperationPurgatory
        if design == "legacy":
            purgatory = LegacyPurgatory("test", clock=clock)
        else:
            timer = None if own_timer else SystemTimer("test", clock=clock)
            purgatory = DelayedOperationPurgatory("test", timer=timer)
        operations: list[Counted] = []
        begun = threading.Semaphore(0)

        def watch(
            purgatory: DelayedOperationPurgatory,
            operations: list[Counted],
            begun: threading.Semaphore,
        ) -> None:
            while True:
                operation = Counted()
                operations.append(operation)
                begun.release()
                try:
                    purgatory.try_complete_else_watch(operation, ["a", len(operations)])
                except PurgatoryClosedError:
                    operation.refused += 1
                    return

        for _ in range(3):
            thread_group.start(watch, purgatory, operations, begun)
        for _ in range(20):
            assert begun.acquire(timeout=TIME_LIMIT)
        cancelled = purgatory.close()
        thread_group.join()
        for operation in operations:
            operation.assert_ended_once()
        assert set(cancelled) == {operation for operation in operations if operation.told}
        assert len(cancelled) == len(set(cancelled))
        assert (purgatory.num_delayed, purgatory.watched) == (0, 0)
        assert purgatory.timer.size == 0
        assert not [thread for thread in threading.enumerate() if thread.name == "test-reaper"]


def test_threads_that_advance_the_clock_hear_of_the_shutdown(
    make_purgatory: MakePurgatory, thread_group: ThreadGroup, switching: None
) -> None:
    for _ in range(20):
        purgatory = make_purgatory()
        begun = threading.Semaphore(0)

        def advance(purgatory: DelayedOperationPurgatory, begun: threading.Semaphore) -> None:
            begun.release()
            while True:
                try:
                    purgatory.advance_clock(0)
                except PurgatoryClosedError:
                    return
                time.sleep(0)

        for _ in range(2):
            thread_group.start(advance, purgatory, begun)
            assert begun.acquire(timeout=TIME_LIMIT)
        purgatory.close()
        thread_group.join()


def test_operation_that_two_threads_hand_in_is_taken_once(
    thread_group: ThreadGroup, switching: None
) -> None:
    purgatories = [DelayedOperationPurgatory(name, reaper=False) for name in ("one", "other")]
    requests: list[Request] = [Request(60_000) for _ in range(2_000)]
    taken: list[list[int]] = [[], []]

    def hand_in(number: int) -> None:
        for index, request in enumerate(requests):
            try:
                purgatories[number].try_complete_else_watch(request, ["a"])
            except TaskInUseError:
                continue
            taken[number].append(index)

    for number in range(2):
        thread_group.start(hand_in, number)
    thread_group.join()
    assert sorted(taken[0] + taken[1]) == list(range(len(requests)))
    assert [purgatory.num_delayed for purgatory in purgatories] == [
        len(numbers) for numbers in taken
    ]
    for purgatory in purgatories:
        check_invariants(purgatory)
        purgatory.close()


def test_checks_of_a_key_that_comes_and_goes(thread_group: ThreadGroup, switching: None) -> None:
    purgatory = DelayedOperationPurgatory("test", reaper=False, shards=1)
    stopped = threading.Event()

    def check() -> None:
        while not stopped.is_set():
            purgatory.check_and_complete("a")
            purgatory.num_watchers("a")

    thread_group.start(check)
    for _ in range(20_000):
        request = Request(60_000)
        purgatory.try_complete_else_watch(request, ["a"])
        purgatory._discard(request)
    stopped.set()
    thread_group.join()
    check_invariants(purgatory)
    assert purgatory.metrics().cancellations == 20_000
