"""What clients ask of the group coordinator, independent of the versions of Kafka's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from purgatory_broker.groups.member import Protocols
from purgatory_broker.request_context import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A request to become, or to remain, a member of a group's next generation.

    Attributes:
        member_id: The member's id; empty for a new member.
        instance_id: The instance id of a static member; None for a dynamic one.
        rebalance_timeout_ms: How long the group waits for the member in a rebalance.
        session_timeout_ms: How long the group waits for the member's next heartbeat.
        protocol_type: What kind of group it is, such as "consumer".
        reason: Why the member joins, for the log.
        requires_known_member_id: A new dynamic member first gets an id, with which it joins again.
            A client whose response is lost then leaves no member behind (KIP-394).
        supports_skip_assignment: The response can tell a leader to make no assignment (KIP-814).
    """

    group_id: str
    member_id: str
    instance_id: str | None
    client: Client
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str
    requires_known_member_id: bool
    supports_skip_assignment: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member's request for its assignment; the leader's has the assignments of all members.

    Attributes:
        generation_id: The generation that the member has joined.
        instance_id: The instance id of a static member; None for a dynamic one.
        protocol_type: The protocol type that the member knows; None if the request has none.
        protocol_name: The protocol that the member knows; None if the request has none.
        requires_protocol: A request without the protocol or its type is invalid.
        assignments: The assignment of each member id; empty unless the member is the leader.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    requires_protocol: bool
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member's sign of life.

    Attributes:
        instance_id: The instance id of a static member; None for a dynamic one.
    """

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
    """A request to commit offsets.

    Attributes:
        generation_id: The generation that the member knows; -1 for a client that is no member.
        member_id: The member's id; empty for a client that is no member.
        instance_id: The instance id of a static member; None for a dynamic one.
        retention_ms: How long the offsets are kept, in milliseconds; -1 for the default.
        knows_group_id_not_found: The client handles GROUP_ID_NOT_FOUND; others get
            ILLEGAL_GENERATION.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    knows_group_id_not_found: bool
    offsets: tuple[OffsetToCommit, ...]
