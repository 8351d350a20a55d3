"""A real browser for tests: the system's Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.browser import open_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: The width of a small phone, in CSS pixels.
PHONE = {"width": 375, "height": 812}

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium without a window; skip where there is none."""
    with open_browser() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens an address; errors on its console fail the test."""
    contexts: list[Any] = []
    errors: list[str] = []

    def open_(url: str, **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda message: errors.append(message.text) if message.type == "error" else None,
        )
        page.goto(url)
        return page

    open_.errors = errors  # type: ignore[attr-defined]
    yield open_
    for context in contexts:
        context.close()
    assert errors == []
