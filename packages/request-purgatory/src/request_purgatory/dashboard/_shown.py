"""Which purgatories and timers a page shows."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, TypeAlias

from request_purgatory._native.forks import living
from request_purgatory.aio.purgatory import Purgatory
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.timer.timer import SystemTimer

#: What may be shown beside timers; any thread may call its readings.
Readable: TypeAlias = PurgatoryCore | Purgatory
#: What a page can show.
Showable: TypeAlias = Readable | SystemTimer


class Shown:
    """The purgatories and timers of a page, by weak references: a page keeps nothing alive."""

    def __init__(self, chosen: Sequence[Showable]) -> None:
        """Note what to show; all of the process, also what is made later, if nothing is chosen."""
        for showable in chosen:
            if not isinstance(showable, (PurgatoryCore, Purgatory, SystemTimer)):
                raise InvalidArgumentError("shown", "purgatories and timers", showable)
        self._chosen: list[weakref.ref[Any]] = [weakref.ref(showable) for showable in chosen]
        self._all = not chosen

    def purgatories(self) -> list[Readable]:
        """Return the purgatories that are alive, in no order; loops' ones once they are entered."""
        if self._all:
            return list(living(PurgatoryCore))
        return [
            showable
            for showable in self._living()
            if not isinstance(showable, SystemTimer) and showable.timer is not None
        ]

    def timers(self) -> list[SystemTimer]:
        """Return the timers that are alive, those of the purgatories included, by name."""
        if self._all:
            timers = living(SystemTimer)
        else:
            shown = self._living()
            all_of_them = [one if isinstance(one, SystemTimer) else one.timer for one in shown]
            # One timer may serve several purgatories.
            timers = [
                timer for timer in dict.fromkeys(all_of_them) if isinstance(timer, SystemTimer)
            ]
        return sorted(timers, key=lambda timer: timer.name)

    def _living(self) -> list[Any]:
        return [showable for reference in self._chosen if (showable := reference()) is not None]
