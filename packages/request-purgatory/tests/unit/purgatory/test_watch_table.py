"""Which operations watch which key: the lists of one shard, and the table of all shards."""

from __future__ import annotations

import sys

import pytest

from request_purgatory.purgatory.watch_table import WatcherList, WatchShard, WatchTable
from tests.conftest import MakePurgatory
from tests.support.chains import drop_key, removed_by
from tests.support.interleaving import interleave_lists, interpreted_only
from tests.support.requests import Request


@pytest.fixture
def table() -> WatchTable:
    """Return an empty table of one shard."""
    return WatchTable(1)


@pytest.fixture
def lists(table: WatchTable) -> WatchShard:
    """Return the table's only shard."""
    shard: WatchShard = table.shards[0]
    return shard


def watching(table: WatchTable, *keys: str) -> Request:
    """Return a new operation that watches some keys."""
    request = Request()
    table.watch(request, keys)
    return request


def list_of(table: WatchTable, key: object) -> WatcherList:
    """Return the list of a key that is watched."""
    watchers = table.shard_of(key).get(key)
    assert watchers is not None
    return watchers


def watched_by(table: WatchTable, key: object) -> list[object]:
    """Return the operations that watch a key, in their order."""
    shard = table.shard_of(key)
    watchers = shard.get(key)
    return [] if watchers is None else list(shard.operations_of(watchers))


def test_list_keeps_the_order_of_the_watches(table: WatchTable) -> None:
    requests = [watching(table, "a") for _ in range(5)]
    assert watched_by(table, "a") == requests
    assert (table.size, table.num_keys, list_of(table, "a").size) == (5, 1, 5)
    table.check_invariants()


def test_key_that_nobody_watches_has_no_list(table: WatchTable, lists: WatchShard) -> None:
    assert lists.get("a") is None
    assert drop_key(lists, "a") == []
    assert (table.num_watchers("a"), table.size, table.num_keys) == (0, 0, 0)


@pytest.mark.parametrize("dropped", [[0], [2], [4], [0, 1], [3, 4], [1, 3], [4, 0, 2]])
def test_dropping_keeps_the_others_in_order(
    table: WatchTable, lists: WatchShard, dropped: list[int]
) -> None:
    requests = [watching(table, "a") for _ in range(5)]
    watchers = list_of(table, "a")
    for index in dropped:
        assert lists.drop(watchers, requests[index])
        table.check_invariants()
    assert not lists.drop(watchers, requests[dropped[0]])
    assert watched_by(table, "a") == [
        request for index, request in enumerate(requests) if index not in dropped
    ]
    assert lists.size == 5 - len(dropped)


def test_operation_leaves_one_list_only(table: WatchTable, lists: WatchShard) -> None:
    request, other = watching(table, "a", "b"), watching(table, "c")
    assert lists.drop(list_of(table, "a"), request)
    assert not lists.drop(list_of(table, "c"), request)
    assert (watched_by(table, "a"), watched_by(table, "b")) == ([], [request])
    assert watched_by(table, "c") == [other]


def test_list_goes_with_its_last_watch(table: WatchTable, lists: WatchShard) -> None:
    request = watching(table, "a")
    old = list_of(table, "a")
    lists.drop(old, request)
    assert (lists.num_keys, old.removed, old.key) == (0, True, None)
    watching(table, "a")
    assert list_of(table, "a") is not old
    table.check_invariants()


def test_only_a_single_operation_is_the_first(table: WatchTable, lists: WatchShard) -> None:
    first = watching(table, "a")
    watchers = list_of(table, "a")
    assert lists.only_operation(watchers) is first
    second = watching(table, "a")
    assert lists.only_operation(watchers) is None
    lists.drop(watchers, first)
    assert lists.only_operation(watchers) is second
    lists.drop(watchers, second)
    assert lists.only_operation(watchers) is None


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 40])
def test_operation_watches_any_number_of_keys(table: WatchTable, count: int) -> None:
    requests = [watching(table, *map(str, range(count))) for _ in range(3)]
    assert (table.size, table.num_keys) == (3 * count, count)
    table.check_invariants()
    assert all(watched_by(table, str(number)) == requests for number in range(count))
    assert table.is_watched(requests[1])
    assert table.drop_watches(requests[1]) == count
    assert not table.is_watched(requests[1])
    assert table.drop_watches(requests[1]) == 0
    assert all(
        watched_by(table, str(number)) == [requests[0], requests[2]] for number in range(count)
    )
    table.check_invariants()


