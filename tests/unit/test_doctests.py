"""The examples in docstrings do what they say, on either build."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import request_purgatory

NEED_SPARK = (".cli", ".pipeline", ".published_benchmark")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(request_purgatory.__path__, "request_purgatory.")
    if not any(part in module.name for part in NEED_SPARK) and not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    """The examples of each module that does not need Spark pass."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    """Docstrings of compiled classes have examples, too."""
    attempted = sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)
    assert attempted >= 20, f"only {attempted} examples were found"
