"""What waits in a purgatory at one moment."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import FrozenInstanceError
from functools import partial

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    PurgatorySnapshot,
    aio,
)
from request_purgatory.purgatory._purgatory_snapshot import WaitingGroup, WaitingOperation
from request_purgatory.purgatory.hold import HoldOperation
from tests.conftest import MakePurgatory
from tests.support.requests import Request
from tests.support.thread_group import ThreadGroup


class Fetch(Request):
    """Another type of operation."""


def never() -> bool:
    """Return False: a condition."""
    return False


def test_waiting_operations_are_counted_by_type_and_key(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    purgatory.try_complete_else_watch(Request(5_000), ["a", "b", "b", "c", "d"])
    clock.advance(1_000)
    purgatory.try_complete_else_watch(Fetch(500), ["a"])
    purgatory.check_and_complete("a")
    purgatory.try_complete_else_watch(Fetch(9_000), ["a"])
    clock.advance(100)
    found = purgatory.snapshot(top=2)
    assert found == PurgatorySnapshot(
        name="test",
        pending=3,
        watched=7,
        num_keys=4,
        by_type=(
            WaitingGroup("Fetch", 2, 100, 400, 3),
            WaitingGroup("Request", 1, 1_100, 3_900, 2),
        ),
        by_key=(
            WaitingGroup("'a'", 3, 1_100, 400, 5),
            WaitingGroup(found.by_key[1].name, 1, 1_100, 3_900, 2),  # One of three keys.
        ),
        longest=(
            WaitingOperation("Request", "'a'", 1_100, 3_900, 2),
            WaitingOperation("Fetch", "'a'", 100, 400, 2),
        ),
    )
    by_key = {group.name: group.count for group in purgatory.snapshot().by_key}
    assert by_key == {"'a'": 3, "'b'": 1, "'c'": 1, "'d'": 1}
    assert len(purgatory.snapshot().longest) == 3


def test_tries_are_counted_up_to_a_limit(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()
    events = iter([True, False])
    request.during["try"] = lambda: next(events, False) and purgatory.check_and_complete("a")
    purgatory.try_complete_else_watch(request, ["a"])
    assert purgatory.snapshot().longest[0].tries == 2
    for _ in range(65_536):
        purgatory.check_and_complete("a")
    assert purgatory.snapshot().longest[0].tries == 65_535


def test_operation_that_has_ended_does_not_wait(purgatory: DelayedOperationPurgatory) -> None:
    ended = Request()
    purgatory.try_complete_else_watch(ended, ["a", "b"])
    ended.cancel()
    found = purgatory.snapshot()
    assert (found.pending, found.watched, found.num_keys) == (0, 2, 2)
    assert (found.by_type, found.by_key, found.longest) == ((), (), ())


def test_operation_behind_one_that_has_ended_waits(purgatory: DelayedOperationPurgatory) -> None:
    ended, pending = Request(), Fetch()
    for request in (ended, pending):
        purgatory.try_complete_else_watch(request, ["a", "b"])
    ended.cancel()
    assert [group.name for group in purgatory.snapshot().by_type] == ["Fetch"]


def test_operation_in_its_first_try_does_not_wait_yet(
    purgatory: DelayedOperationPurgatory,
) -> None:
    seen: list[PurgatorySnapshot] = []
    request = Request()
    request.during["try"] = lambda: seen.append(purgatory.snapshot())
    purgatory.try_complete_else_watch(request, ["a"])
    assert [(each.pending, each.watched, each.by_type) for each in seen] == [(0, 1, ())]
    assert purgatory.snapshot().by_type[0].count == 1


def test_first_of_what_is_equal_is_shown_first(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory(shards=1)
    clock.advance(5)
    for key, kind in enumerate((Request, Request, Fetch)):
        purgatory.try_complete_else_watch(kind(), [key])
    found = purgatory.snapshot(top=2)
    assert [group.name for group in found.by_key] == ["0", "1"]
    assert [(each.name, each.key) for each in found.longest] == [("Request", "0"), ("Request", "1")]


def test_longest_wait_is_found_behind_shorter_ones(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory(shards=1)
    lease = Request(1_000)
    purgatory.try_complete_else_watch(lease, [0])
    clock.advance(10)
    purgatory.try_complete_else_watch(Fetch(1_000), [1])
    clock.advance(10)
    purgatory.renew(lease, 1)
    assert [each.name for each in purgatory.snapshot(top=1).longest] == ["Fetch"]


def test_deadline_of_this_millisecond_is_not_overdue(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    purgatory.try_complete_else_watch(Request(50), ["a"])
    clock.advance(50)
    assert "expires in 0 ms" in str(purgatory.snapshot())
    clock.advance(1)
    assert "overdue by 1 ms" in str(purgatory.snapshot())


def test_holds_are_named_by_their_conditions(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory()
    purgatory.hold(["a"], until=never)
    clock.advance(200)
    purgatory.hold(["a"], until=never, timeout=3)
    clock.advance(10)
    purgatory.hold(["a"], until=partial(bool, 0))
    found = purgatory.snapshot()
    assert found.by_type == (
        WaitingGroup("hold(never)", 2, 210, 2_990, 2),
        WaitingGroup("hold(partial)", 1, 0, None, 1),
    )
    assert [each.deadline_ms for each in found.longest] == [None, 2_990, None]


def test_hold_that_has_ended_has_forgotten_its_condition(
    make_wheel_purgatory: MakePurgatory,
) -> None:
    purgatory = make_wheel_purgatory()
    purgatory.hold(["a"], until=never)
    (operation,) = purgatory.operations()
    assert isinstance(operation, HoldOperation)
    assert operation.condition_name == "never"
    operation.cancel()
    assert operation.condition_name == ""


def test_renewed_operation_counts_from_its_renewal(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory()
    lease = Request(1_000)
    purgatory.try_complete_else_watch(lease, ["a"])
    clock.advance(900)
    purgatory.renew(lease, 2)
    assert purgatory.snapshot().by_key == (WaitingGroup("'a'", 1, 0, 2_000, 1),)


def test_snapshot_is_shown_in_lines(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    purgatory = make_wheel_purgatory()
    purgatory.try_complete_else_watch(Request(10_000_000), ["a"])
    clock.advance(90_000)
    purgatory.try_complete_else_watch(Fetch(50), ["a"])
    clock.advance(60)
    purgatory.hold(["b"], until=never)
    clock.advance(7_200_000)
    assert str(purgatory.snapshot()) == "\n".join(
        [
            "purgatory 'test': 3 pending, 3 watched under 2 keys",
            "  by type:",
            "          1  Fetch: oldest 2.0 h, overdue by 2.0 h, tried once",
            "          1  Request: oldest 2.0 h, expires in 45.2 min, tried once",
            "          1  hold(never): oldest 2.0 h, without a timeout, tried once",
            "  by key:",
            "          2  'a': oldest 2.0 h, overdue by 2.0 h, tried 2 times",
            "          1  'b': oldest 2.0 h, without a timeout, tried once",
            "  longest waits:",
            "      2.0 h  Request under 'a': expires in 45.2 min, tried once",
            "      2.0 h  Fetch under 'a': overdue by 2.0 h, tried once",
            "      2.0 h  hold(never) under 'b': without a timeout, tried once",
        ]
    )
    empty = make_wheel_purgatory()
    assert str(empty.snapshot()) == "purgatory 'test': 0 pending, 0 watched under 0 keys"


@pytest.mark.parametrize(
    ("waited_ms", "shown"), [(999, "999 ms"), (1_000, "1.0 s"), (120_000, "2.0 min")]
)
def test_durations_have_units(
    purgatory: DelayedOperationPurgatory, clock: ManualClock, waited_ms: int, shown: str
) -> None:
    purgatory.try_complete_else_watch(Request(10**9), ["a"])
    clock.advance(waited_ms)
    assert f"oldest {shown}," in str(purgatory.snapshot())


class BadKey:
    """A key whose `repr` raises."""

    def __repr__(self) -> str:
        raise ValueError


def test_keys_are_cut_and_may_fail_to_be_shown(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.try_complete_else_watch(Request(), ["x" * 1_000, "y" * 79, "z" * 78, BadKey()])
    names = {group.name for group in purgatory.snapshot().by_key}
    assert names == {
        "'" + "x" * 76 + "...",
        "'" + "y" * 76 + "...",
        "'" + "z" * 78 + "'",
        "<BadKey whose repr raises ValueError>",
    }


class Unprintable:
    """A key whose `repr` has a line feed, a terminal's escape, a lone surrogate and more."""

    def __repr__(self) -> str:
        return "two\nlines \x1b[31mred\ud800 \u202eкурица"


