"""The tables of `purgatory-broker` commands."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from purgatory_broker._cli.printing import PRINTERS
from purgatory_broker.cluster.client_request import ClientRequest
from purgatory_broker.cluster.snapshots import GroupSnapshot, MemberSnapshot, TopicRecord
from purgatory_broker.cluster.transaction_snapshots import TransactionSnapshot


def fault(name: str) -> dict[str, Any]:
    limits = {"node": None, "topic": None, "partition": None, "group": name, "client_id": name}
    limits["transactional_id"] = limits["when"] = None
    counts = {"id": 1, "times": None, "hits": 0}
    return {"api": "Fetch", "error": "NONE", "kind": "error", **counts, **limits}


def record(name: str) -> TopicRecord:
    return TopicRecord(0, 0, 0, name.encode(), name.encode(), ((name, name.encode()),), -1)


def group(name: str) -> GroupSnapshot:
    member = MemberSnapshot("m", None, name, "/127.0.0.1", {name: [0]})
    return GroupSnapshot(name, "Stable", 1, "consumer", None, 0, "m", (member,), {name: {0: 1}})


def transaction(name: str) -> TransactionSnapshot:
    return TransactionSnapshot(name, "Ongoing", 7, 0, 60_000, 1, 0, {name: [0]})


def request(name: str) -> ClientRequest:
    return ClientRequest(0, "Fetch", 11, name, 1, 0, 1, None, None)


@pytest.mark.parametrize("name", ["[red]shop", "[/x]", "[", "a]", ":smile:", "back\\", "\\[red]"])
@pytest.mark.parametrize(
    ("command", "result", "times"),
    [
        ("faults", lambda name: [fault(name)], 2),
        ("records", lambda name: [record(name)], 4),
        ("requests", lambda name: [request(name)], 1),
        ("groups", lambda name: {name: group(name)}, 4),
        ("transactions", lambda name: {name: transaction(name)}, 2),
        ("bootstrap_servers_of", str, 1),
    ],
)
def test_names_of_users_are_printed_as_they_are(
    command: str, result: Any, times: int, name: str
) -> None:
    printed = StringIO()
    PRINTERS[command](Console(file=printed, width=500, highlight=False), result(name))
    assert printed.getvalue().count(name) == times


LONG = "console-consumer-of-the-orders-of-17-countries"
BIG = 1_234_567


def wide_group() -> GroupSnapshot:
    member = MemberSnapshot("m", None, LONG, "/127.0.0.1", {LONG: [0]})
    return GroupSnapshot(
        LONG, "PreparingRebalance", BIG, "consumer", "range", 0, "m", (member,), {LONG: {0: BIG}}
    )


def partition_of(replicas: list[int]) -> dict[str, Any]:
    offsets = {"log_start_offset": BIG, "end_offset": BIG, "high_watermark": BIG}
    return {
        "partition": 10,
        "leader": 0,
        "leader_epoch": 12,
        "replicas": replicas,
        "isr": [0],
        "out_of_sync": replicas[1:],
        "offsets": {0: offsets, 1: offsets},
    }


METRICS = ("Completions", "Expires", "Cancellations", "NumDelayedOperations", "Purges")
#: By the command: a result with long names and large numbers, and what its table has to show.
WIDE: dict[str, tuple[Any, list[str]]] = {
    "describe_topic": ([partition_of([0, 1, 2])], ["leader, epoch 12", "not running", str(BIG)]),
    "faults": (
        [fault(LONG) | {"api": "AlterPartitionReassignments", "error": "NOT_LEADER_OR_FOLLOWER"}],
        ["AlterPartitionReassignments", "NOT_LEADER_OR_FOLLOWER", LONG],
    ),
    "records": (
        [TopicRecord(10, BIG, 10**12, LONG.encode(), LONG.encode(), ((LONG, b"x"),), BIG)],
        [LONG, str(10**12), str(BIG)],
    ),
    "requests": (
        [ClientRequest(0, "AlterPartitionReassignments", 1, LONG, BIG, 10**12, 10**12 + 3, {}, {})],
        [LONG, "AlterPartitionReassignments v1", "+3 ms", str(BIG)],
    ),
    "groups": ({LONG: wide_group()}, [LONG, f"{LONG}-0", "PreparingRebalance", str(BIG)]),
    "transactions": (
        {LONG: TransactionSnapshot(LONG, "PrepareEpochFence", BIG, 1, 60_000, 1, 0, {LONG: [0]})},
        [LONG, f"{LONG}-0", "PrepareEpochFence", str(BIG)],
    ),
    "metrics": (
        {0: {"TransactionalIdExpiration": dict.fromkeys([*METRICS, "CallbackErrors"], BIG)}},
        ["TransactionalIdExpiration", f"{BIG:,}", "cancelled"],
    ),
}


def test_every_table_has_a_wide_result() -> None:
    texts = {"bootstrap_servers_of", "high_watermark", "start_schema_registry", "summary"}
    without = {*texts, *filter(is_injection, PRINTERS)}
    assert WIDE.keys() == PRINTERS.keys() - without


def is_injection(command: str) -> bool:
    return command.startswith("inject_")


@pytest.mark.parametrize("command", WIDE)
def test_table_loses_nothing_in_80_columns(command: str) -> None:
    result, shown = WIDE[command]
    printed = StringIO()
    PRINTERS[command](Console(file=printed, width=80, highlight=False), result)
    columns = [
        column for table in printed.getvalue().split("\n\n") for column in unfolded_columns(table)
    ]
    for text in shown:
        assert any(text.replace(" ", "") in column for column in columns), printed.getvalue()
    assert max(map(len, printed.getvalue().splitlines())) <= 80
    assert "…" not in printed.getvalue()


def unfolded_columns(table: str) -> list[str]:
    """Return the text of each column without spaces, as the lines of a folded text are one."""
    lines = table.splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("─")) - 1
    starts = [match.start() for match in re.finditer(r"(?<=  )\S|^\S", lines[heading])]
    return [
        "".join(line[start:end] for line in lines).replace(" ", "")
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