def test_key_that_is_given_twice_is_watched_twice(table: WatchTable, lists: WatchShard) -> None:
    request = watching(table, "b", "a", "b", "b", "b")
    watchers = list_of(table, "b")
    assert (watchers.size, lists.operations_of(watchers)) == (4, [request] * 4)
    for _ in range(4):
        assert table.is_watched(request)
        assert lists.drop(watchers, request)
    assert not lists.drop(watchers, request)
    assert watched_by(table, "a") == [request]


def test_operation_has_no_reference_left_once_it_is_out(table: WatchTable) -> None:
    request = Request()
    before = sys.getrefcount(request)
    for leave in (
        table.drop_watches,
        lambda _: removed_by(table.remove_all),
        lambda _: [drop_key(table.shard_of(key), key) for key in "abcde"],
    ):
        request = Request()
        table.watch(request, list("abbcde"))
        leave(request)
        assert (sys.getrefcount(request), table.size) == (before, 0)


def test_ended_operation_is_not_watched_any_further(table: WatchTable) -> None:
    class Ending:
        def __init__(self, request: Request) -> None:
            self.request = request

        def __hash__(self) -> int:
            if not self.request.is_completed:  # The first call, to find the shard.
                self.request.force_complete()
            return 1

    request = Request()
    table.watch(request, ["a", Ending(request), "b", "c", "d"])
    assert (table.num_watchers("a"), table.num_watchers("b")) == (1, 0)
    assert table.drop_watches(request) == table.num_keys + 2


def test_list_of_keys_that_a_key_changes_harms_nothing(table: WatchTable) -> None:
    keys: list[object] = []

    class Growing:
        def __hash__(self) -> int:
            keys.extend("bcdefgh")
            return 1

    keys += ["a", Growing()]
    request = Request()
    table.watch(request, keys)
    table.check_invariants()
    assert table.drop_watches(request) >= 2

    class Shrinking:
        def __hash__(self) -> int:
            keys.clear()
            return 1

    keys[:] = ["a", Shrinking(), "b"]
    request = Request()
    table.watch(request, keys)
    table.check_invariants()
    assert table.drop_watches(request) >= 1


def test_walk_is_not_disturbed_by_what_is_dropped_and_watched(
    table: WatchTable, lists: WatchShard
) -> None:
    requests = [watching(table, "a") for _ in range(3)]
    watchers = list_of(table, "a")
    walked = lists.operations_of(watchers)
    lists.drop(watchers, requests[1])
    watching(table, "a")
    assert walked == requests


def test_removed_key_is_gone_with_its_list(table: WatchTable, lists: WatchShard) -> None:
    first, second = watching(table, "a"), watching(table, "b")
    assert drop_key(lists, "a") == [first]
    assert lists.get("a") is None
    assert removed_by(lists.remove_all) == [second]
    assert (lists.size, lists.num_keys) == (0, 0)
    assert not table.is_watched(second)


