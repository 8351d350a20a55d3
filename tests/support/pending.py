"""Requests that are pending, in one line."""

from __future__ import annotations

from request_purgatory import DelayedOperationPurgatory
from tests.support.requests import Request


def watch(purgatory: DelayedOperationPurgatory, *keys: object, delay_ms: int = 1000) -> Request:
    """A new pending request under the keys."""
    request = Request(delay_ms)
    assert purgatory.try_complete_else_watch(request, list(keys)) is False
    return request
