"""The driver of a replay is part of the compiled core where the core is compiled."""

from __future__ import annotations

import request_purgatory
from request_purgatory.pipeline.outcomes import replay_driver
from request_purgatory.pipeline.traces.schema import AGGREGATES


def test_driver_is_of_the_same_build_as_the_core() -> None:
    """A replay of a compiled purgatory by an interpreted driver would measure the driver."""
    assert replay_driver.__file__ is not None
    assert replay_driver.__file__.endswith(".py") != request_purgatory.__compiled__


def test_aggregates_of_a_key() -> None:
    """By the position of their names in the schema.

    What came in the instant itself counts for who comes in it.
    """
    key = replay_driver.KeyState()
    key.take_in(3.0, 10)
    key.take_in(2.0, 20)
    key.take_in(1.0, 20)
    expected = {"count": (3, 1, 3), "sum": (6, 3, 6), "max": (3, 0, 0)}
    for aggregate, name in enumerate(AGGREGATES):
        assert (key.now(aggregate), key.since(aggregate, 20), key.since(aggregate, 21)) == expected[
            name
        ]
