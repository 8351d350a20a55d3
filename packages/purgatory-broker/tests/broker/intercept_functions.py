"""Functions to give to `intercept`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatory_broker import InterceptedRequest


def raising(error: BaseException, *, as_coroutine: bool = False) -> Callable[..., Any]:
    """Return a function that raises an exception."""

    def plain(_request: InterceptedRequest) -> None:
        raise error

    async def coroutine(request: InterceptedRequest) -> None:
        await request.handle()
        raise error

    return coroutine if as_coroutine else plain
