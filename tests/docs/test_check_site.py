"""The check of the built site finds what a network would be needed for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.snippets import ROOT

PAGE = (
    '<html><link rel="stylesheet" href="style.css"><a href="https://example.org">a link</a></html>'
)


@pytest.fixture(scope="module")
def check_site() -> ModuleType:
    """Return the tool as a module."""
    spec = importlib.util.spec_from_file_location("check_site", ROOT / "tools" / "check_site.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site with a page and an index, which is in order."""
    (tmp_path / "page.html").write_text(PAGE)
    (tmp_path / "style.css").write_text("body{background:url(data:image/png;base64,AA==)}")
    (tmp_path / "searchindex.js").write_text('Search.setIndex({"docnames": ["page"]})')
    (tmp_path / "_sources").mkdir()
    (tmp_path / "_sources" / "page.md.txt").write_text("# A page")
    return tmp_path


def test_site_in_order_has_no_faults(check_site: ModuleType, site: Path) -> None:
    """Links to other places are allowed."""
    assert list(check_site.faults(site)) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("page.html", '<script src="https://cdn.example/x.js"></script>', "page.html loads https:"),
        ("page.html", '<img src="//example.org/x.png">', "page.html loads //example.org"),
        ("page.html", "<style>a{background:url(http://x/y)}</style>", "page.html loads http://x/y"),
        ("style.css", '@import "https://fonts.example/a.css";', "style.css loads https://fonts"),
        ("page.html", '<img src="missing.png">', "missing.png, which is not there"),
        ("_sources/other.md.txt", "# Other", "the search index does not know other"),
    ],
)
def test_fault_is_found(
    file: str, text: str, fault: str, check_site: ModuleType, site: Path
) -> None:
    """Each of them alone."""
    (site / file).write_text(text)
    (found,) = check_site.faults(site)
    assert fault in found


def test_site_without_an_index_or_pages_is_refused(check_site: ModuleType, site: Path) -> None:
    """By one sentence each."""
    (site / "searchindex.js").unlink()
    assert list(check_site.faults(site)) == ["there is no search index"]
    (site / "page.html").unlink()
    assert [each.endswith("has no pages") for each in check_site.faults(site)] == [True]
