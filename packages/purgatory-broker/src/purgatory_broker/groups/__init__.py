"""Kafka's group coordinator for the classic group protocol, with committed offsets, without I/O."""

from purgatory_broker.groups.coordinator import GroupCoordinator
from purgatory_broker.groups.group import Group, GroupState
from purgatory_broker.groups.group_error import GroupError
from purgatory_broker.groups.rebalancer import GroupPurgatories
from purgatory_broker.groups.shards import OffsetsStore, partition_of

__all__ = [
    "Group",
    "GroupCoordinator",
    "GroupError",
    "GroupPurgatories",
    "GroupState",
    "OffsetsStore",
    "partition_of",
]
