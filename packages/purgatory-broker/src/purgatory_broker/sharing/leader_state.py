"""A share partition at the leader of its partition, with what is stored of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import Replica
from purgatory_broker.sharing.share_coordinator import StateResult
from purgatory_broker.sharing.share_partition import SharePartition
from purgatory_broker.sharing.spans import Update
from purgatory_broker.sharing.state import ShareKey, ShareState


class ShareStates(Protocol):
    """Where the states are stored: at the share coordinators, wherever they are."""

    def read(
        self, key: ShareKey, leader_epoch: int, reply: Callable[[StateResult], None]
    ) -> None: ...

    def write(
        self, key: ShareKey, update: ShareState, reply: Callable[[StateResult], None]
    ) -> None: ...


@dataclass(slots=True, eq=False)
class LedPartition:
    """A share partition that this node leads in one leader epoch."""

    key: ShareKey
    topic_partition: TopicPartition
    replica: Replica
    leader_epoch: int
    #: None until its state has been read.
    records: SharePartition | None = None
    state_epoch: int = 0
    #: Why it is not used any more: it is not led, or its state could not be read or written.
    error: ErrorCode = ErrorCode.NONE
    #: Whether a write has no answer yet. The next ones wait for it, and are written together.
    is_writing: bool = False
    waiting: list[tuple[Update, Callable[[ErrorCode], None]]] = field(default_factory=list)
    #: Called after the last write of a share partition that is not used any more.
    on_written: Callable[[], None] = lambda: None

    @property
    def watch_key(self) -> tuple[str, TopicPartition]:
        """The watch key of fetches of this group; those of all groups watch the partition."""
        return self.key.group_id, self.topic_partition

    @property
    def is_led(self) -> bool:
        return self.replica.is_leader and self.replica.leader_epoch == self.leader_epoch


#: What a leader answers for an error of the share coordinator.
_LEADER_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def leader_error(error: ErrorCode) -> ErrorCode:
    """Return what a member gets of a share coordinator's error, as in Kafka's SharePartition."""
    if error is ErrorCode.NONE:
        return error
    return _LEADER_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