def test_key_that_can_not_be_hashed_any_more_is_not_in_the_way(
    table: WatchTable, lists: WatchShard, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        failing = False

        def __hash__(self) -> int:
            if self.failing:
                raise ValueError("odd")
            return 1

    odd = Odd()
    request = Request()
    table.watch(request, [odd])
    watchers = list_of(table, odd)
    odd.failing = True
    assert lists.drop(watchers, request)
    assert "of a watch key of type Odd raises" in caplog.text
    assert (lists.size, lists.num_keys) == (0, 1)
    odd.failing = False
    request = Request()
    table.watch(request, [odd])
    assert watched_by(table, odd) == [request]
    table.check_invariants()


class Changing:
    """A key that equals all others of its number, which may change."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Changing) and other.number == self.number


def test_key_that_changes_to_one_that_nobody_watches_is_no_error(
    table: WatchTable, caplog: pytest.LogCaptureFixture
) -> None:
    key = Changing(1)
    request = Request()
    table.watch(request, [key])
    key.number = 2
    assert table.drop_watches(request) == 1
    assert caplog.text == ""


def test_key_that_changes_to_one_whose_list_is_gone_brings_none_back(
    table: WatchTable, lists: WatchShard
) -> None:
    gone, key = Changing(1), Changing(2)
    first, second = Request(), Request()
    table.watch(first, [gone])
    table.watch(second, [key])
    gone.number = 3
    table.drop_watches(first)  # Its list stays in the map under what equals 1 no more.
    gone.number, key.number = 1, 1
    table.drop_watches(second)
    assert lists.get(None) is None
    assert watched_by(table, Changing(1)) == []


def test_key_that_changes_takes_no_other_list_with_it(table: WatchTable) -> None:
    key, other = Changing(1), Changing(2)
    first, second = Request(), Request()
    table.watch(first, [key])
    table.watch(second, [other])
    key.number = 2
    table.drop_watches(first)
    key.number = 3
    third = Request()
    table.watch(third, ["x"])
    assert watched_by(table, Changing(2)) == [second]
    assert watched_by(table, "x") == [third]
    table.drop_watches(second)
    assert watched_by(table, Changing(2)) == []


def test_shards_are_rounded_up_to_a_power_of_two() -> None:
    sizes = {given: len(WatchTable(given).shards) for given in (1, 2, 3, 5, 512, 513)}
    assert sizes == {1: 1, 2: 2, 3: 4, 5: 8, 512: 512, 513: 1024}


@interpreted_only
def test_removed_key_leaves_out_what_another_thread_drops_meanwhile(
    table: WatchTable, lists: WatchShard
) -> None:
    first, second = watching(table, "a"), watching(table, "a")
    watchers = list_of(table, "a")
    # The lock is taken to take out the first operation.
    interleave_lists(lists).before(1, lambda: lists.drop(watchers, first))
    assert drop_key(lists, "a") == [second]
    assert (lists.size, lists.num_keys) == (0, 0)


@interpreted_only
def test_sweep_meets_a_thread_that_drops(table: WatchTable, lists: WatchShard) -> None:
    first, second = watching(table, "a"), watching(table, "a")
    watchers = list_of(table, "a")
    took_out: list[bool] = []
    interleave_lists(lists).before(1, lambda: took_out.append(lists.drop(watchers, first)))
    assert removed_by(lists.remove_all) == [second]
    assert (took_out, lists.size, lists.num_keys) == ([True], 0, 0)


@interpreted_only
def test_two_threads_drop_the_watches_of_one_operation(
    table: WatchTable, lists: WatchShard
) -> None:
    request = watching(table, "a", "b")
    counts: list[int] = []
    interleave_lists(lists).before(1, lambda: counts.append(table.drop_watches(request)))
    assert table.drop_watches(request) == 0
    assert counts == [2]


@interpreted_only
def test_watch_finds_a_new_list_where_the_old_one_has_just_gone(
    table: WatchTable, lists: WatchShard
) -> None:
    last, request = watching(table, "a"), Request()
    old = list_of(table, "a")
    interleave_lists(lists).before(1, lambda: lists.drop(old, last))
    table.watch(request, ["a"])
    assert list_of(table, "a") is not old
    assert watched_by(table, "a") == [request]
    table.check_invariants()


@interpreted_only
def test_list_that_is_looked_at_before_its_first_watch_is_empty(
    table: WatchTable, lists: WatchShard
) -> None:
    seen: list[object] = []
    # The first time is that of the map.
    interleave_lists(lists).before(2, lambda: seen.append(table.operations()))
    watching(table, "a")
    assert seen == [[]]


@interpreted_only
def test_operation_that_another_thread_is_about_to_cancel_is_left_to_it(
    make_purgatory: MakePurgatory,
) -> None:
    purgatory = make_purgatory(shards=1)
    request = Request()
    purgatory.try_complete_else_watch(request, ["a"])
    shard = purgatory._table.shards[0]
    watchers = list_of(purgatory._table, "a")
    interleave_lists(shard).before(1, lambda: shard.drop(watchers, request))
    assert purgatory.cancel_for_key("a") == []
    assert request.outcome is None
    assert request.cancel()
