"""The share fetches of a node: what members acquire of the partitions that it leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import split_batches
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.readable_log import ReadableLog
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.sharing.delayed_share_fetch import DelayedShareFetch, ShareFetchParams
from purgatory_broker.sharing.leader_state import LedPartition
from purgatory_broker.sharing.records import AcquiredRange
from purgatory_broker.sharing.share_partition import OffsetRange
from purgatory_broker.sharing.share_partitions import SharePartitions


@dataclass(slots=True)
class SharedRecords:
    """What a member gets of a partition."""

    error: ErrorCode = ErrorCode.NONE
    records: bytes = b""
    acquired: list[AcquiredRange] = field(default_factory=list)


ShareFetchReply = Callable[[Mapping[TopicPartition, SharedRecords]], None]


class ShareFetches:
    def __init__(self, partitions: SharePartitions) -> None:
        self._partitions = partitions

    def fetch(
        self, params: ShareFetchParams, keys: Sequence[TopicPartition], reply: ShareFetchReply
    ) -> DelayedShareFetch | None:
        """Acquire records for a member, at once or when there are some.

        Returns None if the request did not have to wait.
        """
        results: dict[TopicPartition, SharedRecords] = {}
        led = []
        for key in keys:
            found = self._partitions.find_or_load(params.group_id, key)
            if isinstance(found, ErrorCode):
                results[key] = SharedRecords(found)
            else:
                led.append(found)
        operation = DelayedShareFetch(
            params, led, partial(self._respond, params, led, results, reply)
        )
        if not led or params.max_wait_ms <= 0:
            operation.force_complete()
            return None
        watched = [key for each in led for key in (each.topic_partition, each.watch_key)]
        self._partitions.purgatory.try_complete_else_watch(operation, watched)
        return None if operation.is_completed else operation

    def _respond(
        self,
        params: ShareFetchParams,
        partitions: Sequence[LedPartition],
        results: dict[TopicPartition, SharedRecords],
        reply: ShareFetchReply,
    ) -> None:
        # A timer that ends the wait is outside of a block.
        with self._partitions.actions:
            acquirable = [
                led
                for led in partitions
                if led.error is ErrorCode.NONE
                and led.records is not None
                and led.records.can_acquire
            ]
            left = params.max_records
            for led in partitions:
                if led in acquirable:
                    max_bytes = max(1, params.max_bytes // len(acquirable))
                    result = self._acquire(params, led, max_bytes, left)
                    left -= sum(each.last - each.first + 1 for each in result.acquired)
                    results[led.topic_partition] = result
                elif led.error is not ErrorCode.NONE:
                    results[led.topic_partition] = SharedRecords(led.error)
            reply(results)

    def _acquire(
        self, params: ShareFetchParams, led: LedPartition, max_bytes: int, max_records: int
    ) -> SharedRecords:
        assert led.records is not None
        log = led.replica.log
        led.records.move_start(log.log_start_offset)
        offset = led.records.next_fetch_offset
        limit = params.limit_offset(led.replica)
        if offset >= limit or params.max_bytes <= 0:
            return SharedRecords()
        try:
            raw = log.read(offset, max_bytes, limit, at_least_one=True)
        except RecordError as error:
            return SharedRecords(error.code)
        ranges = [(header.base_offset, header.last_offset) for header, _ in split_batches(raw)]
        lock, acquired = led.records.acquire(
            params.member_id,
            offset,
            ranges,
            max_records=max_records,
            batch_size=params.batch_size,
            is_exact=params.is_exact,
            aborted=_aborted(log, raw, offset) if params.read_committed else (),
        )
        if lock is None:
            return SharedRecords()
        self._partitions.start_lock(led, lock)
        return SharedRecords(
            records=_slice(raw, acquired[0].first, acquired[-1].last), acquired=acquired
        )


def _aborted(log: ReadableLog, raw: bytes, offset: int) -> list[OffsetRange]:
    """Return the batches of aborted transactions in what was read at an offset."""
    transactions = log.aborted_transactions(offset, log.end_of_read(offset, len(raw)))
    if not transactions:
        return []
    return [
        (header.base_offset, header.last_offset)
        for header, _ in split_batches(raw)
        if header.is_transactional
        and not header.is_control
        and any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset <= each.last_offset
            for each in transactions
        )
    ]


def _slice(raw: bytes, first: int, last: int) -> bytes:
    """Return the batches that have records between two offsets."""
    return b"".join(
        batch
        for header, batch in split_batches(raw)
        if header.last_offset >= first and header.base_offset <= last
    )
