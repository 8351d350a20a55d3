"""The replica that answers a client."""

from __future__ import annotations

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import Replica, ReplicaError
from purgatory_broker.wire.error_code import ErrorCode


def leader_replica(broker: BrokerApi, key: TopicPartition, leader_epoch: int) -> Replica:
    """Return the replica of a partition that the broker leads; an epoch of -1 skips the check."""
    if not broker.metadata.partition_exists(key):
        raise ReplicaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    replica = broker.replicas.find(key)
    if replica is None:
        raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    replica.require_leader(leader_epoch)
    return replica
