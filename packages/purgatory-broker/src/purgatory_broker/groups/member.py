"""A member of a group."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from purgatory_broker.groups.group_messages import JoinReply, Protocols, SyncReply
from purgatory_broker.groups.group_records import MemberValue


@dataclass(slots=True)
class Member:
    """A member, static if it has an instance id; one JoinGroup and one SyncGroup may wait."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    #: The member has not received a generation yet, so it cannot send heartbeats.
    is_new: bool = False
    #: Answers the pending JoinGroup request; None if none is pending.
    join_reply: JoinReply | None = field(default=None, repr=False)
    #: Answers the pending SyncGroup request; None if none is pending.
    sync_reply: SyncReply | None = field(default=None, repr=False)

    @property
    def needs_heartbeat(self) -> bool:
        """A pending request stands for heartbeats, but not for a new member's, who may be gone."""
        return self.is_new or (self.join_reply is None and self.sync_reply is None)

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def to_record(self, protocol: str, assignment: bytes) -> MemberValue:
        return MemberValue(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    @classmethod
    def from_record(cls, value: MemberValue, protocol_type: str, protocol: str) -> Member:
        return cls(
            member_id=value.member_id,
            instance_id=value.instance_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            session_timeout_ms=value.session_timeout_ms,
            protocol_type=protocol_type,
            protocols=((protocol, value.subscription),),
            assignment=value.assignment,
        )
