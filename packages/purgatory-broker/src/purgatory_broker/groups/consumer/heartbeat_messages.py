"""What members of the consumer protocol ask, and what they are answered, in no version of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.partitions import Assignment
from purgatory_broker.groups.modern.record_values import ConsumerMemberValue, CurrentAssignment
from purgatory_broker.request_context import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A request to join or to leave, or to tell and learn of changes; None for no change."""

    group_id: str
    member_id: str
    #: 0 joins, -1 leaves, -2 leaves a static member that will return.
    member_epoch: int
    instance_id: str | None
    client: Client
    rack_id: str | None = None
    #: -1 for no change.
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    #: The partitions that the member has.
    owned: Assignment | None = None
    #: The member has to choose its id; otherwise the coordinator can.
    requires_member_id: bool = True
    #: Returns those of some topics that the client may describe; None if it may describe all.
    describable: Callable[[Iterable[str]], Container[str]] | None = None


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatResult:
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    #: The partitions that the member is to have; None if that is as before.
    assignment: Assignment | None = None


HeartbeatReply: TypeAlias = Callable[[ConsumerHeartbeatResult], object]


@dataclass(frozen=True, slots=True)
class ConsumerMemberDescription:
    member_id: str
    member: ConsumerMemberValue
    current: CurrentAssignment
    target: Assignment


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[ConsumerMemberDescription, ...] = ()
