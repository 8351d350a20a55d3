"""A short campaign is clean.

One with a broken purgatory, an operation that ends otherwise, or a leak is not.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.soak.campaign import Campaign
from benchmarks.soak.plan import Plan, can_interrupt
from benchmarks.soak.probe import TimedProbe
from benchmarks.soak.world import Design
from request_purgatory import DelayedOperation, DelayedOperationPurgatory, PurgatoryMetrics

#: Stops a campaign whose fault is not found.
TIME_LIMIT = 20.0
OPERATIONS = 4000


@pytest.fixture(autouse=True)
def _restored_switch_interval() -> Iterator[None]:
    interval = sys.getswitchinterval()
    yield
    assert sys.getswitchinterval() == interval


def play(
    design: Design = DelayedOperationPurgatory, *, seed: int = 1, **plan: Any
) -> dict[str, Any]:
    """A campaign of a few rounds."""
    fields = {"operations": OPERATIONS, "steps": (400,), "seconds": TIME_LIMIT} | plan
    return Campaign(Plan(seed, **fields), design).run()


class Watching(DelayedOperationPurgatory):
    """A purgatory that does something else with one operation in 50."""

    entered = 0

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        self.entered += 1
        # Not one that expires within a round: that its timeout is lost is known after 30 s only.
        if self.entered % 50 or not hasattr(operation, "calls") or operation.delay_ms < 1000:
            return super().try_complete_else_watch(operation, watch_keys)
        return self.spoil(operation, watch_keys)

    def spoil(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        raise NotImplementedError


class NeverEnds(Watching):
    """Forgets an operation."""

    def spoil(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        return False


class EndsTwice(Watching):
    """Answers an operation that is going to be answered once more."""

    def spoil(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        operation.on_complete()
        return super(Watching, self).try_complete_else_watch(operation, watch_keys)


class ExpiresEarly(DelayedOperationPurgatory):
    """Lets operations expire at once."""

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        completed = super().try_complete_else_watch(operation, watch_keys)
        if type(operation) is TimedProbe and operation.delay_ms > 10:
            operation.run()
        return completed


class MissesEvents(DelayedOperationPurgatory):
    """Overlooks one event in ten."""

    checks = 0

    def check_and_complete(self, key: Hashable) -> int:
        self.checks += 1
        return super().check_and_complete(key) if self.checks % 10 else 0


class CountsWrong(DelayedOperationPurgatory):
    """Counts a thousand completions too many."""

    def metrics(self) -> PurgatoryMetrics:
        metrics = super().metrics()
        return replace(metrics, completions=metrics.completions + 1000)


def test_campaign_is_clean() -> None:
    """All kinds of operations end in all ways, and nothing is wrong with any."""
    result = play(signals=can_interrupt(), forks=hasattr(os, "fork"))
    assert result["problem"] is None
    assert result["operations"] >= OPERATIONS
    kinds = {
        "Probe",
        "TimedProbe",
        "FaultyProbe",
        "ChainedProbe",
        "QuorumProbe",
        "hold",
        "call_later",
        "task",
    }
    assert result["by_kind"].keys() == kinds | {"aio hold", "aio wait"}
    assert result["by_outcome"].keys() == {"completed", "expired", "cancelled"}
    assert (
        sum(result["by_kind"].values())
        == sum(result["by_outcome"].values())
        == result["operations"]
    )


@pytest.mark.parametrize(
    ("design", "problem"),
    [
        (NeverEnds, "it has not ended|the last event did not complete it|must be one of purgatory"),
        (EndsTwice, "its callbacks were: on_complete on_"),
        (ExpiresEarly, "before its time"),
        (MissesEvents, "the last event did not complete it"),
        (CountsWrong, "the purgatory's metrics say"),
    ],
)
def test_broken_purgatory_is_found(design: Design, problem: str) -> None:
    """The campaign stops at the first operation that has not ended as it should have."""
    result = play(design, operations=None)
    assert re.search(problem, str(result["problem"]))
    assert "'round': " in str(result["problem"])
    assert result["seconds"] < TIME_LIMIT


def test_leak_is_found() -> None:
    """A purgatory that keeps 10 kB for each operation grows out of what is allowed."""
    kept: list[bytes] = []

    class Leaks(DelayedOperationPurgatory):
        def try_complete_else_watch(
            self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
        ) -> bool:
            kept.append(bytes(10_000))
            return super().try_complete_else_watch(operation, watch_keys)

    result = play(Leaks, operations=120_000, steps=(200,), sample_s=0.001)
    assert "memory grew" in str(result["problem"])


def test_processes_share_the_operations() -> None:
    """Each has a seed of its own, the first one that of the campaign."""
    assert Plan(7, 1.0).for_process(0, 2).seed == 7
    assert Plan(7, 1.0).for_process(1, 2).seed != 7
    assert Plan(7, 1.0, 11).for_process(1, 2).operations == 6
