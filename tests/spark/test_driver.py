"""Tests of the replay driver's build and of its key states."""

from __future__ import annotations

import request_purgatory
from request_purgatory.pipeline.outcomes import replay_driver
from request_purgatory.pipeline.traces.schema import AGGREGATES


def test_driver_is_compiled_if_the_core_is() -> None:
    """Otherwise a replay would mostly measure the driver."""
    assert replay_driver.__file__ is not None
    assert replay_driver.__file__.endswith(".py") != request_purgatory.__compiled__


def test_value_and_baseline_of_a_key() -> None:
    """Aggregates are numbered as in the schema; events of the arrival's instant count."""
    key = replay_driver.KeyState()
    key.add(3.0, 10)
    key.add(2.0, 20)
    key.add(1.0, 20)
    expected = {"count": (3, 1, 3), "sum": (6, 3, 6), "max": (3, 0, 0)}
    for aggregate, name in enumerate(AGGREGATES):
        at_event, after_event = key.baseline(aggregate, 20), key.baseline(aggregate, 21)
        assert (key.value(aggregate), at_event, after_event) == expected[name]
