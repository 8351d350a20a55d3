"""What share groups need of a node."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

from purgatory_broker.cluster.remote_share_states import RemoteShareStates
from purgatory_broker.cluster.replicated_records import ReplicatedShareStates
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.metadata.metadata_cache import MetadataCache
from purgatory_broker.metadata.topic_configs import ResourceType
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.appends import Appends
from purgatory_broker.replication.record_deletions import RecordDeletions
from purgatory_broker.replication.replica_manager import ReplicaManager
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.sharing.acquisition_locks import AcquisitionLocks
from purgatory_broker.sharing.group_settings import ShareGroupSettings
from purgatory_broker.sharing.share_coordinator import ShareCoordinator
from purgatory_broker.sharing.share_members import ShareMembers
from purgatory_broker.sharing.share_partitions import SharePartitions
from purgatory_broker.sharing.share_sessions import ShareSessions
from request_purgatory.aio import Purgatory


class NodeSharing(NamedTuple):
    settings: ShareGroupSettings
    coordinator: ShareCoordinator
    locks: AcquisitionLocks
    partitions: SharePartitions
    members: ShareMembers


def node_sharing(
    node_id: int,
    settings: ClusterSettings,
    states: RemoteShareStates,
    *,
    metadata: MetadataCache,
    replicas: ReplicaManager,
    appends: Appends,
    deletions: RecordDeletions,
    actions: ActionQueue,
    purgatories: Mapping[str, Purgatory],
    wall_ms: Callable[[], int],
) -> NodeSharing:
    def group_configs(group_id: str) -> Mapping[str, str]:
        return metadata.resource_configs.get((ResourceType.GROUP, group_id), {})

    def partition_exists(topic_id: uuid.UUID, partition: int) -> bool:
        name = metadata.topic_name(topic_id)
        return name is not None and metadata.partition_exists(TopicPartition(name, partition))

    group_settings = ShareGroupSettings(settings, group_configs)
    coordinator = ShareCoordinator(
        node_id,
        settings.share_coordinator_state_topic_num_partitions,
        settings.share_coordinator_snapshot_update_records_per_snapshot,
        actions=actions,
        store=ReplicatedShareStates(
            appends, actions, wall_ms, settings.offsets_commit_timeout_ms, deletions
        ),
        partition_exists=partition_exists,
        now_ms=wall_ms,
    )
    locks = AcquisitionLocks(purgatories["AcquisitionLock"], actions, wall_ms)
    partitions = SharePartitions(
        replicas=replicas,
        actions=actions,
        purgatory=purgatories["ShareFetch"],
        locks=locks,
        states=states,
        groups=group_settings,
        now_ms=wall_ms,
    )
    members = ShareMembers(
        partitions,
        ShareSessions(settings.group_share_max_share_sessions),
        metadata.topic_name,
        metadata.partition_exists,
    )
    return NodeSharing(group_settings, coordinator, locks, partitions, members)
