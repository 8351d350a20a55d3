"""The results of `purgatory-broker` commands, as tables for people, and their failures.

What comes from clients and users is a `Text`: rich would take "[red]" and ":smile:" in a str for
its markup.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from typing import Any

from rich import box
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
from purgatory_broker.server.faults import FAULT_LIMITS
from purgatory_command_line.exit_codes import ExitCode
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

#: Of each purgatory: the heading, and the metric.
_COUNTS = {
    "completed": "Completions",
    "expired": "Expires",
    "cancelled": "Cancellations",
    "waiting": "NumDelayedOperations",
    "purges": "Purges",
    "errors": "CallbackErrors",
}

Metrics = dict[int, dict[str, dict[str, float]]]


def _table(*headings: str, names: Collection[str] = (), title: str | None = None) -> Table:
    """Return a table that loses nothing in a terminal of 80 columns.

    The columns `names` have what is of any length. They are folded, so that numbers and words of
    ours stay whole.
    """
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, title=title
    )
    for heading in headings:
        folds = heading in names
        table.add_column(heading, overflow="fold", no_wrap=not folds)
    return table


def print_metrics(console: Console, metrics: Metrics) -> None:
    """Print the counts of each node's purgatories, those without any left out."""
    table = _table("node", "purgatory", *_COUNTS, names={"purgatory"}, title="purgatories")
    for node, purgatories in metrics.items():
        for name, values in purgatories.items():
            counts = [values[metric] for metric in _COUNTS.values()]
            if any(counts):
                table.add_row(str(node), name, *(f"{count:,.0f}" for count in counts))
    console.print(table if table.row_count else "no purgatory has had an operation")


def _print_topic(console: Console, partitions: list[dict[str, Any]]) -> None:
    table = _table("partition", "node", "replica", "in sync", "start", "end", "high watermark")
    for partition in partitions:
        for node in partition["replicas"]:
            offsets = partition["offsets"].get(node)
            replica = "follower" if offsets else "not running"
            if node == partition["leader"]:
                replica = f"leader, epoch {partition['leader_epoch']}"
            table.add_row(
                str(partition["partition"]),
                str(node),
                replica,
                "no" if node in partition["out_of_sync"] else "yes",
                *map(str, (offsets or {}).values()),
            )
    console.print(table)


def _print_fault_id(console: Console, fault: int) -> None:
    console.print(f"fault {fault}")


def _print_faults(console: Console, faults: list[dict[str, Any]]) -> None:
    table = _table("fault", "API", "kind", "left", "hits", "only", names={"API", "kind", "only"})
    for fault in faults:
        only = [f"{name} {fault[name]}" for name in FAULT_LIMITS if fault[name] is not None]
        table.add_row(
            str(fault["id"]),
            fault["api"] or "any",
            fault["error"] or fault["kind"],
            "always" if fault["times"] is None else str(fault["times"]),
            str(fault["hits"]),
            Text("\n".join(only)),
        )
    console.print(table if faults else "no faults are injected")


def _print_records(console: Console, records: list[TopicRecord]) -> None:
    names = ("key", "value", "headers")
    table = _table("partition", "offset", "timestamp", "producer", *names, names=names)
    for record in records:
        table.add_row(
            str(record.partition),
            str(record.offset),
            str(record.timestamp_ms),
            "" if record.producer_id < 0 else str(record.producer_id),
            Text(_decoded(record.key)),
            Text(_decoded(record.value)),
            Text(", ".join(f"{name}={_decoded(value)}" for name, value in record.headers)),
        )
    console.print(table if records else "consumers can read no record")


def _decoded(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="backslashreplace")


def _print_requests(console: Console, requests: list[ClientRequest]) -> None:
    table = _table(
        "received", "answered", "node", "request", "client id", "id", names={"request", "client id"}
    )
    for request in requests:
        answered = request.answered_ms
        table.add_row(
            str(request.received_ms),
            "" if answered is None else f"+{answered - request.received_ms} ms",
            str(request.node),
            f"{request.api} v{request.version}",
            Text(request.client_id),
            str(request.correlation_id),
        )
    console.print(table if requests else "no such request is remembered")


def _print_groups(console: Console, groups: dict[str, GroupSnapshot]) -> None:
    table = _table("group", "state", "generation", "coordinator", "members", names={"group"})
    names = ("group", "partition", "assigned to")
    partitions = _table(*names, "committed", names=names)
    for group in groups.values():
        table.add_row(
            Text(group.group_id),
            group.state,
            str(group.generation),
            str(group.coordinator),
            str(len(group.members)),
        )
        assigned = {
            partition: member.client_id
            for member in group.members
            for partition in _partitions(member.assignment)
        }
        committed = {
            f"{topic}-{partition}": str(offset)
            for topic, offsets in group.offsets.items()
            for partition, offset in offsets.items()
        }
        for partition in sorted(assigned | committed):
            partitions.add_row(
                Text(group.group_id),
                Text(partition),
                Text(assigned.get(partition, "")),
                committed.get(partition, ""),
            )
    console.print(table if groups else "there is no group")
    if partitions.row_count:
        console.print()
        console.print(partitions)


def _print_transactions(console: Console, found: dict[str, TransactionSnapshot]) -> None:
    names = ("transactional id", "partitions")
    table = _table(names[0], "state", "producer", "epoch", "coordinator", names[1], names=names)
    for transaction in found.values():
        table.add_row(
            Text(transaction.transactional_id),
            transaction.state,
            str(transaction.producer_id),
            str(transaction.producer_epoch),
            str(transaction.coordinator),
            Text(" ".join(_partitions(transaction.partitions))),
        )
    console.print(table if found else "there is no transactional id")


def _partitions(assignment: dict[str, list[int]]) -> list[str]:
    return [
        f"{topic}-{partition}"
        for topic, partitions in assignment.items()
        for partition in partitions
    ]


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
    "start_schema_registry": lambda console, url: console.print(Text(url), soft_wrap=True),
    "summary": lambda console, text: console.print(Text(text), soft_wrap=True),
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
    if isinstance(error.__cause__, ImportError) and isinstance(
        error, (RecorderError, ClusterError)
    ):
        return ExitCode.MISSING_DEPENDENCY, str(error)
    if isinstance(error, InvalidArgumentError) or _is_refusal(error):
        return ExitCode.BAD_INPUT, str(error)
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        options = "--port and --control choose others, 0 free ones"
        return ExitCode.FAILED, f"{str(error).strip()}; {options}"
    if isinstance(error, (PurgatoryError, ControllerError, OSError)):
        return ExitCode.FAILED, str(error)
    return ExitCode.FAILED, f"{type(error).__name__}: {error}\n(-v shows the traceback)"
