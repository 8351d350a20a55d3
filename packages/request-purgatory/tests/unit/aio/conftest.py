"""Fixtures of the tests on event loops."""

from __future__ import annotations

import pytest

from tests.unit.aio.scenes import Scenario
from tests.unit.aio.virtual import VirtualLoop, VirtualWheelLoop, run


@pytest.fixture(params=[VirtualLoop, VirtualWheelLoop], ids=["heap", "wheel"])
def play(request: pytest.FixtureRequest) -> Scenario:
    """Return a function that runs a scenario on a virtual loop, with and without wheel timers."""
    return lambda scenario: run(scenario, request.param)
