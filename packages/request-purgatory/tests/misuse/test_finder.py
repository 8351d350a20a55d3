"""The finder itself: it sees a crash, a call that hangs, an error from inside, and damage."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.misuse import outcomes
from tests.misuse.calls import CALL, RIGHT_ARGUMENTS, Call, wrong_calls
from tests.misuse.outcomes import RETURNED, outcomes_of
from tests.misuse.subjects import CALLABLES, RIGHT, World

Planted = Callable[[str, Callable[..., object]], Call]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    """Return a function that adds a callable, and returns its right call."""

    def plant(name: str, target: Callable[..., object]) -> Call:
        monkeypatch.setitem(CALLABLES, name, target)
        return Call(name, "", CALL, RIGHT_ARGUMENTS)

    return plant


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang() -> None:
    signal.pause()


def fail_inside() -> None:
    os.environ["REQUEST_PURGATORY_NO_SUCH_NAME"]


def test_crash_is_of_the_call_that_crashed(planted: Planted) -> None:
    calls = [planted("before", int), planted("crash", crash), planted("after", int)]
    assert [outcome.kind for outcome in outcomes_of(calls)] == [RETURNED, "SIGSEGV", RETURNED]


def test_call_that_hangs_ends_at_the_time_limit(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "TIME_LIMIT", 0.2)
    [outcome] = outcomes_of([planted("hang", hang)])
    assert (outcome.kind, outcome.ended_process) == ("SIGALRM", True)


def test_error_from_inside_is_not_documented(planted: Planted) -> None:
    [outcome] = outcomes_of([planted("fail", fail_inside)])
    assert (outcome.kind, outcome.is_documented) == ("KeyError", False)


def test_lost_request_is_damage(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(world: World) -> None:
        world.request.calls.append("complete")

    monkeypatch.setitem(RIGHT, "world", lambda world: world)
    [outcome] = outcomes_of([planted("lose", lose)])
    assert outcome.damage.startswith("AssertionError: a pending request has been answered")


def test_each_argument_gets_each_value() -> None:
    def target(first: Any, second: Any = None, *, third: Any = None) -> None:
        """Take anything."""

    calls = [str(call) for call in wrong_calls("target", "", target, ["None", "-1"])]
    assert calls == [
        "target(right)",
        "target(no argument)",
        "target(one more argument)",
        "target(unknown keyword)",
        *(
            f"target({name}={value})"
            for name in ("first", "second", "third")
            for value in ("None", "-1")
        ),
    ]
