"""Long work on the event loop, in slices between which others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

T = TypeVar("T")

#: The values of a result that are prepared for JSON in a slice: requests may have 1 MiB each.
VALUES_PER_SLICE = 25


async def give_way() -> None:
    await asyncio.sleep(0)


async def slices(values: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
    """Iterate over consecutive parts of a sequence, and give way between them."""
    for start in range(0, len(values), size):
        if start:
            await give_way()
        yield values[start : start + size]
