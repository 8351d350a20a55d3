"""The commands on topics and their records."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster._commands.command_group import CommandGroup, command
from purgatory_broker.cluster.conditions import leader_replica
from purgatory_broker.cluster.node import Node
from purgatory_broker.metadata.topic_configs import topic_value
from purgatory_broker.metadata.topics import ControllerError, Partition, TopicPartition
from purgatory_broker.replication.record_deletions import TO_HIGH_WATERMARK, DeletedPartition
from purgatory_broker.replication.replica import Replica
from request_purgatory.errors import InvalidArgumentError

#: Kafka's `request.timeout.ms` of an admin client.
_TRUNCATE_TIMEOUT_MS = 30_000


class ReplicaOffsets(TypedDict):
    log_start_offset: int
    end_offset: int
    high_watermark: int


class PartitionDescription(TypedDict):
    """The state of a partition, as the controller and the replicas' nodes know it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    #: The replicas that are not in `isr`: they are behind, or their nodes do not run.
    out_of_sync: list[int]
    #: By the number of the replica's node, of those that run.
    offsets: dict[int, ReplicaOffsets]


class TopicCommands(CommandGroup):
    @command
    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: dict[str, str | None] | None = None,
    ) -> None:
        """Create a topic. Clients can use it at once.

        Args:
            name: the topic's name.
            partitions: their number, at most 10,000; -1 is the cluster's default.
            replication_factor: replicas of each partition; -1 is the cluster's default.
            configs: topic settings by Kafka's names.

        Raises:
            ControllerError: with Kafka's error code, such as INVALID_PARTITIONS.
        """
        self.controller.topic_changes.create(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    @command
    def describe_topic(self, topic: str) -> list[PartitionDescription]:
        """Return the state of a topic's partitions, by partition number.

        Args:
            topic: the topic's name.

        Returns:
            For each partition `partition`, `leader`, `leader_epoch`, `replicas`, `isr`, the
            replicas `out_of_sync`, also those of nodes that do not run, and `offsets`: for each
            live replica's node its `log_start_offset`, `end_offset` and `high_watermark`.
        """
        partitions = self._topic(topic).partitions
        return [self._describe_partition(partition) for partition in partitions]

    def _describe_partition(self, partition: Partition) -> PartitionDescription:
        offsets: dict[int, ReplicaOffsets] = {}
        for node in partition.replicas:
            is_stopped = self.nodes[node].is_stopped
            replica = None if is_stopped else self.nodes[node].replicas.find(partition.key)
            if replica is not None:
                offsets[node] = {
                    "log_start_offset": replica.log.log_start_offset,
                    "end_offset": replica.log.end_offset,
                    "high_watermark": replica.high_watermark,
                }
        return {
            "partition": partition.index,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "out_of_sync": [node for node in partition.replicas if node not in partition.isr],
            "offsets": offsets,
        }

    @command
    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records; clients can't use it any more.

        Args:
            name: the topic's name.
        """
        self.controller.topic_changes.delete(self._topic(name).name)

    @command
    async def truncate(
        self, topic: str, *, partition: int | None = None, offset: int | None = None
    ) -> None:
        """Delete a topic's records, up to an offset or all, as Kafka's DeleteRecords does.

        Offsets continue where they were. Returns when every live replica has deleted the records.
        The error REQUEST_TIMED_OUT after 30 s means that a follower has not; it will when it
        fetches again.

        Args:
            topic: the topic's name.
            partition: the partition's number; every partition unless given.
            offset: the first offset to keep; the high watermark unless given.

        Raises:
            InvalidArgumentError: the offset is negative.
            ControllerError: there is no such partition, it has no leader, the topic is the broker's
                own, the offset is above a high watermark, a live replica does not reply, or the
                leader stops meanwhile.
        """
        if offset is not None and offset < 0:
            raise InvalidArgumentError("offset", "at least 0", offset)
        leaders = self._partitions_by_leader(topic, partition, offset)
        for leader, keys in leaders.items():
            await self._delete_records(self.nodes[leader], keys, offset)

    @command
    async def compact(self, topic: str, *, partition: int | None = None) -> None:
        """Compact a topic at once, on every live node that has it, and return when that is done.

        Of each key the last record stays. Tombstones, which are records without a value, go when
        `delete.retention.ms` has passed after a first compaction; see `advance_time`. Records stay
        that are younger than `min.compaction.lag.ms`, that not all in-sync replicas have, or that
        are of an open transaction or later.

        The brokers do the same by themselves, when `min.cleanable.dirty.ratio` of a log's closed
        segments is new. This does not wait for that, and closes the active segment.

        Args:
            topic: the topic's name.
            partition: the partition's number; every partition unless given.

        Raises:
            ControllerError: there is no such partition, or the topic's `cleanup.policy` is not to
                compact it.
            RecordError: a log is damaged, or the disk has failed.
        """
        described = self._topic(topic)
        policy = topic_value("cleanup.policy", described.configs, self.settings)
        if "compact" not in policy:
            raise ControllerError(
                ErrorCode.INVALID_CONFIG, f"{topic} has cleanup.policy={policy}, not compact"
            )
        numbers = range(len(described.partitions)) if partition is None else [partition]
        for number in numbers:
            known = self.controller.require_partition(TopicPartition(topic, number))
            leader = leader_replica(self.nodes, known)
            for node in known.replicas:
                if not self.nodes[node].is_stopped:
                    await self._compact(self.nodes[node], known.key, leader)

    async def _compact(self, node: Node, key: TopicPartition, leader: Replica | None) -> None:
        replica = node.replicas.find(key)
        if replica is None:
            return
        if (
            leader is not None
            and node.node_id in leader.followers
            and self.network.is_connected(node.node_id, leader.node_id)
        ):
            # What the response to its next fetch will say.
            confirmed = min(leader.high_watermark, leader.followers[node.node_id].end_offset)
            if confirmed > replica.high_watermark:
                with node.actions:
                    replica.update_high_watermark(confirmed)
                    node.replicas.notify_partition(key)
        await node.cleaner.compact(replica)

    def _partitions_by_leader(
        self, topic: str, partition: int | None, offset: int | None
    ) -> dict[int, list[TopicPartition]]:
        """Return the partitions to truncate by the number of their leaders' node."""
        described = self._topic(topic)
        if described.is_internal:
            raise ControllerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is the broker's own topic"
            )
        leaders: dict[int, list[TopicPartition]] = {}
        numbers = range(len(described.partitions)) if partition is None else [partition]
        for number in numbers:
            key = TopicPartition(topic, number)
            known = self.controller.require_partition(key)
            replica = leader_replica(self.nodes, known)
            if replica is None or not replica.is_leader:
                raise ControllerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{key} has no leader")
            if offset is not None and offset > replica.high_watermark:
                raise ControllerError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"offset {offset} of {key} is above its high watermark, "
                    f"{replica.high_watermark}",
                )
            leaders.setdefault(known.leader, []).append(key)
        return leaders

    async def _delete_records(
        self, leader: Node, keys: list[TopicPartition], offset: int | None
    ) -> None:
        if leader.is_stopped:
            raise _leader_stopped(keys)
        replied: asyncio.Future[list[DeletedPartition]] = asyncio.Future()

        def reply(deleted: list[DeletedPartition]) -> None:
            if not replied.done():
                replied.set_result(deleted)

        first_kept = TO_HIGH_WATERMARK if offset is None else offset
        with leader.actions:
            leader.deletions.delete_records(
                _TRUNCATE_TIMEOUT_MS, [(key, first_kept) for key in keys], reply
            )
        # A node that stops in the meantime does not reply.
        await asyncio.wait(
            (replied, leader.halted),
            timeout=_TRUNCATE_TIMEOUT_MS / 1_000 + 1,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if replied.done():
            deleted = replied.result()
        elif leader.is_stopped:
            raise _leader_stopped(keys)
        else:
            deleted = [DeletedPartition(keys[0], ErrorCode.REQUEST_TIMED_OUT)]
        for partition in deleted:
            if partition.error is not ErrorCode.NONE:
                raise ControllerError(
                    partition.error,
                    f"{partition.key}: not every live replica has deleted its records "
                    f"({partition.error.name})",
                )


def _leader_stopped(keys: list[TopicPartition]) -> ControllerError:
    return ControllerError(ErrorCode.LEADER_NOT_AVAILABLE, f"the leader of {keys[0]} has stopped")
