"""Kafka's group coordinator for the classic group protocol, with committed offsets, without I/O."""

from request_purgatory.broker.groups.coordinator import GroupCoordinator
from request_purgatory.broker.groups.errors import GroupError
from request_purgatory.broker.groups.group import Group, GroupState
from request_purgatory.broker.groups.rebalancer import GroupPurgatories
from request_purgatory.broker.groups.shards import OffsetsStore, partition_of

__all__ = [
    "Group",
    "GroupCoordinator",
    "GroupError",
    "GroupPurgatories",
    "GroupState",
    "OffsetsStore",
    "partition_of",
]
