"""What holds of a timer or a purgatory at any time, while no other thread uses it."""

from __future__ import annotations

from request_purgatory import aio
from request_purgatory._native import states
from request_purgatory.legacy import DelayQueueTimer
from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.timer import SystemTimer
from request_purgatory.timer._delay_queue import DelayQueue
from request_purgatory.timer._timer_core import TimerCore
from request_purgatory.timer.wheel import TimingWheel


def check_invariants(checked: TimerCore | PurgatoryCore | aio.Purgatory) -> None:
    """Assert every invariant, in O(pending tasks) or O(watched)."""
    if isinstance(checked, aio.Purgatory):
        check_loop_purgatory(checked)
    elif isinstance(checked, PurgatoryCore):
        check_purgatory(checked)
    elif isinstance(checked, SystemTimer):
        check_timer(checked)
    else:
        assert isinstance(checked, DelayQueueTimer)
        check_delay_queue_timer(checked)


def check_queue(queue: DelayQueue) -> None:
    heap = [bucket for bucket in queue._heap[: queue._length] if bucket is not None]
    assert len(heap) == queue._length, "a place in the delay queue has no bucket"
    assert len({id(bucket) for bucket in heap}) == len(heap), "a bucket is in the delay queue twice"
    for index, bucket in enumerate(heap):
        assert bucket.expiration_ms >= 0, "a bucket without an expiration is in the delay queue"
        parent = heap[(index - 1) // 2] if index else bucket
        assert parent.expiration_ms <= bucket.expiration_ms, "the delay queue is out of order"


def check_wheel(finest: TimingWheel) -> int:
    """Assert every invariant of wheels and delay queue, and return the number of tasks."""
    check_queue(finest.queue)
    count = 0
    finer: TimingWheel | None = None
    for wheel in finest:
        assert wheel.current_ms % wheel.tick_ms == 0, "a wheel stands between two ticks"
        if finer is not None:
            assert wheel.tick_ms == finer.interval_ms, (
                "an overflow wheel's tick is not the finer one's interval"
            )
            assert wheel.current_ms == finer.current_ms - finer.current_ms % wheel.tick_ms, (
                "an overflow wheel's clock is behind the finer wheel's"
            )
        for index, bucket in enumerate(wheel.buckets):
            held = bucket.check()
            count += held
            if held:
                assert bucket.expiration_ms >= 0, "a bucket with tasks is not in the delay queue"
            if bucket.expiration_ms >= 0:
                slot = bucket.expiration_ms // wheel.tick_ms
                assert slot % wheel.wheel_size == index, (
                    "a bucket's expiration belongs to another slot"
                )
                # Equal while it is being emptied.
                assert bucket.expiration_ms >= wheel.current_ms, (
                    "a bucket in the delay queue has been passed"
                )
            for task in bucket.tasks():
                ahead_ms = task._timer_expiration_ms - bucket.expiration_ms
                assert 0 <= ahead_ms < wheel.tick_ms, f"{task!r} is in a bucket of another time"
        finer = wheel
    return count


def check_timer(timer: SystemTimer) -> None:
    held = check_wheel(timer._wheel) + timer._due.check()
    assert held == timer.size, f"{held} tasks are linked but {timer.size} are counted"
    assert max(timer._wheel, key=lambda wheel: wheel.tick_ms) is timer._coarsest, (
        "`_coarsest` is not the coarsest wheel"
    )


def check_delay_queue_timer(timer: DelayQueueTimer) -> None:
    heap = timer._heap
    for index, entry in enumerate(heap):
        assert heap[(index - 1) // 2 if index else 0] <= entry, "the delay queue is out of order"
    assert timer._first_ms == (max(0, heap[0][0]) if heap else -1), (
        "another deadline than the first one is noted"
    )


def check_purgatory(purgatory: PurgatoryCore) -> None:
    check_invariants(purgatory.timer)
    purgatory._table.check_invariants()
    pending = 0
    for operation in purgatory.operations():
        assert operation._purgatory is purgatory, f"{operation!r} is of another purgatory"
        if operation._state == states.PENDING:
            pending += 1
        else:
            assert operation._timer_list is None, f"{operation!r} has ended but is in the timer"
    assert pending == purgatory.num_delayed, (
        f"{pending} pending operations are watched but {purgatory.num_delayed} are counted"
    )
    if purgatory._owns_timer and isinstance(purgatory.timer, SystemTimer):
        assert purgatory.timer.size == pending, (
            f"the timer holds {purgatory.timer.size} of {pending} pending operations"
        )


def check_loop_purgatory(purgatory: aio.Purgatory) -> None:
    core = purgatory._core
    assert core is not None, "it was not entered"
    check_purgatory(core)
    handle = purgatory._alarm.handle
    assert handle is None or not handle.cancelled(), "the alarm was cancelled"
    next_ms = purgatory._timer.next_expiration_ms
    assert next_ms is None or core.is_closed or handle is not None, (
        "something is pending and no alarm is set"
    )
    assert len(purgatory._answers.futures) <= core.num_delayed, (
        "the future of an ended operation is kept"
    )
