"""Each Python block of the documentation runs and prints what its page says.

Blocks that need a Spark session run in test_spark_snippets.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import snippets

#: Pages that no test runs, with the reason. There is none.
NOT_RUN: dict[str, str] = {}

_PYTHON = re.compile(r" *(import \w|from [\w.]+ import|(async )?(def|with) .*:$|class \w+.*:$)")

#: Pages whose blocks another test runs.
RUN_ELSEWHERE = {
    "docs/explanation/stream_state.md": "packages/purgatory-spark/tests/spark/test_stored_state.py"
}

PAGES = [
    page
    for page in snippets.pages()
    if snippets.blocks(page)
    and not snippets.needs_spark(page)
    and page not in {*NOT_RUN, *RUN_ELSEWHERE}
]


@pytest.mark.parametrize("page", PAGES)
def test_page_prints_what_it_says(page: str, tmp_path: Path) -> None:
    """Pasted from top to bottom, into a process of its own."""
    for package in sorted(snippets.needed_packages(page)):
        pytest.importorskip(package, reason=f"{page} needs {package}")
    assert snippets.run_page(page, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(each.is_for_pytest for each in snippets.blocks(page))]
)
def test_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    """The blocks that define tests and fixtures, in one file."""
    code, printed = snippets.run_tests(page, tmp_path)
    assert code == 0, printed


def test_snippet_that_prints_something_else_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later block uses the names of an earlier one, and `...` stands for anything."""
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nfruit = 'figs'\n```\n\n"
        "```python\nprint(2, fruit)\n```\n\nprints\n\n```text\n2 ...s\n```\n\n"
        "```python\nprint(3, fruit)\n```\n\nprints\n\n```text\n3 pears\n```\n"
    )
    monkeypatch.setattr(snippets, "ROOT", tmp_path)
    (difference,) = snippets.run_page("page.md", tmp_path)
    assert "3 pears" in difference
    assert "3 figs" in difference


def test_snippet_that_raises_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its traceback."""
    (tmp_path / "page.md").write_text("```python\n1 / 0\n```\n")
    monkeypatch.setattr(snippets, "ROOT", tmp_path)
    (error,) = snippets.run_page("page.md", tmp_path)
    assert "ZeroDivisionError" in error


def test_code_is_in_fences_that_say_python() -> None:
    """Python in a block that names no language would be run by nobody."""
    found = [
        (page, line)
        for page in snippets.pages()
        for line in snippets.code_lines(page, "")
        if _PYTHON.match(line)
    ]
    assert found == []


def test_blocks_are_found_wherever_a_page_may_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In lists and after blank lines, too; not inside of other code."""
    (tmp_path / "page.md").write_text(
        "- first\n\n  ```python\n  a = 1\n  ```\n\n      purgatory one\n\n"
        "````md\n```python\nb = 2\n```\n````\n\n"
        "    purgatory two \\\n      --more\n\n    purgatory three\n"
    )
    monkeypatch.setattr(snippets, "ROOT", tmp_path)
    assert snippets.blocks("page.md") == [snippets.Block("a = 1\n", None)]
    assert [" ".join(words) for words in snippets.commands("page.md")] == [
        "purgatory one",
        "purgatory two --more",
        "purgatory three",
    ]


def test_examples_of_the_readme_are_short() -> None:
    """None has more than 22 lines."""
    for block in snippets.blocks("README.md"):
        assert len([line for line in block.code.splitlines() if line.strip()]) <= 22


def test_page_that_runs_elsewhere_is_named_there() -> None:
    """So that its name can't be taken out there alone."""
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (snippets.ROOT / test).read_text(encoding="utf-8")
