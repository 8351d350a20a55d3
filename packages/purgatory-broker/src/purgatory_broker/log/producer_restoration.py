"""Restores the states of producers whose last batches were truncated."""

from __future__ import annotations

from dataclasses import dataclass, field

from purgatory_broker.log.batch import UNSET, BatchHeader
from purgatory_broker.log.control_batch import read_end_marker
from purgatory_broker.log.producer_states import (
    BATCHES_KEPT,
    ProducerState,
    ProducerStates,
    producer_batch,
)
from purgatory_broker.log.segments import Segments


def truncate_producers(producers: ProducerStates, segments: Segments, end_offset: int) -> None:
    """Bring the states to where they were at `end_offset`, at which the segments end now.

    Those of the producers with later batches are read from the log, from its end, where most of
    them are.
    """
    removed = producers.remove_from(end_offset)
    restored = {
        producer_id: _Restoration.of(producer, end_offset)
        for producer_id, producer in removed.items()
    }
    _read_back(dict(restored), segments)
    for producer_id, restoration in restored.items():
        if restoration.is_found:
            producers[producer_id] = restoration.state
    producers.truncate_transactions(end_offset)


def _read_back(restorations: dict[int, _Restoration], segments: Segments) -> None:
    for segment in reversed(list(segments)):
        for index in range(len(segment) - 1, -1, -1):
            if not restorations:
                return
            header = segment.header(index)
            restoration = restorations.get(header.producer_id)
            if restoration is None:
                continue
            batch = segment.batch(index) if header.is_control else b""
            restoration.add_older(header, batch)
            if restoration.is_complete:
                del restorations[header.producer_id]


@dataclass(slots=True)
class _Restoration:
    state: ProducerState = field(default_factory=ProducerState)
    is_found: bool = False
    needs_batches: bool = True
    #: What precedes the last marker does not belong to an open transaction.
    needs_marker: bool = True

    @classmethod
    def of(cls, removed: ProducerState, end_offset: int) -> _Restoration:
        restoration = cls()
        start = removed.transaction_start
        if removed.coordinator_epoch == UNSET or (start is not None and start < end_offset):
            # It has no marker, or none after the beginning of its transaction.
            restoration.needs_marker = False
            restoration.state.coordinator_epoch = removed.coordinator_epoch
            if start is not None and start < end_offset:
                restoration.state.transaction_start = start
        return restoration

    @property
    def is_complete(self) -> bool:
        return not self.needs_batches and not self.needs_marker

    def add_older(self, header: BatchHeader, batch: bytes) -> None:
        """Take over a batch or marker before those that are known."""
        marker = read_end_marker(header, batch) if header.is_control else None
        if header.is_control and marker is None:
            return
        state = self.state
        if not self.is_found:
            self.is_found = True
            state.epoch = header.producer_epoch
            state.last_timestamp = header.max_timestamp
            state.last_offset = header.last_offset
        elif state.epoch != header.producer_epoch:
            self.needs_batches = False
        if marker is not None:
            if self.needs_marker:
                state.coordinator_epoch = marker.coordinator_epoch
                self.needs_marker = False
            return
        if self.needs_batches:
            base_offset, timestamp = header.base_offset, header.max_timestamp
            state.batches.appendleft(producer_batch(header, base_offset, timestamp))
            self.needs_batches = len(state.batches) < BATCHES_KEPT
        if self.needs_marker and header.is_transactional:
            state.transaction_start = header.base_offset
