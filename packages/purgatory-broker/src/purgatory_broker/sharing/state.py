"""What is stored of a share partition: its start offset, and the records beyond with a state."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from purgatory_broker.sharing.records import StateBatch

#: The start offset of a share partition whose first leader is to find it.
UNKNOWN_START = -1


class ShareKey(NamedTuple):
    """A share partition: a partition, as one group has it."""

    group_id: str
    topic_id: uuid.UUID
    partition: int

    @property
    def text(self) -> str:
        """The key of its coordinator, as Kafka writes it."""
        return f"{self.group_id}:{_base64(self.topic_id)}:{self.partition}"


def _base64(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """The state at a snapshot, with the updates since."""

    #: The number of snapshots before this one.
    snapshot_epoch: int = 0
    #: Changes when the state is set anew, by an administrator for instance.
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN_START
    batches: tuple[StateBatch, ...] = ()
    create_ms: int = -1
    write_ms: int = -1

    def updated(self, update: ShareState) -> ShareState:
        """Return the state with an update, whose unknown values (-1) stay as they are."""
        start = self.start_offset if update.start_offset < 0 else update.start_offset
        return replace(
            self,
            leader_epoch=max(self.leader_epoch, update.leader_epoch),
            start_offset=start,
            batches=combine(self.batches, update.batches, start),
        )


def combine(
    before: Iterable[StateBatch], after: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return batches without overlaps; neighbours of one state are joined.

    Where two overlap, the one with more deliveries is right, or the later state, as in Kafka: so an
    acknowledgement stays that was stored although its leader got no answer.

    >>> [tuple(batch) for batch in combine([StateBatch(0, 9, 0, 1)], [StateBatch(3, 4, 2, 1)], 1)]
    [(1, 2, 0, 1), (3, 4, 2, 1), (5, 9, 0, 1)]
    """
    kept = list(before)
    for new in after:
        pieces = [new]
        left: list[StateBatch] = []
        for old in kept:
            if (old.delivery_count, old.state) > (new.delivery_count, new.state):
                left.append(old)
                pieces = [part for each in pieces for part in _without(each, old.first, old.last)]
            else:
                left += _without(old, new.first, new.last)
        kept = left + pieces
    joined: list[StateBatch] = []
    for batch in sorted(kept):
        if batch.last < start_offset:
            continue
        batch = batch._replace(first=max(batch.first, start_offset))
        if joined and joined[-1].last + 1 == batch.first and joined[-1][2:] == batch[2:]:
            joined[-1] = joined[-1]._replace(last=batch.last)
        else:
            joined.append(batch)
    return tuple(joined)


def _without(batch: StateBatch, first: int, last: int) -> Iterable[StateBatch]:
    """Return what is left of a batch outside of a range."""
    if batch.last < first or batch.first > last:
        return [batch]
    parts = []
    if batch.first < first:
        parts.append(batch._replace(last=first - 1))
    if batch.last > last:
        parts.append(batch._replace(first=last + 1))
    return parts
