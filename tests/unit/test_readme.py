"""The README's examples run and print what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", [0, 1, 2], ids=["threads", "asyncio", "broker"])
def test_example_prints_what_the_readme_says(number: int) -> None:
    """As a user would run it: in a process of its own, with the installed package."""
    if "request_purgatory.broker" in blocks("python")[number]:
        pytest.importorskip("kafka", reason="the extra [broker] is not installed")
    command = [sys.executable, "-c", blocks("python")[number]]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    assert ran.stdout == blocks("text")[number]


def test_every_example_is_run_and_has_about_twenty_lines() -> None:
    """Short enough to read in passing."""
    assert len(blocks("python")) == len(blocks("text")) == 3
    assert all(
        len([line for line in block.splitlines() if line.strip()]) <= 22
        for block in blocks("python")
    )
