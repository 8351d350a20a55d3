"""The watcher lists of one shard."""

from __future__ import annotations

import pytest

from request_purgatory.watchers import WatcherLists
from tests.requests import Request


@pytest.fixture
def lists() -> WatcherLists:
    """Empty ones."""
    return WatcherLists()


def test_list_keeps_the_order_of_the_watches(lists: WatcherLists) -> None:
    """First come, first tried."""
    requests = [Request() for _ in range(5)]
    for request in requests:
        lists.watch("a", request)
    assert lists.get("a") == requests
    assert (lists.watched, lists.keys) == (5, 1)


def test_key_that_nobody_watches_has_no_list(lists: WatcherLists) -> None:
    """Asking makes none."""
    assert lists.get("a") is None
    assert lists.drop_ended("a") == 0
    assert lists.remove("a") == []
    assert (lists.watched, lists.keys) == (0, 0)


def test_dropping_keeps_the_pending_in_order(lists: WatcherLists) -> None:
    """Only what has ended goes, however it ended."""
    requests = [Request() for _ in range(5)]
    for request in requests:
        lists.watch("a", request)
    requests[0].force_complete()
    requests[3].cancel()
    assert lists.drop_ended("a") == 2
    assert lists.get("a") == [requests[1], requests[2], requests[4]]
    assert lists.drop_ended("a") == 0


def test_list_goes_with_its_last_operation(lists: WatcherLists) -> None:
    """Empty lists leave the map, by a drop as by a purge."""
    for key in ("a", "b"):
        request = Request()
        lists.watch(key, request)
        request.cancel()
    assert lists.drop_ended("a") == 1
    assert lists.keys == 1
    assert lists.purge() == 1
    assert lists.keys == 0
    lists.check()


def test_purge_drops_the_ended_of_every_list(lists: WatcherLists) -> None:
    """An operation counts once in each list, and twice in one that it watches twice."""
    ended, pending = Request(), Request()
    for key in ("a", "b", "b"):
        lists.watch(key, ended)
    for key in ("b", "c"):
        lists.watch(key, pending)
    ended.force_complete()
    assert lists.purge() == 3
    assert lists.operations() == [pending, pending]
    assert (lists.watched, lists.keys) == (2, 2)


def test_list_that_is_being_walked_is_not_changed_by_a_drop(lists: WatcherLists) -> None:
    """A drop makes a new list, so a thread may walk the old one without a lock."""
    requests = [Request() for _ in range(3)]
    for request in requests:
        lists.watch("a", request)
    walked = lists.get("a")
    requests[0].cancel()
    lists.drop_ended("a")
    lists.watch("a", Request())
    assert walked == requests


def test_removed_key_is_gone_with_its_list(lists: WatcherLists) -> None:
    """The others stay."""
    first, second = Request(), Request()
    lists.watch("a", first)
    lists.watch("b", second)
    assert lists.remove("a") == [first]
    assert lists.get("a") is None
    assert lists.remove_all() == [second]
    assert (lists.watched, lists.keys) == (0, 0)


def test_check_finds_an_empty_list(lists: WatcherLists) -> None:
    """The invariant check would notice one that was left."""
    lists.watch("a", Request())
    watchers = lists.get("a")
    assert watchers is not None
    watchers.clear()
    with pytest.raises(AssertionError, match="empty watcher list of 'a'"):
        lists.check()
