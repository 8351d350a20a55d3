"""The watcher lists, and what a purge takes out of them, against dicts and lists."""

from __future__ import annotations

import logging
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
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
)
from request_purgatory.purgatory import purge_backlog
from request_purgatory.purgatory.watch import Watch, WatcherList
from request_purgatory.purgatory.watch_table import WatchShard
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
    """Compares one shard's lists with a dict of lists of watch numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = WatchShard(3)
        self.odd = Odd()
        self.keys: list[Hashable] = ["a", "b", 1, (1, None), self.odd, 1.0]
        #: Lists by the key's index above; 1 and 1.0 are one key to a dict.
        self.model: dict[int, list[int]] = {}
        #: True if the odd key's list was emptied while the key had no hash, and stayed in the map.
        self.left_behind = False
        self.operations: list[Request] = []
        #: The newest watch of each operation, which is chained to the others.
        self.chains: list[Watch | None] = []
        self.watches: list[Watch] = []
        self.owners: list[int] = []
        self.walks: list[tuple[list[Watch], list[int]]] = []

    def numbers(self) -> set[int]:
        """Return the numbers of the watches in a list."""
        return {number for numbers in self.model.values() for number in numbers}

    def is_lost(self, place: int) -> bool:
        """Return True for the odd key while it can't be looked up."""
        return self.keys[place] is self.odd and self.odd.failing

    def forget(self, number: int) -> None:
        """Remove a watch from the model."""
        for place, numbers in list(self.model.items()):
            if number in numbers:
                numbers.remove(number)
                if not numbers:
                    del self.model[place]
                    assert self.watches[number].watchers.removed, (
                        "a thread that has the list would add to it"
                    )
                    self.left_behind = self.left_behind or self.is_lost(place)

    def owners_of(self, numbers: list[int]) -> list[DelayedOperation]:
        """Return the operations of some watches."""
        return [self.operations[self.owners[number]] for number in numbers]

    # -- watching

    @rule(place=st.integers(0, 5), number=st.none() | NUMBERS)
    def watch(self, place: int, number: int | None) -> None:
        """Watch a key for a new operation, or for one that watches others already."""
        if number is None or not self.operations:
            number = len(self.operations)
            self.operations.append(Request())
            self.chains.append(None)
        number %= len(self.operations)
        operation, sibling = self.operations[number], self.chains[number]
        if self.is_lost(place):
            with pytest.raises(ValueError, match="no hash"):
                self.lists.watch(self.keys[place], operation, sibling)
            return
        watch = self.lists.watch(self.keys[place], operation, sibling)
        assert watch.sibling is sibling
        self.chains[number] = watch
        self.model.setdefault(2 if place == 5 else place, []).append(len(self.watches))
        self.watches.append(watch)
        self.owners.append(number)
        if self.keys[place] is self.odd:
            self.left_behind = False

    @rule()
    def leave_the_odd_keys_list_behind(self) -> None:
        """Empty the odd key's list while the key has no hash."""
        self.odd.failing = False
        self.watch(4, None)
        self.odd.failing = True
        for number in list(self.model[4]):
            self.drop(number)
        self.odd.failing = False

    @rule(failing=st.booleans())
    def change_the_odd_key(self, failing: bool) -> None:
        """Let the odd key have a hash, or none."""
        self.odd.failing = failing

    # -- removing

    @precondition(lambda self: self.watches)
    @rule(number=NUMBERS)
    def drop(self, number: int) -> None:
        """Take out any watch, or one that is out already."""
        number %= len(self.watches)
        assert self.lists.drop(self.watches[number]) == (number in self.numbers())
        self.forget(number)

    @precondition(lambda self: self.operations)
    @rule(number=NUMBERS)
    def drop_all_of_an_operation(self, number: int) -> None:
        """Remove all watches of an operation, from the newest on."""
        number %= len(self.operations)
        watch = self.chains[number]
        for met in reversed([each for each, owner in enumerate(self.owners) if owner == number]):
            assert watch is self.watches[met]
            assert self.lists.drop(watch) == (met in self.numbers())
            self.forget(met)
            watch = watch.sibling
        assert watch is None

    @rule(place=st.integers(0, 5))
    def remove(self, place: int) -> None:
        """Remove a key with all its watchers."""
        if self.is_lost(place):
            with pytest.raises(ValueError, match="no hash"):
                self.lists.remove(self.keys[place])
            return
        numbers = self.model.pop(2 if place == 5 else place, [])
        assert self.lists.remove(self.keys[place]) == self.owners_of(numbers)

    @rule()
    def remove_all(self) -> None:
        """Empty the shard."""
        removed = Counter(map(id, self.lists.remove_all()))
        everything = [number for numbers in self.model.values() for number in numbers]
        assert removed == Counter(map(id, self.owners_of(everything)))
        self.model.clear()
        self.left_behind = False

    # -- walking

    @rule(place=st.integers(0, 5))
    def begin_a_walk(self, place: int) -> None:
        """Take the watches of a key, to compare them after later changes."""
        if not self.is_lost(place):
            numbers = self.model.get(2 if place == 5 else place, [])
            self.walks.append((self.lists.watches(self.keys[place]), list(numbers)))

    @precondition(lambda self: self.walks)
    @rule()
    def end_a_walk(self) -> None:
        """Check that the walk's watches are unchanged; removed ones have no operation."""
        watches, numbers = self.walks.pop(0)
        here = self.numbers()
        assert watches == [self.watches[number] for number in numbers]
        assert [self.lists.operation_of(watch) for watch in watches] == [
            self.operations[self.owners[number]] if number in here else None for number in numbers
        ]

    # -- after each step

    @invariant()
    def agrees(self) -> None:
        """Keys, lists, their order, counts."""
        lists, model = self.lists, self.model
        assert lists.size == sum(map(len, model.values()))
        assert lists.num_keys == len(model) + self.left_behind
        watches = [watch for each in lists.lists() for watch in lists.watches_of(each)]
        found = Counter(id(lists.operation_of(watch)) for watch in watches)
        assert found == Counter(map(id, self.owners_of(list(self.numbers()))))
        for place, key in enumerate(self.keys):
            if self.is_lost(place):
                continue
            numbers = model.get(2 if place == 5 else place, [])
            watchers = lists.get(key)
            if watchers is None:
                assert not numbers
                continue
            self.agrees_with_list(watchers, numbers)
            assert watchers.removed == (not numbers)
            assert lists.watches(key) == [self.watches[number] for number in numbers]
        for number, watch in enumerate(self.watches):
            assert (watch.operation is None) == (number not in self.numbers())
        if not self.left_behind:
            lists.check_invariants()

    def agrees_with_list(self, watchers: WatcherList, numbers: list[int]) -> None:
        """Compare one list with the model's."""
        watches = [self.watches[number] for number in numbers]
        assert (watchers.size, watchers.shard) == (len(numbers), 3)
        assert self.lists.watches_of(watchers) == watches
        assert self.lists.only_watch(watchers) is (watches[0] if len(watches) == 1 else None)
        assert all(watch.watchers is watchers for watch in watches)


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
        assert self.purgatory.discard(self.requests[number]) is not had_ended
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
        purgatory._check_invariants()
        for key, numbers in self.model.items():
            assert purgatory.num_watchers(key) == len(numbers)
            shard = purgatory._table.shard_of(key)
            found = [shard.operation_of(watch) for watch in shard.watches(key)]
            assert found == [self.requests[number] for number in numbers]
        assert purgatory.watched == sum(map(len, self.model.values()))
        pending = [request for request in self.requests if not request.is_completed]
        assert purgatory.num_delayed == len(pending)
        assert len(purgatory._backlog) == len(self.remembered)
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
            assert (self.purgatory.watched, len(self.purgatory._backlog)) == (0, 0)


@pytest.mark.explore
@pytest.mark.parametrize("machine", [OneShard, Purging], ids=["lists", "purge"])
def test_watcher_lists_agree_with_the_model(
    machine: type[RuleBasedStateMachine], caplog: pytest.LogCaptureFixture
) -> None:
    """After each step, watchers, their order and purged operations are the model's."""
    caplog.set_level(
        logging.CRITICAL, "request_purgatory"
    )  # Keys that can't be looked up are logged.
    run_state_machine_as_test(machine, settings=examples(150, stateful_step_count=40))
