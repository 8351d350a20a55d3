"""The watcher lists, and what a purge takes out of them, against dicts and lists."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Hashable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
)
from request_purgatory.purgatory import _purge_backlog as purge_backlog
from request_purgatory.purgatory.watch_table import WatcherList, WatchShard, WatchTable
from tests.support.chains import drop_key, removed_by
from tests.support.invariants import check_invariants
from tests.support.profiles import examples
from tests.support.requests import Request

NUMBERS = st.integers(0, 200)


class Odd:
    """A key whose hash is available at some times only."""

    def __init__(self) -> None:
        self.failing = False

    def __hash__(self) -> int:
        if self.failing:
            raise ValueError("no hash for now")
        return 1


class OneShard(RuleBasedStateMachine):
    """Compares a table of one shard with a dict of lists of operations' numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = WatchTable(1)
        self.lists: WatchShard = self.table.shards[0]
        self.odd = Odd()
        self.keys: list[Hashable] = ["a", "b", 1, (1, None), self.odd, 1.0]
        #: Numbers of operations by the key's index above; 1 and 1.0 are one key to a dict.
        self.model: dict[int, list[int]] = {}
        #: True if the odd key's list was emptied while the key had no hash, and stayed in the map.
        self.left_behind = False
        self.operations: list[Request] = []
        #: Every list that was met, with its key's index.
        self.met: list[tuple[WatcherList, int]] = []

    def is_lost(self, place: int) -> bool:
        """Return True for the odd key while it can't be looked up."""
        return self.keys[place] is self.odd and self.odd.failing

    def current(self, place: int) -> WatcherList | None:
        """Return the newest list that was met of a key; None if it is not in use any more."""
        lists = [watchers for watchers, of in self.met if of == place]
        return lists[-1] if lists and place in self.model else None

    def forget(self, place: int, number: int) -> None:
        """Remove one entry of an operation from the model."""
        numbers = self.model[place]
        watchers = self.current(place)
        numbers.remove(number)
        if not numbers:
            del self.model[place]
            assert watchers is not None
            assert watchers.removed, "a thread that has the list would add to it"
            self.left_behind = self.left_behind or self.is_lost(place)

    def requests(self, numbers: list[int]) -> list[Request]:
        """Return some operations."""
        return [self.operations[number] for number in numbers]

    # -- watching

    @rule(places=st.lists(st.integers(0, 5), max_size=7))
    def watch(self, places: list[int]) -> None:
        """Watch keys for a new operation, the same one twice perhaps, up to one without a hash."""
        number = len(self.operations)
        self.operations.append(Request())
        keys = [self.keys[place] for place in places]
        if any(map(self.is_lost, places)):
            with pytest.raises(ValueError, match="no hash"):
                self.table.watch(self.operations[number], keys)
        else:
            self.table.watch(self.operations[number], keys)
        for place in places:
            if self.is_lost(place):
                break
            index = 2 if place == 5 else place
            if index not in self.model:
                watchers = self.lists.get(self.keys[place])
                assert watchers is not None
                self.met.append((watchers, index))
            self.model.setdefault(index, []).append(number)
            if self.keys[place] is self.odd:
                self.left_behind = False

    @rule()
    def leave_the_odd_keys_list_behind(self) -> None:
        """Empty the odd key's list while the key has no hash."""
        self.odd.failing = False
        self.watch([4])
        self.odd.failing = True
        for number in list(self.model[4]):
            self.drop(number, 4)
        self.odd.failing = False

    @rule(failing=st.booleans())
    def change_the_odd_key(self, failing: bool) -> None:
        """Let the odd key have a hash, or none."""
        self.odd.failing = failing

    # -- removing

    @precondition(lambda self: self.operations)
    @rule(number=NUMBERS, place=st.integers(0, 4))
    def drop(self, number: int, place: int) -> None:
        """Remove an operation from a list, or from one that it has left or never was in."""
        number %= len(self.operations)
        watchers = self.current(place)
        if watchers is not None:
            is_in = number in self.model[place]
            assert self.lists.drop(watchers, self.operations[number]) == is_in
            if is_in:
                self.forget(place, number)

    @precondition(lambda self: self.operations and self.met)
    @rule(number=NUMBERS, met=NUMBERS)
    def drop_from_an_old_list(self, number: int, met: int) -> None:
        """Remove an operation from any list that ever was, as a thread that still has it."""
        watchers, place = self.met[met % len(self.met)]
        if watchers.removed:
            operation = self.operations[number % len(self.operations)]
            assert not self.lists.drop(watchers, operation)
        else:
            self.drop(number, place)

    @precondition(lambda self: self.operations)
    @rule(number=NUMBERS)
    def drop_watches(self, number: int) -> None:
        """Remove an operation from every list."""
        number %= len(self.operations)
        entries = [place for place, numbers in self.model.items() for at in numbers if at == number]
        assert self.table.drop_watches(self.operations[number]) == len(entries)
        for place in entries:
            self.forget(place, number)

    @rule(place=st.integers(0, 5))
    def remove(self, place: int) -> None:
        """Remove a key with all its watchers."""
        if self.is_lost(place):
            with pytest.raises(ValueError, match="no hash"):
                drop_key(self.lists, self.keys[place])
            return
        numbers = self.model.pop(2 if place == 5 else place, [])
        removed = drop_key(self.lists, self.keys[place])
        assert removed == self.requests(numbers)

    @rule()
    def remove_all(self) -> None:
        """Empty the table."""
        removed = removed_by(self.table.remove_all)
        everything = {number for numbers in self.model.values() for number in numbers}
        assert Counter(map(id, removed)) == Counter(map(id, self.requests(list(everything))))
        self.model.clear()
        self.left_behind = False

    # -- after each step

    @invariant()
    def agrees(self) -> None:
        """Keys, lists, their order, counts."""
        lists, model = self.lists, self.model
        assert lists.size == self.table.size == sum(map(len, model.values()))
        assert lists.num_keys == len(model) + self.left_behind
        for place, key in enumerate(self.keys):
            if self.is_lost(place):
                continue
            numbers = model.get(2 if place == 5 else place, [])
            watchers = lists.get(key)
            assert self.table.num_watchers(key) == len(numbers)
            if watchers is None:
                assert not numbers
                continue
            assert watchers.removed == (not numbers)
            assert (watchers.size, watchers.shard) == (len(numbers), 0)
            found = self.requests(numbers)
            assert lists.operations_of(watchers) == found
            assert lists.only_operation(watchers) is (found[0] if len(found) == 1 else None)
        watched = {number for numbers in model.values() for number in numbers}
        for number, operation in enumerate(self.operations):
            assert self.table.is_watched(operation) == (number in watched)
        assert self.table.operations() == [] or {
            id(operation) for operation in self.table.operations()
        } == set(map(id, self.requests(list(watched))))
        if not self.left_behind:
            self.table.check_invariants()

    def teardown(self) -> None:
        """Empty the table; no list has a reference to an operation any more."""
        removed_by(self.table.remove_all)
        operation = Request()
        alone = sys.getrefcount(operation)  # From CPython 3.14 on, the argument counts no more.
        while self.operations:
            operation = self.operations.pop()
            assert sys.getrefcount(operation) == alone, "only this variable refers to it"


