"""The requests of members of the classic protocol."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.groups.captured_response import CapturedResponse, Sender

GROUP = "orders"
RANGE = (("range", b"r"),)


class ClassicRequests(Sender):
    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        group_id: str = GROUP,
        version: int = 9,
    ) -> CapturedResponse:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=raw)
                for name, raw in protocols
            ],
            reason="test",
        )
        return self.send(request, version)

    def join_with_id(self, **options: Any) -> CapturedResponse:
        """Join as a new dynamic member: request a member id and join with it."""
        first = self.join(**options)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.response.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group_id: str = GROUP,
        version: int = 5,
    ) -> CapturedResponse:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=each, assignment=raw)
                for each, raw in (assignments or {}).items()
            ],
        )
        return self.send(request, version)

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        instance_id: str | None = None,
        group_id: str = GROUP,
        version: int = 4,
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        return self.send(request, version).error

    def leave(
        self, *members: tuple[str, str | None], group_id: str = GROUP, version: int = 5
    ) -> Any:
        request = LeaveGroupRequest(
            group_id=group_id,
            member_id=members[0][0],
            members=[
                LeaveGroupRequest.MemberIdentity(member_id=each, group_instance_id=instance)
                for each, instance in members
            ],
        )
        return self.send(request, version).response
