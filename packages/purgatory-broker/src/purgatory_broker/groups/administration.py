"""Handlers of ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group import Group, GroupState
from purgatory_broker.groups.group_messages import (
    DeleteGroupsReply,
    GroupDescription,
    GroupError,
    GroupListing,
    MemberDescription,
    coordinator_error,
)
from purgatory_broker.groups.group_records import OffsetKey
from purgatory_broker.groups.member import Member
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.groups.offset_manager import OffsetManager
from purgatory_broker.groups.shards import AnyGroup, Record, Shard, Shards
from purgatory_broker.groups.share.share_groups import ShareGroups

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class AdministrationHandler:
    """Handles the requests of admin clients; as in Kafka they see groups with a record only."""

    shards: Shards
    offsets: OffsetManager
    share_groups: ShareGroups
    actions: ActionQueue
    mark_dead: Callable[[Group, ErrorCode], None]

    # -- ListGroups

    def list_groups(
        self, states: Collection[str], types: Collection[str]
    ) -> tuple[GroupListing, ...]:
        states = {state.lower() for state in states}
        types = {kind.lower() for kind in types}
        return tuple(
            GroupListing(
                group.group_id, group.protocol_type or "", group.state_name, group.group_type
            )
            for shard in self.shards
            for group in shard.groups.values()
            if group.has_record
            and (not states or group.state_name.lower() in states)
            and (not types or group.group_type in types)
        )

    # -- DescribeGroups

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group; a dead one with GROUP_ID_NOT_FOUND if it is of no classic group."""
        try:
            group = self.shards.shard_of(group_id).find(Group, group_id)
        except GroupError as error:
            return GroupDescription(group_id, error.code)
        if group is None or not group.has_record:
            return GroupDescription(group_id, ErrorCode.GROUP_ID_NOT_FOUND, GroupState.DEAD.value)
        is_stable = group.state is GroupState.STABLE
        return GroupDescription(
            group_id,
            state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol=str(group.protocol) if is_stable else "",
            members=tuple(_describe_member(group, member) for member in group.members.values()),
        )

    # -- DeleteGroups

    def delete_groups(self, group_ids: Iterable[str], reply: DeleteGroupsReply) -> None:
        """Answer a DeleteGroups request when its records are replicated or have failed.

        As in Kafka, the states of share groups are deleted first. A group that has one which can't
        be deleted stays, and its result is that error.
        """
        wanted = dict.fromkeys(group_ids)
        refused: dict[str, ErrorCode] = {}
        pending = {
            group_id: group
            for shard in self.shards
            for group_id, group in shard.groups.items()
            if group_id in wanted and isinstance(group, ShareGroup) and group.is_empty
        }

        def delete_rest() -> None:
            rest = [group_id for group_id in wanted if group_id not in refused]
            self._delete(rest, lambda results: reply(refused | results))

        def states_deleted(group_id: str, error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                refused[group_id] = error
            del pending[group_id]
            if not pending:
                with self.actions:
                    delete_rest()

        with self.actions:
            if not pending:
                delete_rest()
            for group_id, group in list(pending.items()):
                self.share_groups.delete_states(group, partial(states_deleted, group_id))

    def _delete(self, group_ids: Iterable[str], reply: DeleteGroupsReply) -> None:
        results: dict[str, ErrorCode] = {}
        by_shard: dict[int, tuple[Shard, list[AnyGroup]]] = {}
        for group_id in group_ids:
            try:
                shard = self.shards.shard_of(group_id)
            except GroupError as error:
                results[group_id] = error.code
                continue
            group = shard.groups.get(group_id)
            if group is None:
                results[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                results[group_id] = ErrorCode.NON_EMPTY_GROUP
            else:
                by_shard.setdefault(shard.partition, (shard, []))[1].append(group)
        pending_partitions = set(by_shard)

        def done(partition: int, error: ErrorCode) -> None:
            shard, groups = by_shard[partition]
            for group in groups:
                results[group.group_id] = coordinator_error(error)
                if error is ErrorCode.NONE:
                    self._tombstone_stored(shard, group)
            pending_partitions.discard(partition)
            if not pending_partitions:
                self.actions.add(partial(reply, results))

        for partition, (shard, groups) in by_shard.items():
            keys: list[OffsetKey] = [
                key
                for group in groups
                for key in dict.fromkeys(
                    shard.offsets.keys_of_group(group.group_id)
                    + shard.pending.keys_of_group(group.group_id)
                )
            ]
            tombstones: list[Record] = [
                (key, None) for group in groups for key in group.tombstone_keys()
            ]
            self.offsets.remove(shard, keys, tombstones, partial(done, partition))
        if not by_shard:
            self.actions.add(partial(reply, results))

    def _tombstone_stored(self, shard: Shard, group: AnyGroup) -> None:
        """Remove the group, unless it has got members or committed offsets in the meantime."""
        if isinstance(group, Group) or group.is_empty:
            # Otherwise a member has joined in the meantime, whose records are after the tombstones.
            group.is_stored = group.has_offsets = False
        is_unused = group.is_empty and not shard.has_offsets(group.group_id)
        if is_unused and shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]
            if isinstance(group, Group):
                self.mark_dead(group, ErrorCode.UNKNOWN_MEMBER_ID)
            logger.info("deleted group %r", group.group_id)


def _describe_member(group: Group, member: Member) -> MemberDescription:
    is_stable = group.state is GroupState.STABLE
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata(str(group.protocol)) if is_stable else b"",
        assignment=member.assignment,
    )
