"""The examples in docstrings do what they say, on either build."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import request_purgatory

MODULES = [
    module.name
    for module in pkgutil.walk_packages(request_purgatory.__path__, "request_purgatory.")
]


def import_or_missing(name: str) -> ModuleType | str:
    """Import a module; return the name of the package of an extra that is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if missing.startswith("request_purgatory"):
            raise
        return missing


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = import_or_missing(name)
    if isinstance(module, str):
        pytest.skip(f"the package {module} of an extra is not installed")
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    modules = [import_or_missing(name) for name in MODULES]
    attempted = sum(
        doctest.testmod(module).attempted for module in modules if isinstance(module, ModuleType)
    )
    assert attempted >= 20, f"only {attempted} examples were found"
