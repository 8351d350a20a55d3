"""What the group coordinator answers, independent of the versions of Kafka's protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from purgatory_broker.groups.group_records import OffsetValue
from purgatory_broker.wire.error_code import ErrorCode


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    #: For the group's protocol.
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The generation that a member has joined, or an error.

    Attributes:
        error: NONE, or why the member has not joined.
        generation_id: The generation; -1 with an error.
        skip_assignment: The leader is to make no assignment.
        members: All members, for the leader; empty for the others.
    """

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """What became of the members that were to be removed, in the order of the request.

    Attributes:
        members: The error of each member; empty if the whole request has one.
    """

    error: ErrorCode = ErrorCode.NONE
    members: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """The committed offsets of a group.

    Attributes:
        topics: By topic the partitions' numbers and committed offsets; None if there is none.
    """

    error: ErrorCode = ErrorCode.NONE
    topics: tuple[tuple[str, tuple[tuple[int, OffsetValue | None], ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteOffsetsResult:
    """What became of the offsets that were to be removed, in the order of the request.

    Attributes:
        partitions: The error of each partition; empty if the whole request has one.
    """

    error: ErrorCode = ErrorCode.NONE
    partitions: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class ListedGroups:
    error: ErrorCode = ErrorCode.NONE
    groups: tuple[GroupListing, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    #: Empty unless the group is stable.
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    protocol_type: str = ""
    #: Empty unless the group is stable.
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


#: Each is called once, with the result for a client that waits for it.
JoinReply: TypeAlias = Callable[[JoinResult], object]
SyncReply: TypeAlias = Callable[[SyncResult], object]
#: With the error of each offset of the request.
CommitReply: TypeAlias = Callable[[tuple[ErrorCode, ...]], object]
DeleteOffsetsReply: TypeAlias = Callable[[DeleteOffsetsResult], object]
#: With the error of each group id.
DeleteGroupsReply: TypeAlias = Callable[[dict[str, ErrorCode]], object]
