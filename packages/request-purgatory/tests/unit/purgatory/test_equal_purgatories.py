"""Purgatories whose class defines equality are told apart all the same."""

from __future__ import annotations

import gc
import json
import weakref

import pytest

from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer
from request_purgatory._native.forks import IdentityRef, living
from request_purgatory.dashboard._sample_history import SampleHistory
from request_purgatory.dashboard._shown import Shown
from request_purgatory.metrics._process_metrics import ProcessMetrics
from request_purgatory.purgatory import _nested_checks as nested_checks
from tests.support.children import in_child
from tests.support.garbage import Payload
from tests.support.requests import Request


class Named(DelayedOperationPurgatory):
    """Equal to all of its name."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> list[Named]:
    """Return two equal purgatories, each with a request that waits."""
    made = [
        Named(request.node.name, timer=SystemTimer("test", clock=ManualClock()), reaper=False)
        for _ in range(2)
    ]
    for purgatory in made:
        purgatory.try_complete_else_watch(Request(1_000), ["a"])
    return made


def test_both_are_known(pair: list[Named]) -> None:
    assert {id(one) for one in living(Named)} >= {id(one) for one in pair}


def test_both_are_counted(pair: list[Named]) -> None:
    metrics = ProcessMetrics()
    assert metrics.purgatories()[pair[0].name].num_delayed_operations == 2
    history = SampleHistory(Shown(pair), ManualClock())
    pair[1].try_complete_else_watch(Request(1_000), ["a"])
    pair[1].cancel_for_key("a")
    history.take()
    (sample,) = json.loads(history.since(0))
    counts = sample["purgatories"][pair[0].name]
    assert (counts["pending"], counts["cancelled"]) == (1, 2)


def test_both_are_reset_in_a_forked_child(pair: list[Named]) -> None:
    def child() -> None:
        assert [purgatory.num_delayed for purgatory in pair] == [0, 0]

    in_child(child)
    assert [purgatory.num_delayed for purgatory in pair] == [1, 1]


def test_both_are_freed_as_rings(pair: list[Named]) -> None:
    ghosts = []
    for purgatory in pair:
        payload = Payload()
        payload.ring = purgatory
        purgatory.try_complete_else_watch(Request(1_000, complete=payload), ["a"])
        ghosts.append(weakref.ref(payload))
    del purgatory, payload
    pair.clear()
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None]


def test_checks_of_both_are_postponed(pair: list[Named]) -> None:
    for purgatory in pair:
        nested_checks.postpone(1, purgatory, "a")
        (request,) = purgatory._watching("a")
        assert isinstance(request, Request)
        request.ready = True
    nested_checks.check_postponed(1)
    assert [purgatory.num_delayed for purgatory in pair] == [0, 0]


def test_reference_is_equal_to_those_of_the_same_object_only(pair: list[Named]) -> None:
    first, again, other = IdentityRef(pair[0]), IdentityRef(pair[0]), IdentityRef(pair[1])
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert first != pair[0]
    pair.clear()
    gc.collect()
    assert first == first
    assert first != again
