"""The purgatories of a node, by name, and which part of the node has which of them."""

from __future__ import annotations

from collections.abc import Mapping

from purgatory_broker.groups.rebalancer import GroupPurgatories
from purgatory_broker.replication.replica_manager import ReplicaPurgatories
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.transactions.coordinator import TransactionPurgatories
from request_purgatory.aio import Purgatory

#: The node's purgatories by name; the names are Kafka's where Kafka has such a purgatory.
PURGATORIES = (
    "Produce",
    "Fetch",
    "DeleteRecords",
    "ElectLeader",
    "Rebalance",
    "Sync",
    "Heartbeat",
    "TransactionTimeout",
    "TransactionalIdExpiration",
    "ShareFetch",
    "AcquisitionLock",
    "Throttle",
)
#: The purge interval of the other purgatories: the default of Kafka's `DelayedOperationPurgatory`.
_PURGE_INTERVAL = 1_000


def node_purgatories(node_id: int, settings: ClusterSettings) -> dict[str, Purgatory]:
    """Return the purgatories of a node by name, not opened yet."""
    intervals = {
        "Produce": settings.producer_purgatory_purge_interval_requests,
        "Fetch": settings.fetch_purgatory_purge_interval_requests,
        "DeleteRecords": settings.delete_records_purgatory_purge_interval_requests,
    }
    return {
        name: Purgatory(f"{name}-{node_id}", purge_interval=intervals.get(name, _PURGE_INTERVAL))
        for name in PURGATORIES
    }


def of_replicas(purgatories: Mapping[str, Purgatory]) -> ReplicaPurgatories:
    return ReplicaPurgatories(
        purgatories["Produce"],
        purgatories["Fetch"],
        purgatories["DeleteRecords"],
        purgatories["ShareFetch"],
    )


def of_groups(purgatories: Mapping[str, Purgatory]) -> GroupPurgatories:
    return GroupPurgatories(purgatories["Rebalance"], purgatories["Sync"], purgatories["Heartbeat"])


def of_transactions(purgatories: Mapping[str, Purgatory]) -> TransactionPurgatories:
    return TransactionPurgatories(
        purgatories["TransactionTimeout"], purgatories["TransactionalIdExpiration"]
    )
