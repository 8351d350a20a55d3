"""The README's example runs and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def block(language: str) -> str:
    """The first fenced block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"the README has no {language} block"
    return found.group(1)


def test_library_example_prints_what_the_readme_says() -> None:
    """As a user would run it: in a process of its own, with the installed package."""
    ran = subprocess.run([sys.executable, "-c", block("python")], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    assert ran.stdout == block("text")


def test_library_example_has_about_twenty_lines() -> None:
    """Short enough to read in passing."""
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 22
