"""The leaders and in-sync replicas of partitions."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.metadata_store import MetadataStore
from purgatory_broker.metadata.topic_configs import topic_value
from purgatory_broker.metadata.topics import (
    MAX_NAME_LENGTH,
    NO_LEADER,
    ControllerError,
    Partition,
    TopicPartition,
)

logger = logging.getLogger(__name__)


class AlterPartitionRequest(NamedTuple):
    """A leader's request to change the in-sync replicas of a partition (KIP-497).

    The leader epoch and the partition epoch are those that the leader knows: the request applies to
    that state of the partition only.
    """

    key: TopicPartition
    topic_id: uuid.UUID
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]


class _ElectionResult(NamedTuple):
    """The result of an election that a client has asked for, with the error's message."""

    error: ErrorCode
    message: str | None = None
    #: The leader epoch that has begun.
    leader_epoch: int = -1


_PREFERRED_REFUSAL = _ElectionResult(
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
)
_UNCLEAN_REFUSAL = _ElectionResult(
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
)


class PartitionLeaders:
    """Elects the leaders of partitions, and changes their in-sync replicas.

    A node that is gone can't be refused: if its partitions' new leaders can't be stored, they have
    no leader until the next change that can be stored.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        #: Elections could not be stored, and have to be repeated.
        self._has_pending_elections = False
        store.on_stored = self._repeat_elections

    def _repeat_elections(self) -> None:
        if self._has_pending_elections:
            self._has_pending_elections = False
            self.update()

    def forget(self) -> None:
        """Forget elections that are to be repeated, since their topics are gone."""
        self._has_pending_elections = False

    def alter_partition(self, request: AlterPartitionRequest) -> bool:
        """Change the in-sync replicas of a partition as its leader requests.

        Refuses a request for an earlier state of the partition: since then the leader may have
        stopped waiting for a replica that the request would add. Refuses a node that is not alive,
        which must not become the leader. A refused leader learns the current state, and requests
        again if necessary. Returns False if the request was refused, or can't be stored.
        """
        partition = self._store.partition(request.key)
        if partition is None or self._store.topics[request.key.topic].topic_id != request.topic_id:
            return False
        present = (partition.leader, partition.leader_epoch, partition.partition_epoch)
        known = (request.leader, request.leader_epoch, request.partition_epoch)
        if present != known or not self._store.alive.issuperset(request.isr):
            return False
        changed = partition.copy()
        changed.isr = list(request.isr)
        self.settle(changed, partition)
        try:
            self._store.commit([changed])
        except ControllerError:
            return False
        return True

    def move_leader(self, key: TopicPartition, node: int) -> None:
        partition = self._store.require_partition(key)
        eligible = [replica for replica in partition.isr if replica in self._store.alive]
        if node not in eligible:
            raise ControllerError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"node {node} can't lead {key}: the live in-sync replicas are {eligible}",
            )
        if partition.leader != node:
            changed = partition.copy()
            changed.set_leader(node)
            self._store.commit([changed])

    def elect_leaders(
        self, keys: Iterable[TopicPartition], *, is_unclean: bool
    ) -> dict[TopicPartition, _ElectionResult]:
        """`is_unclean` gives partitions without a leader a live replica, in sync or not."""
        results: dict[TopicPartition, _ElectionResult] = {}
        changed = []
        for key in keys:
            partition = self._store.partition(key)
            if partition is None:
                # Not longer than a valid name: each of many partitions may repeat it.
                name = key.topic[:MAX_NAME_LENGTH]
                missing = (
                    f"partition as {key}" if name in self._store.topics else f"topic as {name}"
                )
                results[key] = _ElectionResult(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}"
                )
                continue
            preferred = partition.replicas[0]
            has_leader = partition.leader != NO_LEADER
            new = partition.copy()
            if has_leader if is_unclean else partition.leader == preferred:
                results[key] = _ElectionResult(
                    ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
                )
                continue
            if is_unclean:
                is_elected = self.elect(new, is_unclean=True)
            elif is_elected := preferred in partition.isr and preferred in self._store.alive:
                new.set_leader(preferred)
            if is_elected:
                changed.append(new)
                results[key] = _ElectionResult(ErrorCode.NONE, None, new.leader_epoch)
            else:
                results[key] = _UNCLEAN_REFUSAL if is_unclean else _PREFERRED_REFUSAL
        self._store.commit(changed)
        return results

    def update(self) -> None:
        """Elect leaders where there is none alive, and remove dead nodes from in-sync replicas."""
        alive = self._store.alive
        changed = []
        for partition in self._store.partitions():
            if partition.leader in alive and alive.issuperset(partition.isr):
                continue
            new = partition.copy()
            in_sync = [node for node in new.isr if node in alive]
            if in_sync and in_sync != new.isr:
                new.isr = in_sync
                new.partition_epoch += 1
            has_leader = new.leader in alive or self.elect(new)
            if not has_leader and new.leader != NO_LEADER:
                new.set_leader(NO_LEADER)
            if new != partition:
                changed.append(new)
        try:
            self._store.commit(changed)
        except ControllerError:
            self._has_pending_elections = True
            orphans = [
                partition
                for partition in self._store.partitions()
                if partition.leader != NO_LEADER and partition.leader not in alive
            ]
            for partition in orphans:
                # In no later leader epoch has anyone led the partition, so that this need not be
                # stored.
                partition.set_leader(NO_LEADER)
            if orphans:
                self._store.on_change(orphans)

    def elect(self, partition: Partition, *, is_unclean: bool = False) -> bool:
        """Elect a live in-sync replica, or any live one if that is allowed; False if none."""
        live = [node for node in partition.replicas if node in self._store.alive]
        eligible = [node for node in live if node in partition.isr]
        if live and not eligible and (is_unclean or self.may_elect_unclean(partition)):
            logger.warning(
                "%s: unclean election of node %d: records that it lacks are lost",
                partition.key,
                live[0],
            )
            partition.isr = eligible = [live[0]]
        if eligible:
            partition.set_leader(eligible[0])
        return bool(eligible)

    def may_elect_unclean(self, partition: Partition) -> bool:
        configs = self._store.topics[partition.topic].configs
        allowed = topic_value(
            "unclean.leader.election.enable", configs, self._store.effective_settings
        )
        return allowed.lower() == "true"

    def settle(self, partition: Partition, before: Partition) -> None:
        """Complete a reassignment in sync; a removed replica's fetches end with the epoch."""
        partition.complete_reassignment()
        leader = partition.leader
        if leader not in partition.isr or leader not in self._store.alive:
            if not self.elect(partition) and leader != NO_LEADER:
                partition.set_leader(NO_LEADER)
        elif not set(before.replicas) <= set(partition.replicas):
            partition.set_leader(leader)
        if partition != before and partition.partition_epoch == before.partition_epoch:
            partition.partition_epoch += 1
