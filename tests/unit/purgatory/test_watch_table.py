"""The watcher lists of one shard."""

from __future__ import annotations

import pytest

from request_purgatory.purgatory.watch_table import WatchShard
from tests.support.interleaving import interleave_lists, interpreted_only
from tests.support.requests import Request


@pytest.fixture
def lists() -> WatchShard:
    """Empty ones."""
    return WatchShard()


def watched_by(lists: WatchShard, key: str) -> list[object]:
    """Return the operations that watch a key, in their order."""
    return [lists.operation_of(watch) for watch in lists.watches(key)]


def test_list_keeps_the_order_of_the_watches(lists: WatchShard) -> None:
    """First come, first tried."""
    requests = [Request() for _ in range(5)]
    for request in requests:
        lists.watch("a", request, None)
    assert watched_by(lists, "a") == requests
    assert (lists.size, lists.num_keys) == (5, 1)
    lists.check_invariants()


def test_key_that_nobody_watches_has_no_list(lists: WatchShard) -> None:
    """Asking makes none."""
    assert lists.get("a") is None
    assert lists.watches("a") == []
    assert lists.remove("a") == []
    assert (lists.size, lists.num_keys) == (0, 0)


@pytest.mark.parametrize("dropped", [[0], [2], [4], [0, 1], [3, 4], [1, 3], [4, 0, 2]])
def test_dropping_keeps_the_others_in_order(lists: WatchShard, dropped: list[int]) -> None:
    """From the front, the middle and the back; a watch that is out is not dropped again."""
    requests = [Request() for _ in range(5)]
    watches = [lists.watch("a", request, None) for request in requests]
    for index in dropped:
        assert lists.drop(watches[index])
        lists.check_invariants()
    assert not lists.drop(watches[dropped[0]])
    assert watched_by(lists, "a") == [
        request for index, request in enumerate(requests) if index not in dropped
    ]
    assert lists.size == 5 - len(dropped)


def test_list_goes_with_its_last_watch(lists: WatchShard) -> None:
    """Empty lists leave the map, and the next watch of the key makes a new one."""
    watch = lists.watch("a", Request(), None)
    old = lists.get("a")
    lists.drop(watch)
    assert (lists.num_keys, old is not None and old.removed) == (0, True)
    lists.watch("a", Request(), None)
    assert lists.get("a") is not old
    lists.check_invariants()


def test_only_a_single_watch_is_the_first(lists: WatchShard) -> None:
    """Two have to be walked."""
    first = lists.watch("a", Request(), None)
    watchers = lists.get("a")
    assert watchers is not None
    assert lists.only_watch(watchers) is first
    second = lists.watch("a", Request(), None)
    assert lists.only_watch(watchers) is None
    lists.drop(first)
    assert lists.only_watch(watchers) is second


def test_watches_of_one_operation_are_chained(lists: WatchShard) -> None:
    """From the newest to the oldest, in one list or in several."""
    request = Request()
    chain = None
    for key in ("a", "b", "b"):
        chain = lists.watch(key, request, chain)
    keys = []
    while chain is not None:
        assert chain.watchers is not None
        keys.append(chain.watchers.key)
        chain = chain.sibling
    assert keys == ["b", "b", "a"]


def test_walk_is_not_disturbed_by_what_is_dropped_and_watched(lists: WatchShard) -> None:
    """A walk has the watches of its beginning.

    One that was dropped meanwhile has no operation any more.
    """
    requests = [Request() for _ in range(3)]
    watches = [lists.watch("a", request, None) for request in requests]
    walked = lists.watches("a")
    lists.drop(watches[1])
    lists.watch("a", Request(), None)
    assert [lists.operation_of(watch) for watch in walked] == [requests[0], None, requests[2]]


def test_removed_key_is_gone_with_its_list(lists: WatchShard) -> None:
    """The others stay."""
    first, second = Request(), Request()
    lists.watch("a", first, None)
    lists.watch("b", second, None)
    assert lists.remove("a") == [first]
    assert lists.get("a") is None
    assert lists.remove_all() == [second]
    assert (lists.size, lists.num_keys) == (0, 0)


def test_key_that_can_not_be_hashed_any_more_is_not_in_the_way(
    lists: WatchShard, caplog: pytest.LogCaptureFixture
) -> None:
    """Its empty list stays, is logged, and is replaced when the key is watched again."""

    class Odd:
        failing = False

        def __hash__(self) -> int:
            if self.failing:
                raise ValueError("odd")
            return 1

    odd = Odd()
    watch = lists.watch(odd, Request(), None)
    odd.failing = True
    assert lists.drop(watch)
    assert "of a watch key of type Odd raises" in caplog.text
    assert (lists.size, lists.num_keys) == (0, 1)
    odd.failing = False
    request = Request()
    lists.watch(odd, request, None)
    assert [lists.operation_of(each) for each in lists.watches(odd)] == [request]
    lists.check_invariants()


@interpreted_only
def test_removed_key_leaves_out_what_another_thread_drops_meanwhile(lists: WatchShard) -> None:
    """Before the look at the operation or after it; one of the two threads gets the operation."""
    for number in (2, 3):
        first, second = Request(), Request()
        dropped = lists.watch("a", first, None)
        lists.watch("a", second, None)
        # The lock is taken for the walk, for the look at the first operation, and to take it out.
        interleave_lists(lists).before(number, lambda dropped=dropped: lists.drop(dropped))
        assert lists.remove("a") == [second]
        assert (lists.size, lists.num_keys) == (0, 0)


@interpreted_only
@pytest.mark.parametrize(("number", "swept"), [(2, False), (3, True)])
def test_sweep_meets_a_thread_that_drops(lists: WatchShard, number: int, swept: bool) -> None:
    """What is taken out after the look is given to both; an operation ends only once anyway."""
    first, second = Request(), Request()
    dropped = lists.watch("a", first, None)
    lists.watch("a", second, None)
    took_out: list[bool] = []
    interleave_lists(lists).before(number, lambda: took_out.append(lists.drop(dropped)))
    assert lists.remove_all() == ([first, second] if swept else [second])
    assert (took_out, lists.size, lists.num_keys) == ([True], 0, 0)


@interpreted_only
def test_watch_finds_a_new_list_where_the_old_one_has_just_gone(lists: WatchShard) -> None:
    """Another thread drops the last watch between the look-up and the lock."""
    last, request = lists.watch("a", Request(), None), Request()
    old = lists.get("a")
    interleave_lists(lists).before(1, lambda: lists.drop(last))
    lists.watch("a", request, None)
    assert lists.get("a") is not old
    assert watched_by(lists, "a") == [request]
    lists.check_invariants()
