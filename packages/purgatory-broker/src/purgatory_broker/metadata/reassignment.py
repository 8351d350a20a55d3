"""Reassignments of partitions to other nodes.

A reassignment has three steps, as in Kafka. First the replicas are the union of the present and the
wanted ones. Then the added replicas catch up, and join the in-sync replicas. When all wanted
replicas are in sync, the others are removed.

Example: a partition on the nodes 0 and 1 is to be on 0 and 2. Its replicas become 0, 2 and 1, of
which 2 is being added and 1 is being removed. When 2 is in sync, the replicas are 0 and 2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.metadata_store import MetadataStore
from purgatory_broker.metadata.partition_leaders import PartitionLeaders
from purgatory_broker.metadata.topics import (
    MAX_NAME_LENGTH,
    ControllerError,
    Partition,
    TopicPartition,
    replica_list_error,
)

logger = logging.getLogger(__name__)


class Reassignment(NamedTuple):
    """A wanted reassignment: the nodes of a partition, or None to cancel the present one."""

    key: TopicPartition
    replicas: Sequence[int] | None


class Reassignments:
    """Begins, cancels and lists reassignments; `PartitionLeaders` completes them."""

    def __init__(self, store: MetadataStore, leaders: PartitionLeaders) -> None:
        self._store = store
        self._leaders = leaders

    def alter(
        self, wanted: Iterable[Reassignment], *, may_change_factor: bool = True
    ) -> list[ControllerError | None]:
        """Begin or cancel reassignments, all in one change; return why each is refused, or None."""
        changed: dict[TopicPartition, Partition] = {}
        results: list[ControllerError | None] = []
        for reassignment in wanted:
            try:
                before = changed.get(reassignment.key) or self._require_partition(reassignment.key)
                after = before.copy()
                if reassignment.replicas is None:
                    self._cancel(after)
                else:
                    self._begin(after, reassignment.replicas, may_change_factor=may_change_factor)
            except ControllerError as refusal:
                results.append(refusal)
                continue
            results.append(None)
            self._leaders.settle(after, before)
            if after != before:
                changed[reassignment.key] = after
        self._store.commit(list(changed.values()))
        for partition in changed.values():
            logger.info(
                "%s: replicas are now %s (adding %s, removing %s)",
                partition.key,
                partition.replicas,
                partition.adding,
                partition.removing,
            )
        return results

    def ongoing(self, keys: Iterable[TopicPartition] | None = None) -> list[Partition]:
        """Return the partitions that are being reassigned; `keys` limits them, None is all."""
        partitions: Iterable[Partition | None] = self._store.partitions()
        if keys is not None:
            partitions = map(self._store.partition, dict.fromkeys(keys))
        return [known for known in partitions if known is not None and known.is_reassigned]

    def _require_partition(self, key: TopicPartition) -> Partition:
        partition = self._store.partition(key)
        if partition is not None:
            return partition
        # Not longer than a valid name: each of many partitions may repeat it.
        name = key.topic[:MAX_NAME_LENGTH]
        is_known = name in self._store.topics
        raise ControllerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {name}:{key.partition}."
            if is_known
            else f"Unable to find a topic named {name}.",
        )

    def _begin(
        self, partition: Partition, replicas: Sequence[int], *, may_change_factor: bool
    ) -> None:
        present = set(partition.replicas)
        factor = len(present - set(partition.removing))
        if not may_change_factor and len(replicas) != factor:
            raise ControllerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {factor} to {len(replicas)}",
            )
        error = replica_list_error(list(replicas), len(replicas), self._store.settings.nodes)
        if error is not None:
            raise ControllerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, error)
        added = set(partition.adding)
        partition.adding = sorted(node for node in replicas if node not in present or node in added)
        partition.removing = sorted(present.difference(replicas))
        partition.replicas = [*replicas, *partition.removing]

    def _cancel(self, partition: Partition) -> None:
        if not partition.is_reassigned:
            raise ControllerError(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
            )
        added = partition.adding
        partition.replicas = [node for node in partition.replicas if node not in added]
        isr = [node for node in partition.isr if node not in added]
        partition.adding = []
        partition.removing = []
        if not isr and not self._leaders.may_elect_unclean(partition):
            raise ControllerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {partition.topic}:{partition.index} "
                "because it would require an unclean leader election.",
            )
        partition.isr = isr or partition.replicas[:1]
