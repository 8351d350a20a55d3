"""The tables of `purgatory-broker` commands."""

from __future__ import annotations

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
    limits["transactional_id"] = None
    counts = {"id": 1, "times": -1, "hits": 0}
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
