"""The queue of what is to be done once the state is whole."""

from __future__ import annotations

import logging

import pytest

from request_purgatory.broker.groups.deferred_actions import ActionQueue
from tests.support.requests import Fault


def test_actions_run_at_the_end_of_the_outermost_block_in_their_order() -> None:
    """Those that are added by actions, too."""
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


def test_action_that_raises_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged."""
    actions = ActionQueue()
    done: list[str] = []

    def fail() -> None:
        raise Fault

    with caplog.at_level(logging.ERROR), actions:
        actions.add(fail)
        actions.add(lambda: done.append("next"))
    assert done == ["next"]
    assert "fail" in caplog.text


def test_action_outside_of_every_block_is_refused() -> None:
    """It would never run."""
    with pytest.raises(AssertionError, match="never run"):
        ActionQueue().add(print)


def test_actions_run_though_the_block_raises() -> None:
    """Who was promised an answer gets it."""
    actions = ActionQueue()
    done: list[str] = []

    def block() -> None:
        with actions:
            actions.add(lambda: done.append("answered"))
            raise Fault

    with pytest.raises(Fault):
        block()
    assert done == ["answered"]
