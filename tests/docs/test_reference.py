"""The reference has every public name, under the module from which users import it."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from tests.docs.snippets import DOCS

#: Pages of docs/reference by the modules whose `__all__` they have to list.
PAGES = {
    "request_purgatory": "request_purgatory",
    "request_purgatory.aio": "aio",
    "purgatory_broker": "broker",
    "request_purgatory.dashboard": "observing",
    "purgatory_spark": "pipeline",
    "purgatory_spark.stream": "streams",
    "request_purgatory.servers": "request_purgatory",
    "request_purgatory.snapshot": "observing",
}
#: Names that another page has, or that a page describes in words.
ELSEWHERE = {"__compiled__", "__version__", "PurgatorySnapshot"}


@pytest.mark.parametrize(("module", "page"), PAGES.items())
def test_page_lists_every_public_name(module: str, page: str) -> None:
    """And no other one: each can be imported from the module."""
    imported = importlib.import_module(module)
    text = (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")
    listed: set[str] = set()
    for block in re.findall(r"```{eval-rst}\n(.*?)```", text, re.DOTALL):
        if f".. currentmodule:: {module}\n" in block:
            listed.update(re.findall(r"^ {3}(\w+)$", block, re.MULTILINE))
            listed.update(re.findall(r"^\.\. auto\w+:: (\w+)$", block, re.MULTILINE))
    assert listed | ELSEWHERE >= set(imported.__all__)
    assert all(hasattr(imported, name) for name in listed)


def test_page_on_fixtures_lists_each() -> None:
    """With its name, and each option."""
    plugin = importlib.import_module("pytest_purgatory_broker")
    text = (DOCS / "reference" / "pytest.md").read_text(encoding="utf-8")
    source = inspect.getsource(plugin)
    names = re.findall(r"@pytest\.fixture.*\ndef (\w+)", source)
    names += re.findall(r'addini\(\s*"(\w+)"', source)
    assert len(names) == 9
    assert [name for name in names if f"| `{name}` |" not in text] == []
