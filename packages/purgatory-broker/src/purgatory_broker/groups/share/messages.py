"""What members and admin clients ask of share groups, in no version of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.partitions import Assignment, TopicIdPartition
from purgatory_broker.groups.modern.record_values import CurrentAssignment, ShareMemberValue
from purgatory_broker.request_context import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """A request to join or to leave, or to tell and learn of changes; None for no change."""

    group_id: str
    member_id: str
    #: 0 joins, -1 leaves.
    member_epoch: int
    client: Client
    rack_id: str | None = None
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ShareHeartbeatResult:
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    #: The partitions that the member is to have; None if that is as before.
    assignment: Assignment | None = None


ShareHeartbeatReply: TypeAlias = Callable[[ShareHeartbeatResult], object]


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    member_id: str
    member: ShareMemberValue
    current: CurrentAssignment


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    members: tuple[ShareMemberDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """Where a group begins with a partition: -1 if that is not known yet."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    start_offset: int = -1
    leader_epoch: int = 0


OffsetReply: TypeAlias = Callable[[ShareOffset], object]


class ShareOffsets(Protocol):
    """The start offsets of share partitions, at their share coordinators.

    Each method calls `reply` once, inside of a block of the actions.
    """

    def initialize(
        self,
        group_id: str,
        partition: TopicIdPartition,
        state_epoch: int,
        start_offset: int,
        reply: OffsetReply,
    ) -> None: ...

    def read(self, group_id: str, partition: TopicIdPartition, reply: OffsetReply) -> None: ...

    def delete(self, group_id: str, partition: TopicIdPartition, reply: OffsetReply) -> None: ...


@dataclass(frozen=True, slots=True)
class OffsetsResult:
    """The result of a request about the offsets of a group, by topic and partition."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topics: tuple[tuple[str, dict[int, ShareOffset]], ...] = ()


OffsetsReply: TypeAlias = Callable[[OffsetsResult], object]
