"""Which build of the core is loaded: asserted, not assumed."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES

import request_purgatory.timer.wheel


def test_the_build_that_was_asked_for_is_loaded() -> None:
    """The variable REQUEST_PURGATORY_EXPECT says "interpreted", unless it says "compiled"."""
    expected = os.environ.get("REQUEST_PURGATORY_EXPECT", "interpreted")
    suffixes = {"interpreted": (".py",), "compiled": tuple(EXTENSION_SUFFIXES)}[expected]
    file = request_purgatory.timer.wheel.__file__
    assert file is not None
    assert file.endswith(suffixes), f"expected the {expected} build, found {file}"
