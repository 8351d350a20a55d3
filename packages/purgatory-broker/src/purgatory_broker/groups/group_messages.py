"""What clients ask of the group coordinator, and what it answers, in no version of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from purgatory_broker._wire.error_code import CodedError, ErrorCode
from purgatory_broker.groups.group_records import OffsetValue
from purgatory_broker.log.verification import VerificationGuard
from purgatory_broker.request_context import Client

#: Names of protocols (of assignors, for consumers) in the member's order of preference, each with
#: the metadata that the group's leader gets.
Protocols = tuple[tuple[str, bytes], ...]


class GroupError(CodedError):
    def __init__(self, code: ErrorCode, group_id: str, message: str | None = None) -> None:
        """`message` is what the client is told, in requests that tell more than the code."""
        super().__init__(code, message or f"group {group_id!r}: {code.name}")
        self.group_id = group_id
        self.message = message

    def __reduce__(self) -> tuple[type[GroupError], tuple[ErrorCode, str, str | None]]:
        return type(self), (self.code, self.group_id, self.message)


_COORDINATOR_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(append_error: ErrorCode) -> ErrorCode:
    """Return what a client gets of an append error, by CoordinatorOperationExceptionHelper."""
    return _COORDINATOR_ERRORS.get(append_error, append_error)


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    #: For the group's protocol.
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The generation that a member has joined, or an error."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    #: The leader is to make no assignment.
    skip_assignment: bool = False
    #: All members, for the leader; empty for the others.
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """What became of the members or offsets to remove, in the order of the request."""

    error: ErrorCode = ErrorCode.NONE
    #: The error of each; empty if the whole request has one.
    parts: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    error: ErrorCode = ErrorCode.NONE
    #: By topic the partitions' numbers and committed offsets; None if there is none, or an error.
    topics: tuple[tuple[str, tuple[tuple[int, OffsetValue | ErrorCode | None], ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


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
LeaveReply: TypeAlias = Callable[[RemovalResult], object]
#: With the error of each offset of the request.
CommitReply: TypeAlias = Callable[[tuple[ErrorCode, ...]], object]
DeleteOffsetsReply: TypeAlias = Callable[[RemovalResult], object]
#: With the error of each group id.
DeleteGroupsReply: TypeAlias = Callable[[dict[str, ErrorCode]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A request to become, or to remain, a member of a group's next generation."""

    group_id: str
    #: The member's id; empty for a new member.
    member_id: str
    #: The instance id of a static member; None for a dynamic one.
    instance_id: str | None
    client: Client
    #: How long the group waits for the member in a rebalance.
    rebalance_timeout_ms: int
    #: How long the group waits for the member's next heartbeat.
    session_timeout_ms: int
    #: What kind of group it is, such as "consumer".
    protocol_type: str
    protocols: Protocols
    #: Why the member joins, for the log.
    reason: str
    #: A new dynamic member first gets an id, with which it joins again. A client whose response is
    #: lost then leaves no member behind (KIP-394).
    requires_known_member_id: bool
    #: The response can tell a leader to make no assignment (KIP-814).
    supports_skip_assignment: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member's request for its assignment; the leader's has the assignments of all members."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    #: The protocol that the member knows; None if the request has none.
    protocol_name: str | None
    #: A request without the protocol or its type is invalid.
    requires_protocol: bool
    #: The assignment of each member id; empty unless the member is the leader.
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member to remove, named by its id, or by its instance id alone."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    group_id: str
    #: The generation or the epoch that the member knows; -1 for a client that is no member.
    generation_id: int
    #: The member's id; empty for a client that is no member.
    member_id: str
    instance_id: str | None
    #: How long the offsets are kept, in milliseconds; -1 for the default.
    retention_ms: int
    #: The client handles GROUP_ID_NOT_FOUND and member epochs; others get ILLEGAL_GENERATION.
    knows_group_id_not_found: bool
    offsets: tuple[OffsetToCommit, ...]


class Producer(NamedTuple):
    producer_id: int
    producer_epoch: int
    #: Of the verification of its transaction; None if that had begun in the partition before.
    guard: VerificationGuard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalCommit:
    """Offsets that a producer commits in its transaction, for the group of its consumer."""

    group_id: str
    transactional_id: str
    producer: Producer
    #: The consumer's generation, id and instance id, as in `CommitRequest`.
    generation_id: int
    member_id: str
    instance_id: str | None
    #: The commit adds the offsets' partition to the transaction, which AddOffsetsToTxn did before.
    adds_partition: bool
    offsets: tuple[OffsetToCommit, ...]
