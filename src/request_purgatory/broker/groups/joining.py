"""JoinGroup."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from request_purgatory.broker.groups.errors import GroupError, coordinator_error
from request_purgatory.broker.groups.group import Group, GroupState
from request_purgatory.broker.groups.member import Member, Protocols, Reply
from request_purgatory.broker.groups.rebalancer import Rebalancer, join_response, sync_response
from request_purgatory.broker.groups.shards import Shard
from request_purgatory.broker.server.request_context import Client
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

#: A new member that waits for its group for so long must send JoinGroup again: its connection may
#: have ended. As in Kafka.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000

_FENCED = ErrorCode.FENCED_INSTANCE_ID


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A JoinGroup request, as all its versions mean it."""

    group_id: str
    member_id: str
    instance_id: str | None
    client: Client
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str
    version: int
    reply: Reply

    @classmethod
    def of(cls, message: Any, client: Client, reply: Reply, version: int) -> JoinRequest:
        """It out of the message.

        Version 0 has no rebalance timeout, and means its session timeout.
        """
        return cls(
            group_id=message.group_id,
            member_id=message.member_id,
            instance_id=message.group_instance_id,
            client=client,
            rebalance_timeout_ms=message.session_timeout_ms
            if version == 0
            else max(message.rebalance_timeout_ms, 0),
            session_timeout_ms=message.session_timeout_ms,
            protocol_type=message.protocol_type,
            protocols=tuple(
                {each.name: bytes(each.metadata) for each in message.protocols}.items()
            ),
            reason=f"the client's reason: {message.reason or 'not provided'}",
            version=version,
            reply=reply,
        )

    @property
    def needs_known_id(self) -> bool:
        """True if a new member comes back with the id that it is given, so that lost answers leave no members behind."""
        return self.version >= 4

    @property
    def can_skip_assignment(self) -> bool:
        """True if the client can be told, as a leader, to make no assignment."""
        return self.version >= 9


