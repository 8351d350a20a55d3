"""Short campaigns, with correct and with broken purgatories."""

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
from benchmarks.soak.probe import QuorumProbe, TimedProbe
from benchmarks.soak.round_state import PurgatoryFactory
from request_purgatory import DelayedOperation, DelayedOperationPurgatory, PurgatoryMetrics

#: Seconds after which a campaign ends if the fault is not found.
TIME_LIMIT = 20.0
OPERATIONS = 4000


@pytest.fixture(autouse=True)
def _restored_switch_interval() -> Iterator[None]:
    interval = sys.getswitchinterval()
    yield
    assert sys.getswitchinterval() == interval


def run_campaign(
    make_purgatory: PurgatoryFactory = DelayedOperationPurgatory, *, seed: int = 1, **plan: Any
) -> dict[str, Any]:
    """Run a campaign of a few rounds."""
    fields = {"operations": OPERATIONS, "steps": (400,), "seconds": TIME_LIMIT} | plan
    return Campaign(Plan(seed, **fields), make_purgatory).run()


class SometimesBroken(DelayedOperationPurgatory):
    """A purgatory that handles one operation in 50 wrongly."""

    entered = 0

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        self.entered += 1
        # Not one that expires within a round: its lost timeout is reported after 30 s only.
        if self.entered % 50 or not hasattr(operation, "calls") or operation.delay_ms < 1000:
            return super().try_complete_else_watch(operation, watch_keys)
        return self.watch_wrongly(operation, watch_keys)

    def watch_wrongly(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        raise NotImplementedError


class NeverEnds(SometimesBroken):
    """Loses an operation."""

    def watch_wrongly(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        return False


class EndsTwice(SometimesBroken):
    """Calls the callback of an operation that ends later."""

    def watch_wrongly(self, operation: DelayedOperation, watch_keys: Iterable[Hashable]) -> bool:
        if not isinstance(operation, QuorumProbe):  # A quorum asserts by itself that it ends once.
            operation.on_complete()
        return super(SometimesBroken, self).try_complete_else_watch(operation, watch_keys)


class ExpiresEarly(DelayedOperationPurgatory):
    """Expires operations at once."""

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        completed = super().try_complete_else_watch(operation, watch_keys)
        if type(operation) is TimedProbe and operation.delay_ms > 10:
            self.renew(operation, 0)
        return completed


class MissesEvents(DelayedOperationPurgatory):
    """Ignores one event in ten."""

    checks = 0

    def check_and_complete(self, key: Hashable) -> int:
        self.checks += 1
        return super().check_and_complete(key) if self.checks % 10 else 0


class CountsWrong(DelayedOperationPurgatory):
    """Reports a thousand completions too many."""

    def metrics(self) -> PurgatoryMetrics:
        metrics = super().metrics()
        return replace(metrics, completions=metrics.completions + 1000)


def test_campaign_finds_no_problem() -> None:
    result = run_campaign(signals=can_interrupt(), forks=hasattr(os, "fork"))
    assert result["problem"] is None
    assert result["operations"] >= OPERATIONS
    count_by_kind_and_outcome = {
        "Probe",
        "TimedProbe",
        "FaultyProbe",
        "ChainedProbe",
        "QuorumProbe",
        "hold",
        "call_later_ms",
        "task",
    }
    assert result["by_kind"].keys() == count_by_kind_and_outcome | {"aio hold", "aio wait"}
    assert result["by_outcome"].keys() == {"completed", "expired", "cancelled"}
    assert (
        sum(result["by_kind"].values())
        == sum(result["by_outcome"].values())
        == result["operations"]
    )


@pytest.mark.parametrize(
    ("make_purgatory", "problem"),
    [
        (NeverEnds, "it has not ended|the last event did not complete it|must be one of purgatory"),
        (EndsTwice, "its callbacks were: on_complete on_"),
        (ExpiresEarly, "before its time"),
        (MissesEvents, "the last event did not complete it"),
        (CountsWrong, "the purgatory's metrics say"),
    ],
)
def test_broken_purgatory_is_found(make_purgatory: PurgatoryFactory, problem: str) -> None:
    result = run_campaign(make_purgatory, operations=None)
    assert re.search(problem, str(result["problem"]))
    assert "'round': " in str(result["problem"])
    assert result["seconds"] < TIME_LIMIT


@pytest.mark.slow
def test_leak_is_found() -> None:
    leaked: list[bytes] = []

    class Leaks(DelayedOperationPurgatory):
        def try_complete_else_watch(
            self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
        ) -> bool:
            leaked.append(bytes(10_000))
            return super().try_complete_else_watch(operation, watch_keys)

    result = run_campaign(Leaks, operations=120_000, steps=(200,), sample_s=0.001)
    assert "memory grew" in str(result["problem"])


def test_processes_share_the_operations() -> None:
    assert Plan(7, 1.0).for_process(0, 2).seed == 7
    assert Plan(7, 1.0).for_process(1, 2).seed != 7
    assert Plan(7, 1.0, 11).for_process(1, 2).operations == 6
