"""The queue of deferred actions."""

from __future__ import annotations

import logging

import pytest

from purgatory_broker.deferred_actions import ActionQueue
from tests.support.requests import Fault


def test_actions_run_in_order_when_the_outermost_block_ends() -> None:
    actions = ActionQueue()
    done: list[str] = []

    def enter_again() -> None:
        with actions:
            actions.add(lambda: done.append("third"))
        done.append("first")

    with actions:
        with actions:
            actions.add(enter_again)
        actions.add(lambda: done.append("second"))
        assert done == []
    assert done == ["first", "second", "third"]


def test_action_that_raises_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    actions = ActionQueue()
    done: list[str] = []

    def fail() -> None:
        raise Fault

    with caplog.at_level(logging.ERROR), actions:
        actions.add(fail)
        actions.add(lambda: done.append("next"))
    assert done == ["next"]
    assert "fail" in caplog.text


def test_add_outside_of_a_block_is_rejected() -> None:
    """Nothing would run the action."""
    with pytest.raises(AssertionError, match="inside a `with` block"):
        ActionQueue().add(print)


def test_actions_run_if_the_block_raises() -> None:
    actions = ActionQueue()
    done: list[str] = []

    def block() -> None:
        with actions:
            actions.add(lambda: done.append("replied"))
            raise Fault

    with pytest.raises(Fault):
        block()
    assert done == ["replied"]
