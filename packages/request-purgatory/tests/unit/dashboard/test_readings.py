"""Samples and what waits now: sums and limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from request_purgatory import ManualClock, SystemTimer
from request_purgatory.dashboard import _present as present_module
from request_purgatory.dashboard import _sample_history as sample_history
from request_purgatory.dashboard._present import present
from request_purgatory.dashboard._sample_history import SampleHistory
from request_purgatory.dashboard._shown import Shown
from request_purgatory.testing import ManualPurgatory


def never() -> bool:
    """Return False: a condition."""
    return False


def samples(history: SampleHistory, seen: int = 0) -> list[dict[str, Any]]:
    """Return the samples of a history."""
    found: list[dict[str, Any]] = json.loads(history.since(seen))
    return found


def test_purgatories_of_one_name_are_added_up(clock: ManualClock) -> None:
    one, other = ManualPurgatory("orders"), ManualPurgatory("orders")
    history = SampleHistory(Shown([one, other]), clock)
    for purgatory in (one, other):
        purgatory.hold(["k"], until=never, timeout=1)
        purgatory.hold(["at-once"], until=lambda: True, timeout=1)
    clock.advance(1_000)
    history.take()
    one.advance(1)
    other.cancel_for_key("k")
    clock.advance(500)
    history.take()
    first = {"pending": 2, "arrived": 4, "completed": 2, "waits": [[0, 2]]}
    second = {"expired": 1, "cancelled": 1, "waits": [[0, 1], [317, 1]]}
    assert samples(history) == [
        {"at_ms": 1_000, "span_ms": 1_000, "purgatories": {"orders": first}},
        {"at_ms": 1_500, "span_ms": 500, "purgatories": {"orders": second}},
    ]
    assert samples(history, 1) == samples(history)[1:]
    assert samples(history, 2) == []


def test_history_and_its_names_are_bounded(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_history, "MAX_NAMES", 2)
    purgatories = [ManualPurgatory(f"p{index}") for index in range(4)]
    for index, purgatory in enumerate(purgatories):
        for _ in range(index):
            purgatory.hold(["k"], until=never, timeout=1)
    history = SampleHistory(Shown(purgatories), clock)
    for _ in range(sample_history.LENGTH + 3):
        history.take()
    found = samples(history)
    assert len(found) == sample_history.LENGTH
    assert found[-1]["purgatories"] == {
        "p3": {"pending": 3},
        "p2": {"pending": 2},
        sample_history.OTHERS: {"pending": 1},
    }
    # A page that has missed more samples than are kept gets those that are.
    assert len(samples(history, 1)) == sample_history.LENGTH
    assert len(samples(history, history.taken - 2)) == 2


def test_tables_are_bounded_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present_module, "MAX_ROWS", 3)
    monkeypatch.setattr(present_module, "MAX_PURGATORIES", 2)
    monkeypatch.setattr(present_module, "MAX_TIMERS", 2)
    purgatories = [ManualPurgatory(f"p{index}") for index in range(4)]
    for index, purgatory in enumerate(purgatories):
        for number in range(index + 1):
            purgatory.hold([f"k{number}"], until=never, timeout=None if index == 3 else 10)
            purgatory.advance(1)
    found = present(Shown(purgatories))
    assert [each["name"] for each in found["purgatories"]] == ["p3", "p2"]
    assert found["others"] == 2
    assert [each["name"] for each in found["timers"]] == ["p3", "p2"]
    assert [each["waited_ms"] for each in found["longest"]] == [4_000, 3_000, 3_000]
    assert [(each["purgatory"], each["count"]) for each in found["by_type"]] == [
        ("p3", 4),
        ("p2", 3),
        ("p1", 2),
    ]
    assert len(found["by_key"]) == 3
    json.dumps(found)


def test_timer_of_several_purgatories_is_shown_once(clock: ManualClock) -> None:
    timer = SystemTimer("shared", clock=clock)
    shown = Shown([timer, timer])
    assert shown.timers() == [timer]
    assert shown.purgatories() == []
    (found,) = present(shown)["timers"]
    assert found == {"name": "shared", "pending": 0, "wheels": []}
