"""The group coordinator of a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafka.protocol.consumer import HeartbeatResponse, LeaveGroupResponse, OffsetDeleteResponse

from request_purgatory.broker.deferred_actions import ActionQueue
from request_purgatory.broker.groups.administration import AdministrationHandler
from request_purgatory.broker.groups.errors import GroupError
from request_purgatory.broker.groups.group import Group, GroupState
from request_purgatory.broker.groups.join_group import JoinGroupHandler, JoinRequest
from request_purgatory.broker.groups.membership import MembershipHandler
from request_purgatory.broker.groups.offset_manager import OffsetManager, commit_response
from request_purgatory.broker.groups.rebalancer import GroupPurgatories, Rebalancer
from request_purgatory.broker.groups.requests import Reply
from request_purgatory.broker.groups.responses import join_response, sync_response
from request_purgatory.broker.groups.shards import OffsetsStore, Shard, Shards
from request_purgatory.broker.request_context import Client
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

#: The first JoinGroup version whose response may have no protocol name.
NULLABLE_PROTOCOL_NAME_SINCE = 7
#: Errors for which Kafka leaves the member id out of the JoinGroup response.
_ERRORS_WITHOUT_MEMBER_ID = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class GroupCoordinator:
    """Coordinates the groups whose offsets topic partition this node leads.

    The coordinator implements Kafka's classic group protocol without I/O. It returns responses or
    passes them to `reply` callbacks, waits in three purgatories, and appends through an
    `OffsetsStore`. It is not safe for threads: every call must be on the purgatories' event loop.

    Requests and responses are kafka-python's messages. A request's `version` selects the behavior,
    and the response can be encoded in that version. A `reply` is called exactly once, when the
    coordinator's state is consistent, so it may call the coordinator again.
    """

    def __init__(
        self,
        node_id: int,
        settings: ClusterSettings,
        *,
        actions: ActionQueue,
        purgatories: GroupPurgatories,
        store: OffsetsStore,
        now_ms: Callable[[], int],
    ) -> None:
        """Create a coordinator without partitions.

        Args:
            node_id: This node's id.
            settings: The cluster's settings.
            actions: The node's deferred actions.
            purgatories: Entered purgatories, to be closed after the coordinator.
            store: Appends to the offsets topic.
            now_ms: Returns milliseconds since the epoch, for records.
        """
        self.node_id = node_id
        self._now_ms = now_ms
        self._actions = actions
        self._shards = Shards(settings.offsets_topic_num_partitions, store, self._actions)
        self._rebalancer = Rebalancer(settings, purgatories, self._shards, self._actions, now_ms)
        self._join_group = JoinGroupHandler(self._rebalancer)
        self._membership = MembershipHandler(self._rebalancer)
        self._offsets = OffsetManager(self._rebalancer)
        self._administration = AdministrationHandler(self._rebalancer, self._offsets)
        self._group_max_size = settings.group_max_size

    # -- partitions

    def partition_for(self, group_id: str) -> int:
        """Return the partition of the offsets topic whose leader coordinates a group."""
        return self._shards.partition_for(group_id)

    @property
    def partitions(self) -> list[int]:
        """The partitions that this coordinator has loaded or is loading."""
        return sorted(shard.partition for shard in self._shards)

    def begin_load(self, partition: int) -> None:
        """Reject requests for a partition's groups with COORDINATOR_LOAD_IN_PROGRESS until `load`.

        Call this when the node has become the partition's leader and its records are not available
        yet. No-op if the partition is loading or loaded.
        """
        if self._shards.get(partition) is None:
            self._shards.add(partition)

    def load(self, partition: int, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Coordinate the groups of a partition whose leader this node has become.

        Stored members have their session timeout to send a heartbeat. No-op if the partition is
        loaded.

        Args:
            partition: A partition of the offsets topic.
            records: The partition's keys and values in log order; None for a tombstone.
        """
        with self._actions:
            shard = self._shards.get(partition) or self._shards.add(partition)
            if not shard.is_loading:
                logger.debug(
                    "node %d has already loaded partition %d of the offsets topic",
                    self.node_id,
                    partition,
                )
                return
            shard.replay(records, self._now_ms())
            for group in shard.groups.values():
                for member in group.members.values():
                    self._rebalancer.reschedule_heartbeat(
                        group, member.member_id, member.session_timeout_ms
                    )
                if len(group.members) > self._group_max_size:
                    self._rebalancer.prepare_rebalance(
                        group,
                        f"{len(group.members)} members, group.max.size is {self._group_max_size}",
                    )
        logger.info(
            "node %d has loaded %d groups of partition %d of the offsets topic",
            self.node_id,
            len(shard.groups),
            partition,
        )

    def unload(self, partition: int) -> None:
        """Stop coordinating a partition that this node no longer leads.

        Pending requests of its groups are answered with NOT_COORDINATOR. No-op if the partition is
        not loaded.

        Args:
            partition: A partition of the offsets topic.
        """
        with self._actions:
            shard = self._shards.get(partition)
            if shard is not None:
                self._unload(shard)

    def close(self) -> None:
        """Unload every partition; call this before the purgatories are closed."""
        with self._actions:
            for shard in self._shards:
                self._unload(shard)

    def _unload(self, shard: Shard) -> None:
        self._shards.remove(shard)
        for group in shard.groups.values():
            self._rebalancer.mark_dead(group, ErrorCode.NOT_COORDINATOR)
        logger.info(
            "node %d has unloaded partition %d of the offsets topic", self.node_id, shard.partition
        )

    # -- members

    def join_group(self, request: Any, client: Client, reply: Reply, version: int) -> None:
        """Answer a JoinGroup request when the group's next generation starts.

        Args:
            request: The decoded request.
            client: The request's sender.
            reply: Called with the response; immediately if the request is rejected.
            version: The request's version.
        """
        if version < NULLABLE_PROTOCOL_NAME_SINCE:
            reply = partial(_reply_with_protocol_name, reply)
        with self._actions:
            try:
                self._join_group.join(JoinRequest.from_message(request, client, reply, version))
            except GroupError as error:
                member_id = "" if error.code in _ERRORS_WITHOUT_MEMBER_ID else request.member_id
                self._rebalancer.reply_later(reply, join_response(error.code, member_id=member_id))

    def sync_group(self, request: Any, reply: Reply) -> None:
        """Answer a SyncGroup request when the leader's assignment is stored.

        Args:
            request: The decoded request.
            reply: Called with the response; immediately if the group is stable or the request is
                rejected.
        """
        with self._actions:
            try:
                self._membership.sync(request, reply)
            except GroupError as error:
                self._rebalancer.reply_later(reply, sync_response(error.code))

    def heartbeat(self, request: Any) -> Any:
        """Return the response to a Heartbeat request."""
        code = ErrorCode.NONE
        with self._actions:
            try:
                self._membership.heartbeat(request)
            except GroupError as error:
                # As in Kafka: while the group loads, members continue as if nothing had happened.
                code = (
                    ErrorCode.NONE
                    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    else error.code
                )
        return HeartbeatResponse(throttle_time_ms=0, error_code=code)

    def leave_group(self, request: Any) -> Any:
        """Return the response to a LeaveGroup request."""
        with self._actions:
            try:
                return self._membership.leave(request)
            except GroupError as error:
                return LeaveGroupResponse(throttle_time_ms=0, error_code=error.code, members=[])

    # -- offsets

    def commit_offsets(self, request: Any, reply: Reply) -> None:
        """Answer an OffsetCommit request when its records are replicated.

        The caller checks whether the topics exist; this method accepts any name.

        Args:
            request: The decoded request.
            reply: Called with the response; immediately if the request is rejected.
        """
        with self._actions:
            try:
                self._offsets.commit(request, reply)
            except GroupError as error:
                code = error.code
                self._rebalancer.reply_later(
                    reply, commit_response(request, lambda _topic, _partition: code)
                )

    def fetch_offsets(self, request: Any) -> Any:
        """Return the response to an OffsetFetch request, with the replicated offsets.

        `require_stable` has no effect because there are no transactions.
        """
        return self._offsets.fetch(request)

    def delete_offsets(self, request: Any, reply: Reply) -> None:
        """Answer an OffsetDelete request when its records are replicated.

        Args:
            request: The decoded request.
            reply: Called with the response; immediately if the request is rejected.
        """
        with self._actions:
            try:
                self._offsets.delete(request, reply)
            except GroupError as error:
                self._rebalancer.reply_later(
                    reply,
                    OffsetDeleteResponse(error_code=error.code, throttle_time_ms=0, topics=[]),
                )

    def forget_topic(self, topic: str) -> None:
        """Remove the committed offsets of a deleted topic."""
        with self._actions:
            self._offsets.forget_topic(topic)

    # -- administration

    def list_groups(self, request: Any) -> Any:
        """Return the response to a ListGroups request."""
        return self._administration.list_groups(request)

    def describe_groups(self, request: Any) -> Any:
        """Return the response to a DescribeGroups request."""
        return self._administration.describe_groups(request)

    def delete_groups(self, request: Any, reply: Reply) -> None:
        """Answer a DeleteGroups request when its records are replicated or have failed.

        Args:
            request: The decoded request.
            reply: Called with the response; immediately if no group can be deleted.
        """
        with self._actions:
            self._administration.delete_groups(request, reply)

    # -- inspection

    @property
    def groups(self) -> list[Group]:
        """The groups of all partitions."""
        return [group for shard in self._shards for group in shard.groups.values()]

    def check(self) -> None:
        """Assert every invariant. O(members of all groups)."""
        for group in self.groups:
            assert group.state is not GroupState.DEAD, group.group_id
            group.check()


def _reply_with_protocol_name(reply: Reply, response: Any) -> None:
    """Send a response of a version in which the protocol name must not be null."""
    if response.protocol_name is None:
        response.protocol_name = ""
    reply(response)
