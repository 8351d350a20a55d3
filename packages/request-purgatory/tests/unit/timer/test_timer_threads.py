"""The timer under real threads."""

from __future__ import annotations

import random
import threading
import time

from request_purgatory import ManualClock, SystemTimer, TimerHandle, TimerTask
from tests.support.invariants import check_invariants
from tests.support.thread_group import ThreadGroup

TIME_LIMIT = 20.0


class Run(TimerTask):
    """A task that counts its runs and cancels, and notes an early run."""

    def __init__(self, clock: ManualClock, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.clock = clock
        self.earliest_ms = clock.now_ms + delay_ms
        self.runs = 0
        self.cancels = 0
        self.early = False

    def run(self) -> None:
        self.early |= self.clock.now_ms < self.earliest_ms
        self.runs += 1


def test_every_task_runs_or_is_cancelled_once(thread_group: ThreadGroup, switching: None) -> None:
    clock = ManualClock()
    timer = SystemTimer("test", wheel_size=4, clock=clock)
    tasks: list[Run] = []
    adding = [threading.Event() for _ in range(3)]
    start = threading.Barrier(8)

    def add(number: int) -> None:
        random_numbers = random.Random(number)
        start.wait(TIME_LIMIT)
        for _ in range(700):
            task = Run(clock, random_numbers.choice([1, 2, 5, 30, 400, 100_000]))
            timer.add(task)
            tasks.append(task)
        adding[number].set()

    def until_all_is_added(work: object) -> None:
        random_numbers = random.Random(9)
        start.wait(TIME_LIMIT)
        # Bounded: a `threading` lock is unfair, so a thread that acquires it without a pause keeps
        # others waiting.
        for _ in range(3000):
            work(random_numbers)  # type: ignore[operator]
            time.sleep(0)  # Let another thread run.
            if all(event.is_set() for event in adding):
                break

    def cancel(random_numbers: random.Random) -> None:
        if tasks:
            task = random_numbers.choice(tasks)
            if task.cancel():
                task.cancels += 1

    def look(_: random.Random) -> None:
        timer.advance_clock(0)

    def sleep(_: random.Random) -> None:
        timer.advance_clock(None)

    def move(random_numbers: random.Random) -> None:
        clock.advance(random_numbers.randrange(4))

    for number in range(3):
        thread_group.start(add, number)
    for work in (cancel, cancel, look, move):
        thread_group.start(until_all_is_added, work)
    sleeper = thread_group.start(until_all_is_added, sleep)
    for event in adding:
        assert event.wait(TIME_LIMIT)
    while sleeper.is_alive():
        timer.wake()
        sleeper.join(0.001)
    thread_group.join()

    check_invariants(timer)
    ended = sum(task.runs + task.cancels for task in tasks)
    assert ended + timer.size == len(tasks) == 2100
    clock.advance(200_000)
    timer.advance_clock(0)
    assert timer.size == 0
    assert all(task.runs + task.cancels == 1 for task in tasks)
    assert not any(task.early for task in tasks)


def test_tasks_that_threads_add_again_and_again_are_never_counted_twice(
    thread_group: ThreadGroup, switching: None
) -> None:
    clock = ManualClock()
    timer = SystemTimer("test", wheel_size=3, clock=clock)
    tasks = [Run(clock, 1 + number * number) for number in range(20)]
    start = threading.Barrier(4)

    def move(number: int) -> None:
        random_numbers = random.Random(number)
        start.wait(TIME_LIMIT)
        for _ in range(500):
            timer.add(random_numbers.choice(tasks))
            assert timer.size <= len(tasks)

    for number in range(4):
        thread_group.start(move, number)
    thread_group.join()
    check_invariants(timer)
    assert {task.cancel() for task in tasks} <= {True, False}
    assert timer.size == 0
    check_invariants(timer)


def test_cancel_is_not_lost_while_the_task_moves_to_a_finer_wheel(
    thread_group: ThreadGroup, switching: None
) -> None:
    # The two threads spin instead of waiting on a lock, whose wake-up would take too long.
    turn = [0]
    handles: list[TimerHandle] = []
    answers: list[bool] = []
    rounds = 1_500

    def cancel_one_each_turn() -> None:
        for number in range(1, rounds + 1):
            while turn[0] < number:
                time.sleep(0)
            for _ in range(number % 37):
                pass
            answers.append(handles[-1].cancel())

    thread_group.start(cancel_one_each_turn)
    for number in range(1, rounds + 1):
        clock = ManualClock()
        timer = SystemTimer("test", clock=clock)
        pending = [timer.call_later_ms(399, int) for _ in range(3)]
        clock.advance(380)
        handles.append(pending[number % 3])
        turn[0] = number
        for _ in range(number % 23):
            pass
        timer.advance_clock(0)
        until = time.monotonic() + TIME_LIMIT
        while len(answers) < number and time.monotonic() < until:
            time.sleep(0)
        assert answers[-1:] == [True]
        assert timer.size == 2
        timer.shutdown()
    thread_group.join()
