"""A browser for tests of pages: an installed Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Run a browser without a window for the block; the test is skipped where there is none.

    Yields:
        The browser.
    """
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser is installed: {', '.join(PROGRAMS)}")
    with api.sync_playwright() as playwright:
        # Its sandbox does not work for root, nor in most containers. It only opens our own pages.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
