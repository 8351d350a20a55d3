"""The records of one partition that one share group has in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.sharing.records import (
    STATES,
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRange,
    AcquisitionLock,
    RecordState,
    ShareError,
    Span,
    StateBatch,
)
from purgatory_broker.sharing.spans import Change, Spans, Update

#: The first and the last offset of a record batch of the log.
OffsetRange = tuple[int, int]


class SharePartition:
    """The records from the start offset (SPSO) up to the end offset (SPEO), as Kafka names them.

    It has no I/O and no clock. What is stored, and when a lock ends, is its user's to do: an
    `Update` is followed by `commit` or `roll_back`, a lock by `expire` if its time is over.

    The records between the two offsets are in spans of one state. Those that no span covers have
    been acquired before a restart, and are delivered again.

    Example: of the records 0 to 9, member m has acquired all, accepts 0 to 4 and releases 5.

    >>> partition = SharePartition(0, max_in_flight=2_000, max_delivery_count=5)
    >>> lock, acquired = partition.acquire("m", 0, [(0, 9)], max_records=500, batch_size=500)
    >>> acquired
    [AcquiredRange(first=0, last=9, delivery_count=1)]
    >>> update = partition.acknowledge(
    ...     "m", [AcknowledgementBatch(0, 4, (1,)), AcknowledgementBatch(5, 5, (2,))]
    ... )
    >>> partition.commit(update)
    >>> partition.start_offset, partition.next_offset, partition.next_fetch_offset
    (5, 10, 5)
    """

    def __init__(
        self,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
        *,
        max_in_flight: int,
        max_delivery_count: int,
        on_lock_end: Callable[[AcquisitionLock], None] = lambda _lock: None,
    ) -> None:
        """Begin with what was stored; `on_lock_end` is called when a lock has no more records."""
        self.start_offset = start_offset
        self._max_in_flight = max_in_flight
        self._max_delivery_count = max_delivery_count
        self._on_lock_end = on_lock_end
        self._spans = Spans(
            Span(max(batch.first, start_offset), batch.last, RecordState(batch.state), batch[3])
            for batch in sorted(batches)
            if batch.last >= max(start_offset, batch.first)
        )
        #: The end offset + 1: where records follow that were not acquired yet.
        last = self._spans.last
        self.next_offset = start_offset if last is None else last.last + 1
        self._advance()

    # -- acquisition

    @property
    def next_fetch_offset(self) -> int:
        """The first record that a member may acquire."""
        offset = self.start_offset
        for span in self._spans:
            if span.first > offset:
                return offset
            if span.is_acquirable:
                return span.first
            offset = span.last + 1
        return self.next_offset

    @property
    def can_acquire(self) -> bool:
        """Whether a record was released, or fewer than the most are in flight."""
        in_flight = self.next_offset - self.start_offset
        return in_flight < self._max_in_flight or self.next_fetch_offset != self.next_offset

    def acquire(
        self,
        member_id: str,
        fetch_offset: int,
        fetched: Sequence[OffsetRange],
        *,
        max_records: int,
        batch_size: int,
        is_exact: bool = False,
        aborted: Iterable[OffsetRange] = (),
    ) -> tuple[AcquisitionLock | None, list[AcquiredRange]]:
        """Give a member what it may have of the record batches that were read at `fetch_offset`.

        There can be more than `max_records`, since batches of the log are not divided, unless the
        number is exact. Records of `aborted` transactions are given to nobody. Returns no lock if
        there is nothing to acquire.
        """
        if not fetched or max_records <= 0:
            return None, []
        first, last = max(fetched[0][0], self.start_offset), fetched[-1][1]
        if fetch_offset < first:
            # The log has no such records any more: they were compacted.
            self._archive(fetch_offset, first - 1)
        lock = AcquisitionLock(member_id)
        for piece_first, piece_last, span in self._acquirable(first, last):
            left = max_records - lock.num_records
            if left <= 0:
                break
            end = min(piece_first + left - 1, piece_last)
            if not is_exact:
                end = min(_batch_end(fetched, end), piece_last)
            if span is None:
                self._add(lock, piece_first, end, fetched, left if is_exact else batch_size)
            else:
                self._spans.cut(piece_first)
                self._spans.cut(end + 1)
                for each in self._spans.between(piece_first, end):
                    each.state = RecordState.ACQUIRED
                    each.delivery_count += 1
                    each.lock = lock
            lock.num_records += end - piece_first + 1
        if lock.num_records:
            self._archive_aborted(lock, aborted)
        if not lock.num_records:
            return None, []
        acquired = [
            AcquiredRange(span.first, span.last, span.delivery_count)
            for span in self._spans.between(first, last)
            if span.lock is lock
        ]
        return lock, acquired

    def _acquirable(self, first: int, last: int) -> list[tuple[int, int, Span | None]]:
        """Return what may be acquired between two offsets; without a span, what was not before."""
        pieces: list[tuple[int, int, Span | None]] = []
        offset = first
        for span in self._spans.between(first, last):
            if offset < span.first:
                pieces.append((offset, span.first - 1, None))
            if span.is_acquirable:
                pieces.append((max(first, span.first), min(last, span.last), span))
            offset = span.last + 1
        if offset <= last:
            pieces.append((offset, last, None))
        return pieces

    def _add(
        self,
        lock: AcquisitionLock,
        first: int,
        last: int,
        fetched: Sequence[OffsetRange],
        batch_size: int,
    ) -> None:
        """Add acquired spans of about `batch_size` records, which end where batches end."""
        ends = [end for _, end in fetched if first <= end < last]
        begin = first
        for end in [*ends, last]:
            if end == last or end - begin + 1 >= batch_size:
                self._spans.add(Span(begin, end, RecordState.ACQUIRED, 1, lock))
                begin = end + 1
        self.next_offset = max(self.next_offset, last + 1)

    def _archive(self, first: int, last: int) -> None:
        for piece_first, piece_last, span in self._acquirable(first, last):
            if span is None:
                archived = Span(piece_first, piece_last, RecordState.ARCHIVED, 0)
                self._spans.add(archived)
                self.next_offset = max(self.next_offset, piece_last + 1)
            else:
                self._spans.cut(piece_first)
                self._spans.cut(piece_last + 1)
                for each in self._spans.between(piece_first, piece_last):
                    each.state = RecordState.ARCHIVED
        self._advance()

    def _archive_aborted(self, lock: AcquisitionLock, aborted: Iterable[OffsetRange]) -> None:
        for first, last in aborted:
            for offset in (first, last + 1):
                self._spans.cut(offset)
            for span in self._spans.between(first, last):
                if span.lock is lock:
                    span.state = RecordState.ARCHIVED
                    lock.num_records -= len(span)
                    span.lock = None
        self._advance()

    # -- the end of an acquisition

    def acknowledge(self, member_id: str, batches: Iterable[AcknowledgementBatch]) -> Update:
        """Accept, release, reject or renew what a member has acquired: all of it or nothing.

        Raises ShareError if the member does not have one of the records. What is before the start
        offset is skipped: it has been deleted from the log.
        """
        update = Update(self.start_offset)
        renewed: list[Span] = []
        try:
            for batch in batches:
                if batch.last >= self.start_offset:
                    self._acknowledge(member_id, batch, update, renewed)
        except ShareError:
            self.roll_back(update)
            raise
        if renewed:
            update.renewed = AcquisitionLock(member_id)
            for span in renewed:
                self._leave_lock(span, len(span))
                span.lock = update.renewed
                update.renewed.num_records += len(span)
        return update

    def _acknowledge(
        self,
        member_id: str,
        batch: AcknowledgementBatch,
        update: Update,
        renewed: list[Span],
    ) -> None:
        first = max(batch.first, self.start_offset)
        if self._spans.floor(first) is None:
            raise ShareError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        floor = self._spans.floor(batch.last)
        assert floor is not None
        for name, offset in (("first", first), ("last", batch.last)):
            if offset > floor.last:
                raise ShareError(
                    ErrorCode.INVALID_REQUEST,
                    f"Batch record not found. The {name} offset in request is past acquired "
                    "records.",
                )
        offset = first
        while offset <= batch.last:
            span = self._spans.floor(offset)
            if span is None or span.last < offset or not _is_acquired(span, member_id):
                raise ShareError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"Member is not the owner of record {offset}, or it is not acquired.",
                )
            kind = batch.type_of(offset)
            end = min(span.last, batch.last)
            if len(batch.types) > 1:
                end = next(
                    (each - 1 for each in range(offset, end + 1) if batch.type_of(each) != kind),
                    end,
                )
            self._spans.cut(offset)
            self._spans.cut(end + 1)
            for each in self._spans.between(offset, end):
                if kind is AcknowledgeType.RENEW:
                    renewed.append(each)
                else:
                    self._change(update, each, STATES[kind], counts=True)
            offset = end + 1

    def release(self, member_id: str) -> Update:
        """Release what a member has acquired, since its session has ended.

        As in Kafka since 4.1, such a delivery does not count.
        """
        update = Update(self.start_offset)
        for span in self._spans:
            if _is_acquired(span, member_id):
                self._change(update, span, RecordState.AVAILABLE, counts=False)
        return update

    def _change(self, update: Update, span: Span, state: RecordState, *, counts: bool) -> None:
        update.changes.append(Change(span, span.state, span.delivery_count))
        if not counts:
            span.delivery_count -= 1
        elif state is RecordState.AVAILABLE:
            state = self._released_state(span)
        span.state = state
        span.is_pending = True
        update.batches.append(StateBatch(span.first, span.last, state, span.delivery_count))

    def _released_state(self, span: Span) -> RecordState:
        if span.delivery_count >= self._max_delivery_count:
            return RecordState.ARCHIVED
        return RecordState.AVAILABLE

    def commit(self, update: Update) -> None:
        """End an update that is stored."""
        for span, *_ in update.changes:
            span.is_pending = False
            self._leave_lock(span, len(span))
        self._advance()

    def roll_back(self, update: Update) -> list[Update]:
        """Take back an update that could not be stored.

        Returns what to store because a lock has expired meanwhile, as `expire` does.
        """
        expired: dict[AcquisitionLock, None] = {}
        for span, state, delivery_count in update.changes:
            span.is_pending = False
            span.state = state
            span.delivery_count = delivery_count
            if span.lock is not None and span.lock.has_expired:
                expired[span.lock] = None
        return [self.expire(lock) for lock in expired]

    def expire(self, lock: AcquisitionLock) -> Update:
        """Release what is left of an acquisition whose time is over.

        It has taken effect, whether it can be stored or not.
        """
        lock.has_expired = True
        update = Update(self.start_offset)
        for span in self._spans:
            if span.lock is lock and not span.is_pending:
                span.state = self._released_state(span)
                self._leave_lock(span, len(span))
                update.batches.append(
                    StateBatch(span.first, span.last, span.state, span.delivery_count)
                )
        self._advance()
        return update

    def move_start(self, log_start_offset: int) -> None:
        """Forget the records that were deleted from the log."""
        if log_start_offset <= self.start_offset:
            return
        for span in self._spans.between(self.start_offset, log_start_offset - 1):
            if span.last < log_start_offset:
                self._leave_lock(span, len(span))
            elif span.lock is not None:
                span.lock.num_records -= log_start_offset - span.first
        self._spans.remove_first(sum(span.last < log_start_offset for span in self._spans))
        if self._spans.first is not None:
            self._spans.first.first = max(self._spans.first.first, log_start_offset)
        self.start_offset = log_start_offset
        self.next_offset = max(self.next_offset, log_start_offset)
        self._advance()

    # -- locks and the start

    def _leave_lock(self, span: Span, num_records: int) -> None:
        lock, span.lock = span.lock, None
        if lock is not None:
            lock.num_records -= num_records
            if not lock.num_records:
                self._on_lock_end(lock)

    def _advance(self) -> None:
        """Move the start offset over the records that nobody gets any more."""
        done = 0
        for span in self._spans:
            if span.first != self.start_offset or span.is_pending or not span.state.is_final:
                break
            self.start_offset = span.last + 1
            done += 1
        self._spans.remove_first(done)

    # -- inspection

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    @property
    def has_acquired(self) -> bool:
        return any(span.state is RecordState.ACQUIRED for span in self._spans)

    def check(self) -> None:
        """Assert every invariant."""
        shown = (self.start_offset, self.next_offset, list(self._spans))
        offset = self.start_offset
        for span in self._spans:
            assert offset <= span.first <= span.last < self.next_offset, shown
            assert (span.state is RecordState.ACQUIRED) <= (span.lock is not None), shown
            assert (span.lock is not None) <= (
                span.is_pending or span.state is RecordState.ACQUIRED
            ), shown
            assert 0 <= span.delivery_count <= self._max_delivery_count, shown
            offset = span.last + 1
        first = self._spans.first
        if first is not None:
            assert first.first > self.start_offset or first.is_pending or not first.state.is_final
        assert offset == self.next_offset or first is None, shown
        held: dict[AcquisitionLock, int] = {}
        for span in self._spans:
            if span.lock is not None:
                held[span.lock] = held.get(span.lock, 0) + len(span)
        for lock, count in held.items():
            assert lock.num_records == count, shown


def _is_acquired(span: Span, member_id: str) -> bool:
    return (
        span.state is RecordState.ACQUIRED
        and not span.is_pending
        and span.lock is not None
        and span.lock.member_id == member_id
    )


def _batch_end(fetched: Sequence[OffsetRange], offset: int) -> int:
    """Return the last offset of the record batch that has `offset`."""
    return next(last for _, last in fetched if offset <= last)
