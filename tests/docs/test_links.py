"""Links in the documents of the repository that Sphinx does not read lead to files that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.snippets import DOCS, ROOT

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/docker/README.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files(document: str) -> None:
    """Pages of the site have their links checked by `make docs`."""
    text = (ROOT / document).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    folder = (ROOT / document).parent
    missing = [link for link in links if not (folder / link.partition("#")[0]).exists()]
    assert missing == []


def test_every_page_that_code_names_exists() -> None:
    """In messages, docstrings and comments: `docs/explanation/design.md`."""
    sources = [
        path for name in ("packages", "tools", "benchmarks") for path in (ROOT / name).rglob("*.py")
    ]
    sources += [ROOT / "pyproject.toml", ROOT / "Makefile"]
    named = {
        page
        for source in sources
        for page in re.findall(r"docs/([\w/]+\.(?:md|svg))", source.read_text(encoding="utf-8"))
    }
    assert len(named) > 5
    assert [page for page in sorted(named) if not (DOCS / page).exists()] == []
