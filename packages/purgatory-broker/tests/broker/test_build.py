"""The loaded build of the modules that can be compiled is the expected one."""

from __future__ import annotations

import importlib
import os
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

SETUP = Path(__file__).parents[2] / "setup.py"


def test_every_module_is_of_the_expected_build() -> None:
    names = re.findall(r'^    "(.*)",$', SETUP.read_text(encoding="utf-8"), re.MULTILINE)
    assert "log.record" in names
    modules = [importlib.import_module(f"purgatory_broker.{name}") for name in names]
    files = {str(module.__file__) for module in modules}
    compiled = {file for file in files if file.endswith(tuple(EXTENSION_SUFFIXES))}
    expected = os.environ.get("REQUEST_PURGATORY_EXPECT", "compiled" if compiled else "interpreted")
    assert compiled == (files if expected == "compiled" else set())
