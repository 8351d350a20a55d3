"""A helper that makes a pending request."""

from __future__ import annotations

from request_purgatory import DelayedOperationPurgatory
from tests.support.requests import Request


def watch(purgatory: DelayedOperationPurgatory, *keys: object, delay_ms: int = 1000) -> Request:
    """Return a new pending request that is watched under the keys."""
    request = Request(delay_ms)
    assert purgatory.try_complete_else_watch(request, list(keys)) is False
    return request
