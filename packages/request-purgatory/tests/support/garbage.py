"""What tests of the cyclic collector use: rings, and collections at a known time."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from request_purgatory import ManualClock, SystemTimer


class Payload:
    """Something that a callback refers to, which may refer to anything."""

    def __init__(self) -> None:
        self.ring: object = None

    def __call__(self, *args: object) -> None:
        """Do nothing, as a callback."""


@pytest.fixture
def collector_at_rest() -> Iterator[None]:
    """Collect only where the test asks for it, so that nothing is freed by chance."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def make_timer() -> tuple[SystemTimer, ManualClock]:
    clock = ManualClock()
    return SystemTimer("leaks", clock=clock), clock


def collect_automatically(enough: Callable[[], bool]) -> None:
    """Allocate until `enough` is true, so that the interpreter starts full collections by itself.

    It does so once the objects that survived are a quarter more than at the last one.

    Args:
        enough: Called now and then.
    """
    kept: list[object] = []
    most = 2 * len(gc.get_objects()) + 1_000_000
    gc.enable()
    try:
        while len(kept) < most and not enough():
            kept.extend([] for _ in range(1_000))
    finally:
        gc.disable()
    assert enough(), f"no collection did it within {most:,} allocations"
