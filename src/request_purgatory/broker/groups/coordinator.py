"""The group coordinator of a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafka.protocol.consumer import HeartbeatResponse, LeaveGroupResponse, OffsetDeleteResponse

from request_purgatory.broker.groups.administration import Administration
from request_purgatory.broker.groups.committing import Committing, commit_response
from request_purgatory.broker.groups.deferred_actions import ActionQueue
from request_purgatory.broker.groups.errors import GroupError
from request_purgatory.broker.groups.group import Group, GroupState
from request_purgatory.broker.groups.joining import Joining, JoinRequest
from request_purgatory.broker.groups.member import Reply
from request_purgatory.broker.groups.membership import Membership
from request_purgatory.broker.groups.rebalancer import (
    GroupPurgatories,
    Rebalancer,
    join_response,
    sync_response,
)
from request_purgatory.broker.groups.shards import OffsetsStore, Shard, Shards
from request_purgatory.broker.server.request_context import Client
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

#: From the next version of JoinGroup's response on, its protocol's name may be null.
_LAST_WITHOUT_NULL_PROTOCOL = 6
#: Errors that say nothing of the member that asked to join: Kafka leaves its id out of the answer.
_NOT_OF_A_MEMBER = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class GroupCoordinator:
    """Coordinates the groups whose partition of the offsets topic this node leads, as Kafka's does for its classic protocol.

    It does no I/O: it answers by return values and `reply` callbacks, waits in three purgatories,
    and writes through an `OffsetsStore`. All of it belongs to the loop of the purgatories. Requests
    and responses are kafka-python's messages; what a request's version changes is taken from its
    `version`, and responses can be encoded in that version. A `reply` is called exactly once, when
    the coordinator's state is whole: it may call the coordinator again.
    """

    def __init__(
        self,
        node_id: int,
        settings: ClusterSettings,
        *,
        purgatories: GroupPurgatories,
        store: OffsetsStore,
        now_ms: Callable[[], int],
    ) -> None:
        """A coordinator that has no partition yet.

        `now_ms` is milliseconds since the epoch, for the records.
        """
        self.node_id = node_id
        self._now_ms = now_ms
        self._actions = ActionQueue()
        self._shards = Shards(settings.offsets_topic_num_partitions, store, self._actions)
        self._rebalancer = Rebalancer(settings, purgatories, self._shards, self._actions, now_ms)
        self._joining = Joining(self._rebalancer)
        self._membership = Membership(self._rebalancer)
        self._committing = Committing(self._rebalancer)
        self._administration = Administration(self._rebalancer, self._committing)
        self._group_max_size = settings.group_max_size

    # -- partitions

    def partition_for(self, group_id: str) -> int:
        """The partition of the offsets topic whose leader coordinates a group."""
        return self._shards.partition_for(group_id)

    @property
    def partitions(self) -> list[int]:
        """The partitions that it has, or is loading."""
        return sorted(shard.partition for shard in self._shards)

    def begin_load(self, partition: int) -> None:
        """This node leads a partition now, whose records are still to be read: until `load` its groups are answered
        COORDINATOR_LOAD_IN_PROGRESS. Not needed where the records are there at once."""
        if self._shards.get(partition) is None:
            self._shards.begin(partition)

    def load(self, partition: int, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """This node leads a partition now: take its records, keys and values in the order of the log, to be its groups.

        Members that they know have their session timeout to send a heartbeat. Nothing happens if it
        is loaded already.
        """
        with self._actions:
            shard = self._shards.get(partition) or self._shards.begin(partition)
            if not shard.is_loading:
                logger.debug(
                    "node %d coordinates partition %d of the offsets topic already",
                    self.node_id,
                    partition,
                )
                return
            shard.replay(records, self._now_ms())
            for group in shard.groups.values():
                for member in group.members.values():
                    self._rebalancer.expect_heartbeat(
                        group, member.member_id, member.session_timeout_ms
                    )
                if len(group.members) > self._group_max_size:
                    self._rebalancer.prepare(
                        group, f"{len(group.members)} members where {self._group_max_size} may be"
                    )
        logger.info(
            "node %d coordinates the %d groups of partition %d",
            self.node_id,
            len(shard.groups),
            partition,
        )

    def unload(self, partition: int) -> None:
        """This node leads a partition no longer.

        What waits for its groups is answered NOT_COORDINATOR.
        """
        with self._actions:
            shard = self._shards.get(partition)
            if shard is not None:
                self._unload(shard)

    def close(self) -> None:
        """Unload every partition. To be called before the purgatories are closed."""
        with self._actions:
            for shard in self._shards:
                self._unload(shard)

    def _unload(self, shard: Shard) -> None:
        self._shards.drop(shard)
        for group in shard.groups.values():
            self._rebalancer.discard(group, ErrorCode.NOT_COORDINATOR)
        logger.info("node %d no longer coordinates partition %d", self.node_id, shard.partition)

    # -- members

    def join_group(self, request: Any, client: Client, reply: Reply, version: int) -> None:
        """Answer a JoinGroup request of a version when the member's group has its next generation.

        Errors, at once.
        """
        if version <= _LAST_WITHOUT_NULL_PROTOCOL:
            reply = partial(_reply_with_protocol, reply)
        with self._actions:
            try:
                self._joining.join(JoinRequest.of(request, client, reply, version))
            except GroupError as error:
                member_id = "" if error.code in _NOT_OF_A_MEMBER else request.member_id
                self._rebalancer.reply(reply, join_response(error.code, member_id=member_id))

    def sync_group(self, request: Any, reply: Reply) -> None:
        """Answer a SyncGroup request when the leader's assignment is stored.

        Errors, and in a stable group, at once.
        """
        with self._actions:
            try:
                self._membership.sync(request, reply)
            except GroupError as error:
                self._rebalancer.reply(reply, sync_response(error.code))

    def heartbeat(self, request: Any) -> Any:
        """The response to a Heartbeat request."""
        code = ErrorCode.NONE
        with self._actions:
            try:
                self._membership.heartbeat(request)
            except GroupError as error:
                # Who is in the group will be known soon; until then nobody is to be alarmed.
                code = (
                    ErrorCode.NONE
                    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    else error.code
                )
        return HeartbeatResponse(throttle_time_ms=0, error_code=code)

    def leave_group(self, request: Any) -> Any:
        """The response to a LeaveGroup request."""
        with self._actions:
            try:
                return self._membership.leave(request)
            except GroupError as error:
                return LeaveGroupResponse(throttle_time_ms=0, error_code=error.code, members=[])

    # -- offsets

    def commit_offsets(self, request: Any, reply: Reply) -> None:
        """Answer an OffsetCommit request when its records are replicated; errors, at once.

        Whether there are such topics is the
        caller's to check: their names are taken as they are."""
        with self._actions:
            try:
                self._committing.commit(request, reply)
            except GroupError as error:
                code = error.code
                self._rebalancer.reply(
                    reply, commit_response(request, lambda _topic, _partition: code)
                )

    def fetch_offsets(self, request: Any) -> Any:
        """The response to an OffsetFetch request, with what is replicated by now, whether the request wants `require_stable` or
        not: there are no transactions."""
        return self._committing.fetch(request)

    def delete_offsets(self, request: Any, reply: Reply) -> None:
        """Answer an OffsetDelete request when its records are replicated; errors, at once."""
        with self._actions:
            try:
                self._committing.delete(request, reply)
            except GroupError as error:
                self._rebalancer.reply(
                    reply,
                    OffsetDeleteResponse(error_code=error.code, throttle_time_ms=0, topics=[]),
                )

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted: what was committed for it goes."""
        with self._actions:
            self._committing.forget_topic(topic)

    # -- administration

    def list_groups(self, request: Any) -> Any:
        """The response to a ListGroups request."""
        return self._administration.list_groups(request)

    def describe_groups(self, request: Any) -> Any:
        """The response to a DescribeGroups request."""
        return self._administration.describe_groups(request)

    def delete_groups(self, request: Any, reply: Reply) -> None:
        """Answer a DeleteGroups request when its records are replicated; errors, at once."""
        with self._actions:
            self._administration.delete_groups(request, reply)

    # -- what it holds

    @property
    def groups(self) -> list[Group]:
        """All its groups."""
        return [group for shard in self._shards for group in shard.groups.values()]

    def check(self) -> None:
        """Assert every invariant. O(members of all groups)."""
        for group in self.groups:
            assert group.state is not GroupState.DEAD, group.group_id
            group.check()


def _reply_with_protocol(reply: Reply, response: Any) -> None:
    """A response names a protocol, though it be an error's."""
    if response.protocol_name is None:
        response.protocol_name = ""
    reply(response)
