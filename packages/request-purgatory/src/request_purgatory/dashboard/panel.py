"""A part of the page that another part of the package adds, such as a broker's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Panel:
    """What the page shows beside the purgatories, and the actions of its buttons.

    The functions are called on the dashboard's event loop, which has a thread of its own. One that
    needs another loop passes its work on, and awaits the result.

    Attributes:
        name: The section of the page that shows it: "broker" or "stream".
        read: Returns the present state as JSON has it: dictionaries, lists, texts and numbers.
        act: Does what a button says, by the action's name and arguments. It raises a
            PurgatoryError, which the page shows, if it refuses. None if there are no buttons.
        about: What does not change, such as the choices of a form.
    """

    name: str
    read: Callable[[], Awaitable[Mapping[str, Any]]]
    act: Callable[[str, dict[str, Any]], Awaitable[object]] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
