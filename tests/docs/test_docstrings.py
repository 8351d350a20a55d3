"""Documented names say what they do."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.test_reference import PAGES

#: Packages whose names are described here; others come with a base class, such as of exceptions.
OURS = ("request_purgatory", "purgatory_broker", "purgatory_spark")


def documented() -> Iterator[tuple[str, Any]]:
    """Yield each documented class, function and public method, with its full name."""
    for module in PAGES:
        imported = importlib.import_module(module)
        for name in imported.__all__:
            value = getattr(imported, name)
            if not (inspect.isclass(value) or inspect.isroutine(value)):
                continue
            yield f"{module}.{name}", value
            if inspect.isclass(value):
                for member, function in vars(value).items():
                    if not member.startswith("_") and inspect.isroutine(function):
                        yield f"{module}.{name}.{member}", function


@pytest.mark.parametrize(
    ("name", "value"), [pytest.param(*each, id=each[0]) for each in documented()]
)
def test_documented_name_has_a_docstring(name: str, value: Any) -> None:
    text = inspect.getdoc(value)
    assert text, f"{name} has no docstring"
    assert text[0].isupper() or text.startswith("`")
    assert text.splitlines()[0].endswith((".", ":"))
