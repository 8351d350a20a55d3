"""Which purgatories and timers a page shows."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from request_purgatory._native.forks import living
from request_purgatory.aio.purgatory import Purgatory
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.purgatory.metric_table import PurgatoryMetrics
from request_purgatory.purgatory.purgatory_snapshot import PurgatorySnapshot
from request_purgatory.timer.timer import SystemTimer


class Readable(Protocol):
    """What purgatories of threads and of event loops have in common, and any thread may call."""

    @property
    def name(self) -> str:
        """The purgatory's name."""
        ...

    @property
    def timer(self) -> object:
        """The timer of its timeouts; None if it has none yet."""
        ...

    @property
    def is_closed(self) -> bool:
        """True once it is closed."""
        ...

    def metrics(self) -> PurgatoryMetrics:
        """Return its counters."""
        ...

    def snapshot(self, top: int) -> PurgatorySnapshot:
        """Return what waits in it."""
        ...


#: What a page can show.
Showable: TypeAlias = PurgatoryCore | Purgatory | SystemTimer


class Shown:
    """The purgatories and timers of a page, by weak references: a page keeps nothing alive."""

    def __init__(self, chosen: Sequence[Showable]) -> None:
        """Note what to show.

        Args:
            chosen: Purgatories and timers; if there are none, all of the process, also those that
                are made later.

        Raises:
            InvalidArgumentError: One is neither.
        """
        for each in chosen:
            if not isinstance(each, (PurgatoryCore, Purgatory, SystemTimer)):
                raise InvalidArgumentError("shown", "purgatories and timers", each)
        self._chosen: list[weakref.ref[Any]] = [weakref.ref(each) for each in chosen]
        self._all = not chosen

    def purgatories(self) -> list[Readable]:
        """Return the purgatories that are alive, in no order; loops' ones once they are entered."""
        if self._all:
            return list(living(PurgatoryCore))
        return [
            each
            for each in self._living()
            if not isinstance(each, SystemTimer) and each.timer is not None
        ]

    def timers(self) -> list[SystemTimer]:
        """Return the timers that are alive, those of the purgatories included, by name."""
        if self._all:
            found = living(SystemTimer)
        else:
            timers = [
                each if isinstance(each, SystemTimer) else each.timer for each in self._living()
            ]
            # One timer may serve several purgatories.
            found = [each for each in dict.fromkeys(timers) if isinstance(each, SystemTimer)]
        return sorted(found, key=lambda timer: timer.name)

    def _living(self) -> list[Any]:
        return [found for reference in self._chosen if (found := reference()) is not None]
