"""Hides waiting operations from the cyclic collector; the interpreted version, which hides none.

Where the core is compiled, `hiding.pyx` takes its place and says what is hidden, and why.
"""

from __future__ import annotations

#: True if `hide` has an effect.
HIDES = False


def hide(operation: object) -> None:
    """Hide an operation from all but full collections."""


def show(operation: object) -> None:
    """Show a hidden operation again; no-op for any other object."""


def register(host: object) -> None:
    """Have a host show what it hides during full collections, for as long as it exists."""


def keep_installed() -> None:
    """Take part in collections again, if other code has cleared `gc.callbacks`."""
