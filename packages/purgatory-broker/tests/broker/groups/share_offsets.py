"""Where share groups begin with partitions, without share coordinators."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.share.messages import OffsetReply, ShareOffset


class HarnessShareOffsets:
    """The start offsets of share partitions.

    Attributes:
        error: The error with which deletions are answered.
    """

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.stored: dict[tuple[str, TopicIdPartition], tuple[int, int]] = {}

    def initialize(
        self,
        group_id: str,
        partition: TopicIdPartition,
        state_epoch: int,
        start_offset: int,
        reply: OffsetReply,
    ) -> None:
        """Store a start offset."""
        self.stored[group_id, partition] = state_epoch, start_offset
        reply(ShareOffset())

    def read(self, group_id: str, partition: TopicIdPartition, reply: OffsetReply) -> None:
        """Answer with a start offset."""
        _, start_offset = self.stored.get((group_id, partition), (0, -1))
        reply(ShareOffset(start_offset=start_offset))

    def delete(self, group_id: str, partition: TopicIdPartition, reply: OffsetReply) -> None:
        """Delete a start offset."""
        if self.error is ErrorCode.NONE:
            self.stored.pop((group_id, partition), None)
        reply(ShareOffset(self.error))
