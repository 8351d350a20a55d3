"""Decoded requests and the replies to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Sends a response message to the client that waits for it.
Reply = Callable[[Any], object]


def version_at_least(request: Any, version: int) -> bool:
    """Return True if a request's version is `version` or later.

    A request that was built in memory has no version and counts as the latest one.
    """
    return request.version is None or request.version >= version
