"""The records in flight, in the order of their offsets, and changes of them."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from purgatory_broker.sharing.records import AcquisitionLock, RecordState, Span, StateBatch


class Change(NamedTuple):
    span: Span
    state: RecordState
    delivery_count: int


@dataclass(slots=True, eq=False)
class Update:
    """A change of acquired records, which takes effect when it is stored.

    Until then its records are pending, and nobody gets them.
    """

    start_offset: int
    #: What to store; empty if nothing has changed.
    batches: list[StateBatch] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    #: The lock of records that a member has renewed, which takes effect at once.
    renewed: AcquisitionLock | None = None


def _first(span: Span) -> int:
    return span.first


class Spans:
    """Spans that do not overlap; there may be records between them."""

    def __init__(self, spans: Iterable[Span]) -> None:
        """`spans` are in order."""
        self._spans = list(spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def first(self) -> Span | None:
        return self._spans[0] if self._spans else None

    @property
    def last(self) -> Span | None:
        return self._spans[-1] if self._spans else None

    def add(self, span: Span) -> None:
        insort(self._spans, span, key=_first)

    def remove_first(self, count: int) -> None:
        del self._spans[:count]

    def floor(self, offset: int) -> Span | None:
        """Return the last span that begins at an offset or before."""
        position = bisect_right(self._spans, offset, key=_first)
        return self._spans[position - 1] if position else None

    def between(self, first: int, last: int) -> list[Span]:
        """Return the spans that have a record between two offsets."""
        position = bisect_right(self._spans, first, key=_first)
        begin = position - 1 if position and self._spans[position - 1].last >= first else position
        return self._spans[begin : bisect_right(self._spans, last, key=_first)]

    def cut(self, offset: int) -> None:
        """Divide the span that has `offset`, so that one begins there; no-op if it is pending."""
        span = self.floor(offset)
        if span is not None and span.first < offset <= span.last and not span.is_pending:
            insort(self._spans, span.split(offset), key=_first)
