"""The page on the command is up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "cli_page.py"


def test_reference_is_that_of_the_command() -> None:
    """Otherwise run `python tools/cli_page.py`."""
    spec = importlib.util.spec_from_file_location("cli_page", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    text = tool.PAGE.read_text(encoding="utf-8")
    assert tool.page(text) == text
