"""The results of `purgatory-broker` commands, as tables for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from purgatory_broker.cluster.client_request import ClientRequest
from purgatory_broker.cluster.group_snapshot import GroupSnapshot
from purgatory_broker.cluster.topic_records import TopicRecord

_COUNTS = (
    "Completions",
    "Expires",
    "Cancellations",
    "NumDelayedOperations",
    "Purges",
    "CallbackErrors",
)

Metrics = dict[int, dict[str, dict[str, float]]]


def print_metrics(console: Console, metrics: Metrics) -> None:
    """Print the counts of each node's purgatories, those without any left out."""
    table = Table("node", "purgatory", *_COUNTS, title="purgatories")
    for node, purgatories in metrics.items():
        for name, found in purgatories.items():
            if any(found[each] for each in _COUNTS):
                table.add_row(str(node), name, *(f"{found[each]:,.0f}" for each in _COUNTS))
    console.print(table if table.row_count else "no purgatory has had an operation")


def _print_topic(console: Console, partitions: list[dict[str, Any]]) -> None:
    table = Table("partition", "node", "leader", "in sync", "start", "end", "high watermark")
    for each in partitions:
        for node, offsets in each["offsets"].items():
            leads = f"epoch {each['leader_epoch']}" if node == each["leader"] else ""
            table.add_row(
                str(each["partition"]),
                str(node),
                leads,
                "yes" if node in each["isr"] else "no",
                *(str(offsets[name]) for name in ("log_start_offset", "end_offset")),
                str(offsets["high_watermark"]),
            )
    console.print(table)


def _print_fault_id(console: Console, fault: int) -> None:
    console.print(f"fault {fault}")


def _print_faults(console: Console, faults: list[dict[str, Any]]) -> None:
    limits = ("node", "topic", "partition", "group", "client_id")
    table = Table("fault", "API", "kind", "times left", "hits", "only")
    for each in faults:
        only = [f"{name} {each[name]}" for name in limits if each[name] is not None]
        table.add_row(
            str(each["id"]),
            each["api"] or "any",
            each["error"] or each["kind"],
            "always" if each["times"] == -1 else str(each["times"]),
            str(each["hits"]),
            ", ".join(only),
        )
    console.print(table if faults else "no faults are injected")


def _print_records(console: Console, records: list[TopicRecord]) -> None:
    table = Table("partition", "offset", "timestamp", "producer id", "key", "value", "headers")
    for each in records:
        table.add_row(
            str(each.partition),
            str(each.offset),
            str(each.timestamp_ms),
            str(each.producer_id),
            _text(each.key),
            _text(each.value),
            ", ".join(f"{escape(name)}={_text(value)}" for name, value in each.headers),
        )
    console.print(table if records else "consumers can read no record")


def _text(value: bytes | None) -> str:
    return "" if value is None else escape(value.decode(errors="backslashreplace"))


def _print_requests(console: Console, requests: list[ClientRequest]) -> None:
    """Print a row for each request; their fields are in the JSON."""
    table = Table("received", "answered", "node", "API", "version", "client id", "correlation id")
    for each in requests:
        table.add_row(
            str(each.received_ms),
            "" if each.answered_ms is None else str(each.answered_ms),
            str(each.node),
            each.api,
            str(each.version),
            escape(each.client_id),
            str(each.correlation_id),
        )
    console.print(table if requests else "no such request is remembered")


def _print_groups(console: Console, groups: dict[str, GroupSnapshot]) -> None:
    table = Table("group", "state", "generation", "coordinator", "members", "committed offsets")
    for each in groups.values():
        members = [
            f"{member.client_id}: {_partitions(member.assignment)}" for member in each.members
        ]
        offsets = [
            f"{topic}-{partition}: {offset}"
            for topic, found in each.offsets.items()
            for partition, offset in found.items()
        ]
        table.add_row(
            escape(each.group_id),
            each.state,
            str(each.generation),
            str(each.coordinator),
            escape("\n".join(members)),
            "\n".join(offsets),
        )
    console.print(table if groups else "there is no group")


def _partitions(assignment: dict[str, list[int]]) -> str:
    return " ".join(f"{topic}-{each}" for topic, found in assignment.items() for each in found)


#: By the name of the command: every one that has a result.
PRINTERS: dict[str, Callable[[Console, Any], None]] = {
    "bootstrap_servers_of": lambda console, servers: console.print(escape(servers), soft_wrap=True),
    "describe_topic": _print_topic,
    "faults": _print_faults,
    "inject_request_error": _print_fault_id,
    "inject_response_fault": _print_fault_id,
    "groups": _print_groups,
    "high_watermark": lambda console, offset: console.print(str(offset)),
    "metrics": print_metrics,
    "records": _print_records,
    "requests": _print_requests,
}
