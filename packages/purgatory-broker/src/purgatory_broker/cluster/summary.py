"""A cluster's state and its last requests as some lines of text, as a failed test shows them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.client_request import ClientRequest, client_request
from purgatory_broker.cluster.conditions import (
    coordinated_groups,
    partition_state,
    records_behind,
)
from purgatory_broker.cluster.node import ClusterParts, Node
from purgatory_broker.cluster.snapshots import GroupSnapshot, snapshot
from purgatory_broker.cluster.transaction_snapshots import (
    coordinated_transactions,
    transaction_snapshot,
)
from purgatory_broker.listeners import join_address
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.server.faults import FAULT_LIMITS, FaultDescription

#: The most lines of each part.
_MAX_LINES = 20
#: The most members, or partitions, that a line names.
_MAX_NAMES = 10


def cluster_summary(parts: ClusterParts) -> str:
    topics = [topic for topic in parts.controller.topics.values() if not topic.is_internal]
    partitions = [partition for topic in topics for partition in topic.partitions]
    groups = list(coordinated_groups(parts.controller, parts.nodes))
    transactions = list(coordinated_transactions(parts))
    faults = [*parts.faults.describe(), *parts.interceptions.describe()]
    requests = parts.request_log.requests
    last = islice(requests, max(len(requests) - _MAX_LINES, 0), None)
    sections = [
        _section("nodes", parts.nodes, (_node(parts, node) for node in parts.nodes)),
        _section(
            "topics",
            partitions,
            (
                f"{each.key}: leader {each.leader}, {partition_state(parts.nodes, each)}"
                for each in partitions
            ),
        ),
        _section(
            "groups", groups, (_group(parts, snapshot(node.groups, each)) for node, each in groups)
        ),
        _section(
            "transactions",
            transactions,
            (_transaction(node.node_id, each) for node, each in transactions),
        ),
        _section("faults", faults, map(_fault, faults)),
        [
            f"last of {parts.request_log.counts.total()} requests",
            *(f"  {_request(client_request(logged))}" for logged in last),
        ],
    ]
    return "\n".join(line for section in sections for line in section)


def _section(title: str, all_of_it: Sequence[Any], lines: Iterable[str]) -> list[str]:
    """Return the title and the first lines; nothing if there is nothing."""
    more = len(all_of_it) - _MAX_LINES
    return [
        *([title] if all_of_it else []),
        *(f"  {line}" for line in islice(lines, _MAX_LINES)),
        *([f"  and {more} more"] if more > 0 else []),
    ]


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join([*names[:_MAX_NAMES], *([f"and {more} more"] if more > 0 else [])])


def _node(parts: ClusterParts, node: Node) -> str:
    number = node.node_id
    state = [f"{number} at {join_address(*node.server.advertised(node.server.listeners[0].name))}"]
    if node.is_stopped:
        state.append("not running")
    if number in parts.network.partitioned_nodes:
        state.append("cut off from the others")
    if node.fetchers.is_paused:
        state.append("replication paused")
    if parts.network.latency_ms(number):
        state.append(f"latency {parts.network.latency_ms(number)} ms")
    return ", ".join(state)


def _group(parts: ClusterParts, group: GroupSnapshot) -> str:
    members = [
        f"{member.client_id} has {_names(list(_partitions(member.assignment))) or 'no partitions'}"
        for member in group.members
    ]
    committed = []
    for topic, offsets in group.offsets.items():
        for index, offset in offsets.items():
            partition = parts.controller.partition(TopicPartition(topic, index))
            behind = partition and records_behind(parts.nodes, partition, offset)
            committed.append(f"{topic}-{index}: {offset}" + f" ({behind} behind)" * bool(behind))
    return (
        f"{group.group_id}: {group.state}, generation {group.generation}, coordinator "
        f"{group.coordinator}; {_names(members) or 'no members'}; "
        f"committed {_names(committed) or 'nothing'}"
    )


def _partitions(by_topic: dict[str, list[int]]) -> Iterator[str]:
    return (f"{topic}-{number}" for topic, numbers in by_topic.items() for number in numbers)


def _transaction(coordinator: int, transaction: Any) -> str:
    shown = transaction_snapshot(coordinator, transaction)
    return (
        f"{shown.transactional_id}: {shown.state}, producer {shown.producer_id}, epoch "
        f"{shown.producer_epoch}, coordinator {coordinator}; "
        f"{_names(list(_partitions(shown.partitions))) or 'no partitions'}"
    )


def _fault(fault: FaultDescription) -> str:
    only = [f"{name} {fault[name]}" for name in FAULT_LIMITS if fault[name] is not None]  # type: ignore[literal-required]
    hits = f"met {fault['hits']} times" if fault["hits"] else "never met"
    left = {None: "until it is cleared", 0: "over"}.get(fault["times"], f"{fault['times']} left")
    what = " ".join(filter(None, (fault["api"] or "any request", fault["kind"], fault["error"])))
    return f"{fault['id']}: {', '.join([what, *only])}: {hits}, {left}"


def _request(request: ClientRequest) -> str:
    seconds, ms = divmod(request.received_ms, 1_000)
    clock = time.strftime("%H:%M:%S", time.localtime(seconds))
    answer = "not answered"
    if request.answered_ms is not None:
        answer = f"answered after {request.answered_ms - request.received_ms} ms"
        errors = dict.fromkeys(_errors(request.response))
        answer += f": {_names(list(errors))}" if errors else ""
    return (
        f"{clock}.{ms:03} node {request.node}: {request.api} v{request.version} of "
        f"{request.client_id!r}, {answer}"
    )


def _errors(fields: Any) -> Iterator[str]:
    """Yield Kafka's names of the errors in a response, at any depth."""
    if isinstance(fields, list):
        for element in fields:
            yield from _errors(element)
    elif isinstance(fields, dict):
        for name, value in fields.items():
            if not name.endswith("error_code"):
                yield from _errors(value)
            elif value:
                yield ErrorCode(value).name
