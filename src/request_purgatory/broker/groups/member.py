"""A member of a group."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from request_purgatory.broker.groups.records import MemberValue

Reply = Callable[[Any], object]

#: Names of protocols (a consumer's: of assignors), the preferred one first, each with what the
#: member tells the leader.
Protocols = tuple[tuple[str, bytes], ...]


def has_version(request: Any, version: int) -> bool:
    """True if a request is of this version or a later one.

    One that was never on the wire is of the latest.
    """
    return request.version is None or request.version >= version


@dataclass(slots=True)
class Member:
    """A member, static if it has an instance id.

    At most one JoinGroup and one SyncGroup of it wait to be answered.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    #: It has not been answered with a generation yet, so it can't send heartbeats.
    is_new: bool = False
    join_reply: Reply | None = field(default=None, repr=False)
    sync_reply: Reply | None = field(default=None, repr=False)

    @property
    def is_static(self) -> bool:
        """True if it keeps its place in the group over restarts."""
        return self.instance_id is not None

    @property
    def is_awaited_in_vain(self) -> bool:
        """True if a heartbeat that does not come tells that it failed.

        A member that waits for the rest of its group can't send any, except that a new one must
        come again after some minutes: its connection may have ended, and then nobody would tell.
        """
        return self.is_new or (self.join_reply is None and self.sync_reply is None)

    def metadata(self, protocol: str) -> bytes:
        """What it tells the leader; StopIteration for a protocol that it does not have."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Collection[str]) -> str:
        """The one that it prefers; every member supports every candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    def stored(self, protocol: str, assignment: bytes) -> MemberValue:
        """It as a record has it, with this assignment."""
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
    def restored(cls, value: MemberValue, protocol_type: str, protocol: str) -> Member:
        """It as it is after a coordinator has loaded the record."""
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
