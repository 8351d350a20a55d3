"""The page, and what the browser may load for it: nothing else."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib.resources import files


@functools.cache
def page() -> bytes:
    """Return the page: one file, with its style and its script in it."""
    return (files("request_purgatory.dashboard") / "page.html").read_bytes()


@functools.cache
def content_security_policy() -> str:
    """Return the header by which the browser runs the page's own script, and no other.

    Texts on the page come from a program's keys and names. Even if one of them got into the page as
    HTML, its script would not run, and nothing could be loaded or sent elsewhere.
    """
    return "; ".join((
        "default-src 'none'",
        f"script-src '{_hash('script')}'",
        f"style-src '{_hash('style')}'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        # No other page may show this one in a frame, and so have its buttons pressed.
        "frame-ancestors 'none'",
    ))


def _hash(element: str) -> str:
    """Return the hash of the content of the page's only element of a kind."""
    (content,) = re.findall(rf"<{element}>(.*?)</{element}>".encode(), page(), re.DOTALL)
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"
