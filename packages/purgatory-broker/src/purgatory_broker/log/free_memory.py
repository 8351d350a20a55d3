"""Returns freed memory to the operating system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def release_free_memory() -> None:
    """Return the memory that the process has freed to the operating system.

    glibc's allocator keeps most of what a large log has freed: blocks of up to 32 MiB come from its
    heap, whose end some later and smaller block usually occupies. Other systems' allocators are
    left alone. Takes some milliseconds.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # Windows, macOS, musl
        return None
    return function
