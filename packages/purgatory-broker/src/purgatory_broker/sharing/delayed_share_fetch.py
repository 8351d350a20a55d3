"""The delayed operation of a share fetch: wait for records that the group may acquire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.replication.replica import Replica
from purgatory_broker.sharing.leader_state import LedPartition
from request_purgatory.purgatory.operation import DelayedOperation


class ShareFetchParams(NamedTuple):
    group_id: str
    member_id: str
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    #: About how many records each range of the response has.
    batch_size: int
    #: Whether the fetch acquires no more than `max_records`, in the middle of a batch, too.
    is_exact: bool
    read_committed: bool

    def limit_offset(self, replica: Replica) -> int:
        return replica.last_stable_offset if self.read_committed else replica.high_watermark


class DelayedShareFetch(DelayedOperation):
    """Waits until there are `min_bytes` to acquire, or a partition can't be waited for.

    Each partition is watched by two keys: by itself, for records that are appended and leaders that
    change, and with the group, for records that members release. At its end, by completion or by
    timeout, the operation calls `reply`, which acquires.

    A partition that this node has ceased to lead ends the wait. Its records are never acquired, so
    that the fetch would wait for its timeout (in Kafka until KAFKA-19567).
    """

    __slots__ = ("params", "partitions", "reply")

    def __init__(
        self,
        params: ShareFetchParams,
        partitions: Sequence[LedPartition],
        reply: Callable[[], None],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self.params = params
        self.partitions = partitions
        self.reply = reply

    def try_complete(self) -> bool:
        available = 0
        for led in self.partitions:
            if led.error is not ErrorCode.NONE:
                return self.force_complete()
            if led.records is None or not led.records.can_acquire:
                continue
            offset = led.records.next_fetch_offset
            if offset < led.replica.log.log_start_offset:
                return self.force_complete()
            limit = self.params.limit_offset(led.replica)
            if offset < limit:
                available += led.replica.log.bytes_between(offset, limit)
            if available >= self.params.min_bytes:
                return self.force_complete()
        return False

    def on_complete(self) -> None:
        self.reply()
