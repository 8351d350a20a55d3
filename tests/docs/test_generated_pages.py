"""The pages that are made of the code are up to date."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


NAMES = ["cli_page", "broker_page", "limits_page", "timing_wheel_figure", "trace_page"]


@pytest.mark.parametrize("name", NAMES)
def test_page_is_that_of_the_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise run the tool."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, tool)  # Where dataclasses look for it.
    spec.loader.exec_module(tool)
    assert tool.main(["--check"]) == 0