def test_shown_keys_are_printable(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.try_complete_else_watch(Request(), [Unprintable()])
    (group,) = purgatory.snapshot().by_key
    assert group.name == r"two\nlines \x1b[31mred\ud800 \u202eкурица"


def test_keys_are_not_compared(purgatory: DelayedOperationPurgatory) -> None:
    for key in (object(), object(), "a", 1, None):
        purgatory.try_complete_else_watch(Request(), [key])
    found = purgatory.snapshot()
    assert (len(found.by_key), len(found.longest)) == (5, 5)


def test_snapshot_keeps_nothing_alive(purgatory: DelayedOperationPurgatory) -> None:
    class Key:
        pass

    key = Key()
    alive = weakref.ref(key)
    request = Request()
    purgatory.try_complete_else_watch(request, [key])
    found = purgatory.snapshot()
    assert found.by_key[0].count == 1
    purgatory._discard(request)
    del key, request
    purgatory.purge()
    gc.collect()
    assert alive() is None
    with pytest.raises(FrozenInstanceError):
        found.pending = 1  # type: ignore[misc]


@pytest.mark.parametrize("top", [0, -1, 1.5, True])
def test_number_of_rows_is_at_least_one(purgatory: DelayedOperationPurgatory, top: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"top must be"):
        purgatory.snapshot(top)


def test_snapshot_of_an_event_loop_s_purgatory() -> None:
    async def main() -> PurgatorySnapshot:
        purgatory = aio.Purgatory("loop")
        with pytest.raises(RuntimeError, match="has not been entered"):
            purgatory.snapshot()
        async with purgatory:
            purgatory.hold(["a"], until=never, timeout=60)
            return await asyncio.to_thread(purgatory.snapshot, 1)

    found = asyncio.run(main())
    assert (found.name, found.pending) == ("loop", 1)
    assert found.by_type[0].name == "hold(never)"


def test_snapshot_is_taken_while_threads_go_on(
    purgatory: DelayedOperationPurgatory, thread_group: ThreadGroup, switching: None
) -> None:
    done: list[bool] = []

    def work(keys: list[str]) -> None:
        for _ in range(300):
            request = Request(60_000)
            purgatory.try_complete_else_watch(request, keys)
            request.ready = True
            purgatory.check_and_complete(keys[0])
        done.append(True)

    for keys in (["a", "b"], ["b", "c"]):
        thread_group.start(work, keys)
    while len(done) < 2:
        found = purgatory.snapshot()
        # One of each thread, and one that the second thread tries at this moment by the key of
        # both: the first thread does not wait for that, and goes on with its next one.
        assert sum(group.count for group in found.by_type) <= 3
        assert all(group.count <= 3 for group in found.by_key)
    thread_group.join()
    assert purgatory.snapshot().by_type == ()


def test_first_list_is_that_of_the_first_key_that_is_watched(
    purgatory: DelayedOperationPurgatory,
) -> None:
    request = Request()
    keys = ["a", "b", "c", "d", "e"]
    purgatory.try_complete_else_watch(request, keys)
    table = purgatory._table

    def first_of(keys: list[str]) -> list[str]:
        found = []
        for key in keys:
            watchers = table.shard_of(key).get(key)
            assert watchers is not None
            if table.is_first_list(request, watchers):
                found.append(key)
        return found

    lists = {key: table.shard_of(key).get(key) for key in keys}
    while keys:
        (key,) = first_of(keys)
        assert key == keys[0]
        watchers = lists[key]
        assert watchers is not None
        assert table.shard_of(key).drop(watchers, request)
        assert not table.is_first_list(request, watchers)
        keys.remove(key)
    request.cancel()
