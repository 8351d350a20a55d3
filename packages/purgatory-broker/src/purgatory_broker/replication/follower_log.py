"""What the responses of a leader do to a follower's log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.replication.delayed_fetch import FetchedPartition, FetchParams, FetchTarget
from purgatory_broker.replication.replica import Replica

logger = logging.getLogger(__name__)


class LogBounds(NamedTuple):
    """The bounds of a leader's log, or the error with which it refuses to give them."""

    error: ErrorCode
    log_start_offset: int = -1
    end_offset: int = -1


class PendingRequest(Protocol):
    def cancel(self) -> None:
        """Ignore a response that arrives from now on."""


class LeaderEndPoint(Protocol):
    """The requests of a follower to one leader, as in Kafka's interface of this name.

    Each is one round trip. `respond` is called once, on the event loop and after the method has
    returned; never if the request is cancelled, or if a message is lost.
    """

    @property
    def leader(self) -> int: ...

    def fetch(
        self,
        params: FetchParams,
        targets: list[FetchTarget],
        respond: Callable[[list[FetchedPartition]], None],
    ) -> PendingRequest:
        """Read partitions when they have `min_bytes` together, or after `max_wait_ms`."""

    def log_bounds(
        self, targets: list[FetchTarget], respond: Callable[[list[LogBounds]], None]
    ) -> PendingRequest:
        """Ask where the leader's logs begin and end."""


def apply_fetched(replica: Replica, fetched: FetchedPartition) -> bool:
    """Append, or truncate a diverging log; return whether log or high watermark changed."""
    if fetched.diverging is not None:
        replica.truncate_to(truncation_offset(replica, *fetched.diverging))
        return True
    before = replica.log.log_start_offset, replica.log.end_offset
    start_offset = fetched.log_start_offset
    if start_offset == replica.log.end_offset:
        # The leader has deleted every record that this log has, and this log may diverge from
        # the deleted ones. So it must be emptied before the append: the leader's start may lie
        # inside the first fetched batch, which then begins before this log's end.
        replica.log.advance_log_start_offset(start_offset)
    if fetched.records:
        replica.log.append_as_follower(fetched.records, max_epoch=replica.leader_epoch)
    if start_offset > replica.log.log_start_offset:
        replica.log.advance_log_start_offset(min(start_offset, replica.log.end_offset))
    after = replica.log.log_start_offset, replica.log.end_offset
    return replica.update_high_watermark(fetched.high_watermark) or after != before


def truncation_offset(replica: Replica, epoch: int, end: int) -> int:
    """Return the offset to truncate a diverging log to (KIP-595).

    If this log has no records of the leader's epoch, it is truncated to where its own preceding
    epoch ends. The next fetch shows whether the logs still diverge.
    """
    own_end = replica.log.end_offset_for_epoch(epoch)[1]
    return end if own_end < 0 else min(end, own_end)


def move_into_bounds(replica: Replica, bounds: LogBounds) -> bool:
    """Return False if the log is in the range by now, or its epoch is still unknown."""
    end = replica.log.end_offset
    if end > bounds.end_offset:
        logger.warning(
            "%s: node %d is ahead of its leader, and truncates its log",
            replica.key,
            replica.node_id,
        )
        replica.truncate_to(bounds.end_offset)
    elif end < bounds.log_start_offset:
        logger.info(
            "%s: the leader has deleted the records that node %d would fetch next; "
            "its log restarts at offset %d",
            replica.key,
            replica.node_id,
            bounds.log_start_offset,
        )
        replica.truncate_fully_and_start_at(bounds.log_start_offset)
    else:
        return False
    return True