class Joining:
    """Takes members in, for a `Rebalancer`.

    | who | what happens |
    |---|---|
    | no member id, version 4 or later | gets one with MEMBER_ID_REQUIRED, and is expected back with it |
    | no member id, version 3 or earlier | becomes a member |
    | no member id, an instance id that is new | becomes a static member |
    | no member id, an instance id of a member | takes its place; the group rebalances only if that would change its protocol |
    | a member id that it was given | becomes a member |
    | a member | joins again: rebalances if it is the leader or wants something else; otherwise is told what it missed |
    """

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer
        self._settings = rebalancer.settings

    def join(self, request: JoinRequest) -> None:
        """Handle a request; GroupError for some of those that are refused."""
        group_id, member_id = request.group_id, request.member_id
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID, group_id)
        longest_ms = self._settings.group_max_session_timeout_ms
        if (
            not self._settings.group_min_session_timeout_ms
            <= request.session_timeout_ms
            <= longest_ms
        ):
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT, group_id)
        shard = self._rebalancer.shards.shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            if member_id:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
            group = shard.add_group(group_id, self._rebalancer.now_ms())
            self._rebalancer.store(group, {}, partial(self._new_group_stored, shard, group))
        if not self._has_room(group, member_id):
            self._turn_away(group, request)
        elif not group.supports(request.protocol_type, request.protocols):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, group_id)
        elif member_id:
            self._join_known(group, request)
        else:
            self._join_unknown(group, request)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Rejoining members of a group that has become too large are counted as they come.

        The last ones are turned away.
        """
        if group.state is GroupState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            is_in, size = member is not None and member.join_reply is not None, group.awaiting_join
        else:
            is_in, size = member is not None, len(group.members)
        return is_in or size < self._settings.group_max_size

    def _turn_away(self, group: Group, request: JoinRequest) -> None:
        member = group.members.get(request.member_id)
        if member is not None:
            self._rebalancer.remove(group, member)
        elif request.member_id in group.pending_join:
            self._rebalancer.forget(group, request.member_id)
        self._rebalancer.try_join(group)
        self._rebalancer.reply(request.reply, join_response(ErrorCode.GROUP_MAX_SIZE_REACHED))

    def _new_group_stored(self, shard: Shard, group: Group, error: ErrorCode) -> None:
        """A group is as good as not there until a record says that it is, or its members have been told of a generation."""
        if error is ErrorCode.NONE or group.was_stored:
            return
        logger.warning("new group %r can't be stored: %s", group.group_id, error.name)
        if group.generation == 0 and shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]
            self._rebalancer.discard(group, coordinator_error(error))

    # -- without a member id

    def _join_unknown(self, group: Group, request: JoinRequest) -> None:
        member_id = f"{request.instance_id or request.client.client_id}-{uuid.uuid4()}"
        if request.instance_id is not None:
            known = group.static_members.get(request.instance_id)
            if known is None:
                self._add(group, member_id, request)
            else:
                self._replace_static(group, group.members[known], member_id, request)
        elif request.needs_known_id:
            group.pending_join.add(member_id)
            self._rebalancer.expect_heartbeat(group, member_id, request.session_timeout_ms)
            self._rebalancer.reply(
                request.reply, join_response(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            )
        else:
            self._add(group, member_id, request)

    def _add(self, group: Group, member_id: str, request: JoinRequest) -> None:
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client.client_id,
            client_host=request.client.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
            is_new=True,
        )
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is GroupState.EMPTY
        ):
            group.new_member_added = True
        group.add(member, request.reply)
        self._rebalancer.expect_heartbeat(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalancer.prepare_or_try_join(group, f"new member {member_id}; {request.reason}")

    def _replace_static(
        self, group: Group, former: Member, member_id: str, request: JoinRequest
    ) -> None:
        """A static member has been started again.

        Whoever still waits as its former self is fenced off.
        """
        logger.info(
            "static member %r of group %r comes back as %r",
            former.instance_id,
            group.group_id,
            member_id,
        )
        self._rebalancer.answer_join(
            group, former, join_response(_FENCED, member_id=former.member_id)
        )
        self._rebalancer.answer_sync(former, sync_response(_FENCED))
        self._rebalancer.void_heartbeat(group, former.member_id)
        former_leader = group.leader_id
        member = replace(
            former,
            member_id=member_id,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            is_new=False,
        )
        group.replace_static(former, member)
        self._rebalancer.expect_heartbeat(group, member_id, member.session_timeout_ms)
        self._rebalancer.await_join(group, member, request.reply)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
            assignment = {each.member_id: each.assignment for each in group.members.values()}
            done = partial(
                self._replacement_stored,
                group,
                former,
                member,
                former_leader,
                request.can_skip_assignment,
            )
            self._rebalancer.store(group, assignment, done)
        elif group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may know the former member id already, and would assign to that.
            self._rebalancer.prepare(
                group, f"static member {member_id} came back; {request.reason}"
            )
        else:
            self._rebalancer.prepare_or_try_join(
                group, f"static member {member_id} changes the protocol; {request.reason}"
            )

    def _replacement_stored(
        self,
        group: Group,
        former: Member,
        member: Member,
        former_leader: str | None,
        can_skip: bool,
        error: ErrorCode,
    ) -> None:
        is_current = (
            group.state is GroupState.STABLE and group.members.get(member.member_id) is member
        )
        if not is_current or member.join_reply is None:
            # Gone, replaced again, or in a rebalance that began meanwhile, which answers it.
            return
        if error is not ErrorCode.NONE:
            logger.warning(
                "static member %r of group %r can't be stored: %s",
                member.instance_id,
                group.group_id,
                error.name,
            )
            response = self._rebalancer.generation_response(group, member, with_members=False)
            response.error_code, response.member_id, response.leader = (
                coordinator_error(error),
                "",
                former_leader,
            )
            self._rebalancer.answer_join(group, member, response)
            self._rebalancer.void_heartbeat(group, member.member_id)
            group.replace_static(member, former)
            self._rebalancer.expect_heartbeat(group, former.member_id, former.session_timeout_ms)
            return
        is_leader = group.leader_id == member.member_id
        response = self._rebalancer.generation_response(
            group, member, with_members=is_leader and can_skip
        )
        if can_skip:
            response.skip_assignment = is_leader
        else:
            # The former id, so that a client that can't skip it makes no assignment, which a stable
            # group would not pass on.
            response.leader = former_leader
        self._rebalancer.answer_join(group, member, response)
        self._rebalancer.expect_heartbeat(group, member.member_id, member.session_timeout_ms)

    # -- with a member id

    def _join_known(self, group: Group, request: JoinRequest) -> None:
        if request.member_id in group.pending_join:
            if request.instance_id is not None:
                # Ids are given out to dynamic members only.
                raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR, group.group_id)
            self._add(group, request.member_id, request)
            return
        member = group.validate_member(request.member_id, request.instance_id)
        is_leader = group.leader_id == member.member_id
        is_unchanged = member.protocols == request.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            # The answer to its last request was lost.
            response = self._rebalancer.generation_response(group, member, with_members=is_leader)
            self._rebalancer.reply(request.reply, response)
        elif group.state is GroupState.STABLE and is_unchanged and not is_leader:
            response = self._rebalancer.generation_response(group, member, with_members=False)
            self._rebalancer.reply(request.reply, response)
        else:
            # A leader that joins again wants another assignment: what it reads may have changed.
            group.update(
                member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
            )
            self._rebalancer.await_join(group, member, request.reply)
            self._rebalancer.prepare_or_try_join(
                group, f"member {member.member_id} joins again; {request.reason}"
            )
