"""A cluster's panel on the live page: its state, and buttons for the faults."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import islice
from typing import Any, TypeVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.registry import APIS
from purgatory_broker.cluster._commands.cluster_commands import ClusterCommands
from purgatory_broker.cluster.conditions import records_behind
from purgatory_broker.cluster.node import Node
from purgatory_broker.cluster.run_command import run_command
from purgatory_broker.cluster.snapshots import GroupSnapshot
from purgatory_broker.cluster.transaction_snapshots import TransactionSnapshot
from purgatory_broker.listeners import join_address
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.server.faults import RESPONSE_FAULTS
from request_purgatory.dashboard.panel import Panel
from request_purgatory.errors import InvalidArgumentError

T = TypeVar("T")

#: The commands that the page may run: those that put a fault in force, and those that end one. None
#: deletes records.
ACTIONS = (
    "pause_replication",
    "resume_replication",
    "set_latency",
    "partition_node",
    "heal_node",
    "kill",
    "stop",
    "restart",
    "inject_request_error",
    "inject_response_fault",
    "clear_faults",
)


def broker_panel(cluster: ClusterCommands) -> Panel:
    """Return a running cluster's panel for `serve_dashboard`. Called on the cluster's loop."""
    loop = asyncio.get_running_loop()

    def on_cluster(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        try:
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        except RuntimeError:  # The loop is closed.
            work.close()
            raise

    async def read() -> dict[str, Any]:
        return await on_cluster(_cluster_overview(cluster))

    async def act(action: str, arguments: dict[str, Any]) -> object:
        if action not in ACTIONS:
            raise InvalidArgumentError("action", f"one of {', '.join(ACTIONS)}", action)
        return await on_cluster(run_command(cluster, action, arguments))

    about = {
        "apis": sorted(api.name for api in APIS.values()),
        "errors": [code.name for code in ErrorCode if code is not ErrorCode.NONE],
        "response_faults": RESPONSE_FAULTS,
        "settings": {
            "min_insync_replicas": cluster.settings.min_insync_replicas,
            "replica_lag_time_max_ms": cluster.settings.replica_lag_time_max_ms,
            "broker_session_timeout_ms": cluster.settings.broker_session_timeout_ms,
        },
    }
    return Panel("broker", read, act, about)


#: The most partitions, groups, transactional ids, faults, and members of a group that are listed.
MAX_PARTITIONS = 200
MAX_GROUPS = 200
MAX_TRANSACTIONS = 200
MAX_FAULTS = 50
MAX_MEMBERS = 10

Row = dict[str, Any]


async def _cluster_overview(cluster: ClusterCommands) -> Row:
    """Return the cluster's state, bounded in size; a coroutine, to run on the cluster's loop."""
    topics = cluster.controller.topics
    partitions = (
        {"topic": name, **partition}
        # Topics of the broker itself last.
        for name in sorted(topics, key=lambda name: (topics[name].is_internal, name))
        for partition in cluster.describe_topic(name)
    )
    groups = cluster.groups()
    transactions = cluster.transactions()
    faults = cluster.faults()
    return {
        "nodes": [_node(cluster, node) for node in cluster.nodes],
        "partitions": list(islice(partitions, MAX_PARTITIONS)),
        "num_partitions": sum(len(topic.partitions) for topic in topics.values()),
        "groups": [_group(cluster, groups[name]) for name in sorted(groups)[:MAX_GROUPS]],
        "num_groups": len(groups),
        "transactions": [
            _transaction(transactions[name]) for name in sorted(transactions)[:MAX_TRANSACTIONS]
        ],
        "num_transactions": len(transactions),
        "faults": faults[: -MAX_FAULTS - 1 : -1],
        "num_faults": len(faults),
    }


def _node(cluster: ClusterCommands, node: Node) -> Row:
    number = node.node_id
    partitions = [
        partition for topic in cluster.controller.topics.values() for partition in topic.partitions
    ]
    return {
        "node": number,
        "address": join_address(*node.server.advertised(node.server.listeners[0].name)),
        "is_stopped": node.is_stopped,
        # The controller has fenced it: it leads nothing.
        "is_fenced": number not in cluster.controller.alive,
        "is_partitioned": number in cluster.network.partitioned_nodes,
        "is_replication_paused": node.fetchers.is_paused,
        "latency_ms": cluster.network.latency_ms(number),
        "leads": sum(partition.leader == number for partition in partitions),
        "replicas": sum(number in partition.replicas for partition in partitions),
        "in_sync": sum(number in partition.isr for partition in partitions),
    }


def _transaction(transaction: TransactionSnapshot) -> Row:
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "coordinator": transaction.coordinator,
        "partitions": sum(map(len, transaction.partitions.values())),
    }


def _group(cluster: ClusterCommands, group: GroupSnapshot) -> Row:
    lag = 0
    for topic, offsets in group.offsets.items():
        for index, offset in offsets.items():
            partition = cluster.controller.partition(TopicPartition(topic, index))
            if partition is not None:
                lag += records_behind(cluster.nodes, partition, offset) or 0
    return {
        "group_id": group.group_id,
        "state": group.state,
        "generation": group.generation,
        "protocol": group.protocol,
        "coordinator": group.coordinator,
        "members": [
            {
                "client_id": member.client_id,
                "partitions": sum(len(numbers) for numbers in member.assignment.values()),
            }
            for member in group.members[:MAX_MEMBERS]
        ],
        "num_members": len(group.members),
        "lag": lag,
    }
