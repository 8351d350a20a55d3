"""A cluster's panel on the live page."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from purgatory_broker import AsyncCluster, ClusterError, ClusterSettings
from purgatory_broker.cluster import broker_panel as overview_module
from purgatory_broker.cluster._commands.cluster_commands import COMMANDS
from purgatory_broker.cluster.broker_panel import ACTIONS, broker_panel
from purgatory_broker.cluster.snapshots import GroupSnapshot, MemberSnapshot
from purgatory_broker.cluster.transaction_snapshots import TransactionSnapshot
from request_purgatory.dashboard.panel import Panel
from request_purgatory.errors import InvalidArgumentError
from tests.broker.replication.cluster_harness import ClusterHarness
from tests.unit.aio.virtual import run


async def press(panel: Panel, action: str, **arguments: Any) -> Any:
    """Do an action of the panel."""
    assert panel.act is not None
    return await panel.act(action, arguments)


def node_states(overview: dict[str, Any], field: str) -> list[Any]:
    """Return a field of all nodes."""
    return [node[field] for node in overview["nodes"]]


def test_panel_shows_the_cluster_and_the_faults_in_force() -> None:
    async def main() -> None:
        settings = ClusterSettings(nodes=3, replica_lag_time_max_ms=1_000)
        async with AsyncCluster(settings) as cluster:
            panel = broker_panel(cluster)
            assert (await panel.read())["partitions"] == []
            cluster.create_topic("orders", partitions=2, replication_factor=3)
            cluster.create_offsets_topic()
            await asyncio.sleep(1)
            leader = cluster.controller.topics["orders"].partitions[0].leader
            follower = (leader + 1) % 3
            await press(panel, "pause_replication", node=follower)
            ClusterHarness(cluster).produce(leader, b"x", b"y", acks=1)
            await asyncio.sleep(10)
            await press(panel, "set_latency", node=follower, latency_ms=50)
            await press(panel, "partition_node", node=leader)
            fault = {"api": "Produce", "error": "NOT_ENOUGH_REPLICAS", "times": 3}
            assert await press(panel, "inject_request_error", **fault) == 1
            found = json.loads(json.dumps(await panel.read()))
            partition = found["partitions"][0]
            assert (partition["topic"], partition["partition"]) == ("orders", 0)
            assert follower not in partition["isr"]
            ends = {node: each["end_offset"] for node, each in partition["offsets"].items()}
            assert (ends[str(leader)], ends[str(follower)]) == (2, 0)
            # Those of the broker itself come last.
            assert found["partitions"][-1]["topic"] == "__consumer_offsets"
            assert found["num_partitions"] == len(found["partitions"]) == 6
            assert node_states(found, "is_replication_paused").index(True) == follower
            assert node_states(found, "latency_ms")[follower] == 50
            assert node_states(found, "is_partitioned").index(True) == leader
            assert [(each["id"], each["times"]) for each in found["faults"]] == [(1, 3)]
            for action in ("heal_node", "kill"):
                await press(panel, action, node=leader)
            found = await panel.read()
            assert node_states(found, "is_stopped").index(True) == leader
            assert node_states(found, "is_fenced").index(True) == leader
            await press(panel, "restart", node=leader)
            await press(panel, "resume_replication", node=follower)
            await press(panel, "clear_faults")
            await press(panel, "stop", node=leader)
            found = await panel.read()
            assert (found["faults"], found["num_faults"]) == ([], 0)

    run(main)


def test_group_is_behind_the_high_watermarks_by_its_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    member = MemberSnapshot("m-1", None, "app", "/127.0.0.1", {"orders": [0], "gone": [0, 1]})
    offsets = {"orders": {0: 2, 7: 0}, "gone": {0: 5}}
    group = GroupSnapshot("g", "Stable", 3, "consumer", "range", 0, "m-1", (member,) * 2, offsets)
    monkeypatch.setattr(overview_module, "MAX_MEMBERS", 1)

    async def main() -> None:
        async with AsyncCluster(ClusterSettings()) as cluster:
            monkeypatch.setattr(cluster, "groups", lambda: {"g": group})
            panel = broker_panel(cluster)
            cluster.create_topic("orders", partitions=1)
            await asyncio.sleep(1)
            for lag in (0, 1):
                (found,) = (await panel.read())["groups"]
                assert (found["group_id"], found["state"], found["lag"]) == ("g", "Stable", lag)
                assert found["members"] == [{"client_id": "app", "partitions": 3}]
                assert found["num_members"] == 2
                ClusterHarness(cluster).produce(0, b"1", b"2", b"3")
                await asyncio.sleep(1)
            await ClusterHarness(cluster).end(0, commit=True).get()
            # 4 records from offset 2 on, and a marker that is none.
            assert (await panel.read())["groups"][0]["lag"] == 4
            cluster.kill(0)
            assert (await panel.read())["groups"][0]["lag"] == 0

    run(main)


def test_transactions_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = {"orders": [0, 2], "payments": [1]}
    shown = TransactionSnapshot("shop", "Ongoing", 7, 3, 60_000, 1, 0, partitions)
    monkeypatch.setattr(overview_module, "MAX_TRANSACTIONS", 1)

    async def main() -> None:
        async with AsyncCluster(ClusterSettings()) as cluster:
            monkeypatch.setattr(cluster, "transactions", lambda: {"shop": shown, "z": shown})
            found = await broker_panel(cluster).read()
            assert found["transactions"] == [
                {
                    "transactional_id": "shop",
                    "state": "Ongoing",
                    "producer_id": 7,
                    "producer_epoch": 3,
                    "coordinator": 0,
                    "partitions": 3,
                }
            ]
            assert found["num_transactions"] == 2

    run(main)


def test_panel_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview_module, "MAX_PARTITIONS", 3)
    monkeypatch.setattr(overview_module, "MAX_FAULTS", 2)

    async def main() -> None:
        async with AsyncCluster(ClusterSettings()) as cluster:
            panel = broker_panel(cluster)
            cluster.create_topic("orders", partitions=5)
            for _ in range(4):
                await press(panel, "inject_request_error", api="Fetch", error=3)
            found = await panel.read()
            assert [each["partition"] for each in found["partitions"]] == [0, 1, 2]
            assert found["num_partitions"] == 5
            assert [each["id"] for each in found["faults"]] == [4, 3]
            assert found["num_faults"] == 4

    run(main)


def test_page_can_run_the_commands_of_faults_alone() -> None:
    assert set(ACTIONS) < set(COMMANDS)

    async def main() -> None:
        async with AsyncCluster(ClusterSettings()) as cluster:
            panel = broker_panel(cluster)
            for action in ("delete_topic", "reset", "truncate", "records", "x"):
                with pytest.raises(InvalidArgumentError, match="action must be one of pause_repl"):
                    await press(panel, action, name="orders", topic="orders")
            with pytest.raises(InvalidArgumentError, match="node must be between 0 and 0, got 7"):
                await press(panel, "kill", node=7)
            with pytest.raises(InvalidArgumentError, match="node must be a whole number"):
                await press(panel, "kill", node="0")
            with pytest.raises(ClusterError, match="missing a required argument: 'node'"):
                await press(panel, "kill")

    run(main)


def test_panel_of_a_loop_that_has_ended_says_so() -> None:
    async def start() -> Panel:
        async with AsyncCluster(ClusterSettings()) as cluster:
            return broker_panel(cluster)

    panel = asyncio.run(start())

    async def read() -> None:
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            await panel.read()

    asyncio.run(read())