class Purging(RuleBasedStateMachine):
    """Several shards and what a purge has to take out, beside dicts and lists of numbers.

    The operations do nothing but look whether they are ready. `PurgatoryMachine` has those that do
    more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.few = purge_backlog._MIN_SHRINK_LENGTH
        self.requests: list[Request] = []
        self.chosen: list[list[str]] = []
        self.model: dict[str, list[int]] = {key: [] for key in "abcdef"}
        self.remembered: list[int] = []

    @initialize(shards=st.sampled_from([1, 2, 512]), few=st.sampled_from([0, 1, 3, 1000]))
    def begin(self, shards: int, few: int) -> None:
        """Make an empty purgatory that purges on request."""
        purge_backlog._MIN_SHRINK_LENGTH = self.few_chosen = self.most = few
        self.clock = ManualClock()
        timer = SystemTimer("model", clock=self.clock)
        self.purgatory = DelayedOperationPurgatory(
            "model", timer=timer, purge_interval=10**9, shards=shards, reaper=False
        )

    def is_watched(self, number: int) -> bool:
        """Return True if an operation is in a list of the model."""
        return any(number in numbers for numbers in self.model.values())

    def has_ended(self, number: int) -> bool:
        """Return True if an operation has ended."""
        return self.requests[number].is_completed

    def remember(self, number: int) -> None:
        """Record an ended operation for the next purge."""
        if self.is_watched(number):
            self.remembered.append(number)
            if len(self.remembered) > self.most:
                self.remembered = list(filter(self.is_watched, self.remembered))
                self.most = max(self.few_chosen, 2 * len(self.remembered))

    def drop(self, number: int) -> None:
        """Take an operation out of all lists of the model."""
        for key, numbers in self.model.items():
            self.model[key] = [each for each in numbers if each != number]

    # -- operations

    @rule(
        keys=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5),
        ready=st.sampled_from([False] * 4 + [True]),
    )
    def watch(self, keys: list[str], ready: bool) -> None:
        """Watch some keys, one of them twice perhaps."""
        number = len(self.requests)
        self.requests.append(Request(1000, ready=ready))
        assert self.purgatory.try_complete_else_watch(self.requests[-1], keys) == ready
        if not ready:
            for key in keys:
                self.model[key].append(number)

    @rule(
        keys=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3), count=st.integers(2, 20)
    )
    def watch_many(self, keys: list[str], count: int) -> None:
        """Watch the same keys with several operations."""
        for _ in range(count):
            self.watch(keys, ready=False)

    @precondition(lambda self: self.requests)
    @rule(numbers=st.lists(NUMBERS, min_size=1, max_size=8))
    def get_ready(self, numbers: list[int]) -> None:
        """Let the next check complete some operations."""
        for number in numbers:
            self.requests[number % len(self.requests)].ready = True

    @precondition(lambda self: self.requests)
    @rule(numbers=st.lists(NUMBERS, min_size=1, max_size=8), cancelled=st.booleans())
    def end(self, numbers: list[int], cancelled: bool) -> None:
        """End some operations without checking a list."""
        for each in numbers:
            number = each % len(self.requests)
            request = self.requests[number]
            had_ended = self.has_ended(number)
            assert (request.cancel() if cancelled else request.force_complete()) is not had_ended
            if not had_ended:
                self.remember(number)

    @rule(ms=st.sampled_from([1, 400, 1000]))
    def expire(self, ms: int) -> None:
        """Advance the clock, so that some operations expire."""
        before = [number for number in range(len(self.requests)) if not self.has_ended(number)]
        self.clock.advance(ms)
        self.purgatory.advance_clock(0)
        for number in before:
            if self.has_ended(number):
                self.remember(number)

    @precondition(lambda self: self.requests)
    @rule(number=NUMBERS)
    def discard(self, number: int) -> None:
        """End one operation and remove it from every list at once."""
        number %= len(self.requests)
        had_ended = self.has_ended(number)
        assert self.purgatory._discard(self.requests[number]) is not had_ended
        if not had_ended:
            self.remember(number)
        self.drop(number)

    # -- keys

    @rule(key=st.sampled_from("abcdef"))
    def check_key(self, key: str) -> None:
        """Try those that watch a key.

        Those that have ended leave its list, and are left to the purge for the others.
        """
        ending = [
            number
            for number in dict.fromkeys(self.model[key])
            if self.requests[number].ready and not self.has_ended(number)
        ]
        before = list(self.model[key])
        assert self.purgatory.check_and_complete(key) == len(ending)
        for number in before:
            if self.has_ended(number):
                self.model[key].remove(number)
                if number in ending:
                    ending.remove(number)
                    self.remember(number)

    @rule(key=st.sampled_from("abcdef"))
    def cancel_for_key(self, key: str) -> None:
        """Cancel a key's watchers and remove its list."""
        numbers = self.model[key]
        cancelled = [number for number in dict.fromkeys(numbers) if not self.has_ended(number)]
        found = self.purgatory.cancel_for_key(key)
        assert found == [self.requests[number] for number in cancelled]
        self.model[key] = []
        for number in cancelled:
            self.remember(number)

    @rule()
    def purge(self) -> None:
        """Purge; all ended operations are removed, and nothing else."""
        ended = [
            number
            for numbers in self.model.values()
            for number in numbers
            if self.has_ended(number)
        ]
        assert self.purgatory.purge() == len(ended)
        for number in ended:
            self.drop(number)
        self.remembered = []

    # -- after each step

    @invariant()
    def agrees(self) -> None:
        """Compare lists and counts, and check that no ended operation is forgotten."""
        purgatory = self.purgatory
        check_invariants(purgatory)
        for key, numbers in self.model.items():
            assert purgatory.num_watchers(key) == len(numbers)
            shard = purgatory._table.shard_of(key)
            watchers = shard.get(key)
            found = [] if watchers is None else shard.operations_of(watchers)
            assert found == [self.requests[number] for number in numbers]
        assert purgatory.watched == sum(map(len, self.model.values()))
        pending = [request for request in self.requests if not request.is_completed]
        assert purgatory.num_delayed == len(pending)
        assert purgatory._backlog.chain.length == len(self.remembered)
        left = {
            number
            for number in range(len(self.requests))
            if self.is_watched(number) and self.has_ended(number)
        }
        assert left <= set(self.remembered)

    def teardown(self) -> None:
        """Shut down; nothing is left."""
        purge_backlog._MIN_SHRINK_LENGTH = self.few
        if hasattr(self, "purgatory"):
            pending = {id(request) for request in self.requests if not request.is_completed}
            assert {id(request) for request in self.purgatory.close()} == pending
            assert (self.purgatory.watched, self.purgatory._backlog.chain.length) == (0, 0)


@pytest.mark.explore
@pytest.mark.parametrize("machine", [OneShard, Purging], ids=["lists", "purge"])
def test_watcher_lists_agree_with_the_model(
    machine: type[RuleBasedStateMachine], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(
        logging.CRITICAL, "request_purgatory"
    )  # Keys that can't be looked up are logged.
    run_state_machine_as_test(machine, settings=examples(150, stateful_step_count=40))
