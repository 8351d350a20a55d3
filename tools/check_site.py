"""Checks that the built documentation works without a network: `tools/check_site.py build/docs`.

No page may load anything from another place, everything that it loads has to be there, and the
search index has to know every page. The index is a script, so search works from file:// too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser loads with a page, by tag. Links are not among them.
LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "image": "href",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "track": "src",
    "video": "src",
}
#: Relations of `link` that load nothing.
NOT_LOADED = {"alternate", "author", "canonical", "genindex", "index", "next", "prev", "search"}
_IN_STYLES = re.compile(r"""(?:url\(\s*|@import\s+)['"]?([^'")\s;]+)""")


class Page(HTMLParser):
    """Collects what a page loads.

    Attributes:
        loaded: The addresses.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the address of a tag that loads something."""
        values = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        relations = set(values.get("rel", "").split())
        if tag in LOADED and values.get(LOADED[tag]) and not relations & NOT_LOADED:
            self.loaded.append(values[LOADED[tag]])
        self.loaded += _IN_STYLES.findall(values.get("style", ""))

    def handle_data(self, data: str) -> None:
        """Note the addresses in a style sheet of the page."""
        if self._in_style:
            self.loaded += _IN_STYLES.findall(data)


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with a site, one sentence each."""
    pages = sorted(site.rglob("*.html"))
    if not pages:
        yield f"{site} has no pages"
        return
    for path in [*pages, *sorted(site.rglob("*.css"))]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".css":
            loaded = _IN_STYLES.findall(text)
        else:
            page = Page()
            page.feed(text)
            loaded = page.loaded
        for address in loaded:
            if address.startswith(("data:", "#")):
                continue
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                yield f"{path.relative_to(site)} loads {address}"
            elif not (path.parent / unquote(parts.path)).exists():
                yield f"{path.relative_to(site)} loads {address}, which is not there"
    yield from _faults_of_search(site)


def _faults_of_search(site: Path) -> Iterator[str]:
    index = site / "searchindex.js"
    if not index.exists():
        yield "there is no search index"
        return
    text = index.read_text(encoding="utf-8").strip()
    known = set(json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))["docnames"])
    for source in sorted((site / "_sources").rglob("*.txt")):
        # Names of generated pages have dots, too.
        name = re.sub(r"\.(md|rst)\.txt$", "", str(source.relative_to(site / "_sources")))
        if name not in known:
            yield f"the search index does not know {name}"


def main(arguments: list[str]) -> int:
    """Print the faults of a site.

    Returns:
        The exit code: 1 if there is one.
    """
    found = list(faults(Path(arguments[0])))
    for fault in found:
        print(fault, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
