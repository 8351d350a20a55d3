"""The examples of the README and of two pages run and print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    ("README.md", 0),
    ("README.md", 1),
    ("README.md", 2),
    ("README.md", 3),
    ("docs/how_to/metrics.md", 0),
    ("docs/how_to/metrics.md", 1),
    ("docs/how_to/metrics.md", 2),
    ("docs/how_to/virtual_time.md", 0),
    ("docs/how_to/virtual_time.md", 1),
]


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the Python blocks of a page, each with the text that it prints ("" for none)."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL)
    pairs: list[tuple[str, str]] = []
    for language, block in found:
        if language == "python":
            pairs.append((block, ""))
        else:
            pairs[-1] = (pairs[-1][0], block)
    return pairs


@pytest.mark.parametrize(("page", "number"), EXAMPLES)
def test_example_prints_what_the_page_says(page: str, number: int) -> None:
    """It runs in its own process with the installed package, as a user runs it."""
    code, printed = blocks(page)[number]
    if "request_purgatory.broker" in code:
        pytest.importorskip("kafka", reason="the extra [broker] is not installed")
    if "prometheus_client" in code:
        pytest.importorskip("prometheus_client", reason="the extra [metrics] is not installed")
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # A machine with other work beside may log that a timeout was late.
    assert [line for line in ran.stderr.splitlines() if not line.endswith("ms late")] == []
    assert ran.stdout == printed


def test_every_example_is_run_and_short() -> None:
    """None is left out, and none has more than 22 lines."""
    pages = {page for page, _ in EXAMPLES}
    assert [(page, each) for page in sorted(pages) for each in range(len(blocks(page)))] == EXAMPLES
    assert all(
        len([line for line in code.splitlines() if line.strip()]) <= 22
        for page in pages
        for code, _ in blocks(page)
    )
