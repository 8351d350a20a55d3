"""The results of `purgatory-broker` commands, as tables for people, and their failures.

What comes from clients and users is a `Text`: rich would take "[red]" and ":smile:" in a str for
its markup.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.client_request import ClientRequest
from purgatory_broker.cluster.cluster_errors import ClusterError
from purgatory_broker.cluster.snapshots import GroupSnapshot, TopicRecord
from purgatory_broker.cluster.transaction_snapshots import TransactionSnapshot
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.replication.recorder import RecorderError
from purgatory_command_line.exit_codes import ExitCode
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

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
        for name, values in purgatories.items():
            if any(values[count] for count in _COUNTS):
                table.add_row(str(node), name, *(f"{values[count]:,.0f}" for count in _COUNTS))
    console.print(table if table.row_count else "no purgatory has had an operation")


def _print_topic(console: Console, partitions: list[dict[str, Any]]) -> None:
    table = Table("partition", "node", "leader", "in sync", "start", "end", "high watermark")
    for partition in partitions:
        for node, offsets in partition["offsets"].items():
            leads = f"epoch {partition['leader_epoch']}" if node == partition["leader"] else ""
            table.add_row(
                str(partition["partition"]),
                str(node),
                leads,
                "yes" if node in partition["isr"] else "no",
                *map(str, offsets.values()),
            )
    console.print(table)


def _print_fault_id(console: Console, fault: int) -> None:
    console.print(f"fault {fault}")


def _print_faults(console: Console, faults: list[dict[str, Any]]) -> None:
    limits = ("node", "topic", "partition", "group", "transactional_id", "client_id")
    table = Table("fault", "API", "kind", "times left", "hits", "only")
    for fault in faults:
        only = [f"{name} {fault[name]}" for name in limits if fault[name] is not None]
        table.add_row(
            str(fault["id"]),
            fault["api"] or "any",
            fault["error"] or fault["kind"],
            "always" if fault["times"] == -1 else str(fault["times"]),
            str(fault["hits"]),
            Text(", ".join(only)),
        )
    console.print(table if faults else "no faults are injected")


def _print_records(console: Console, records: list[TopicRecord]) -> None:
    table = Table("partition", "offset", "timestamp", "producer id", "key", "value", "headers")
    for record in records:
        table.add_row(
            str(record.partition),
            str(record.offset),
            str(record.timestamp_ms),
            str(record.producer_id),
            Text(_decoded(record.key)),
            Text(_decoded(record.value)),
            Text(", ".join(f"{name}={_decoded(value)}" for name, value in record.headers)),
        )
    console.print(table if records else "consumers can read no record")


def _decoded(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="backslashreplace")


def _print_requests(console: Console, requests: list[ClientRequest]) -> None:
    table = Table("received", "answered", "node", "API", "version", "client id", "correlation id")
    for request in requests:
        table.add_row(
            str(request.received_ms),
            "" if request.answered_ms is None else str(request.answered_ms),
            str(request.node),
            request.api,
            str(request.version),
            Text(request.client_id),
            str(request.correlation_id),
        )
    console.print(table if requests else "no such request is remembered")


def _print_groups(console: Console, groups: dict[str, GroupSnapshot]) -> None:
    table = Table("group", "state", "generation", "coordinator", "members", "committed offsets")
    for group in groups.values():
        members = [
            f"{member.client_id}: {_partitions(member.assignment)}" for member in group.members
        ]
        offsets = [
            f"{topic}-{partition}: {offset}"
            for topic, partitions in group.offsets.items()
            for partition, offset in partitions.items()
        ]
        table.add_row(
            Text(group.group_id),
            group.state,
            str(group.generation),
            str(group.coordinator),
            Text("\n".join(members)),
            Text("\n".join(offsets)),
        )
    console.print(table if groups else "there is no group")


def _print_transactions(console: Console, found: dict[str, TransactionSnapshot]) -> None:
    table = Table("transactional id", "state", "producer", "epoch", "coordinator", "partitions")
    for transaction in found.values():
        table.add_row(
            Text(transaction.transactional_id),
            transaction.state,
            str(transaction.producer_id),
            str(transaction.producer_epoch),
            str(transaction.coordinator),
            Text(_partitions(transaction.partitions)),
        )
    console.print(table if found else "there is no transactional id")


def _partitions(assignment: dict[str, list[int]]) -> str:
    return " ".join(
        f"{topic}-{partition}"
        for topic, partitions in assignment.items()
        for partition in partitions
    )


#: By the name of the command: every one that has a result.
PRINTERS: dict[str, Callable[[Console, Any], None]] = {
    "bootstrap_servers_of": lambda console, servers: console.print(Text(servers), soft_wrap=True),
    "describe_topic": _print_topic,
    "faults": _print_faults,
    "inject_request_error": _print_fault_id,
    "inject_response_fault": _print_fault_id,
    "groups": _print_groups,
    "high_watermark": lambda console, offset: console.print(str(offset)),
    "metrics": print_metrics,
    "records": _print_records,
    "requests": _print_requests,
    "transactions": _print_transactions,
}


#: The errors by which a cluster has failed, and has refused nothing.
_FAILURES = {ErrorCode.REQUEST_TIMED_OUT.name, ErrorCode.KAFKA_STORAGE_ERROR.name}


def _is_refusal(error: Exception) -> bool:
    if isinstance(error, ControllerError):
        return error.code.name not in _FAILURES
    # There is no code if the cluster does not run, or what was waited for has not happened.
    return isinstance(error, ClusterError) and error.code not in {None, *_FAILURES}


def describe_failure(error: Exception) -> tuple[ExitCode, str]:
    if isinstance(error, RecorderError) and isinstance(error.__cause__, ImportError):
        return ExitCode.MISSING_DEPENDENCY, str(error)
    if isinstance(error, InvalidArgumentError) or _is_refusal(error):
        return ExitCode.BAD_INPUT, str(error)
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        options = "--port and --control-port choose others, 0 free ones"
        return ExitCode.FAILED, f"{str(error).strip()}; {options}"
    if isinstance(error, (PurgatoryError, ControllerError, OSError)):
        return ExitCode.FAILED, str(error)
    return ExitCode.FAILED, f"{type(error).__name__}: {error}\n(-v shows the traceback)"
