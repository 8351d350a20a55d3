"""Clusters on a thread and in a process, and their commands."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from purgatory_broker import (
    AsyncCluster,
    Cluster,
    ClusterError,
    ClusterProcess,
    ClusterSettings,
)
from purgatory_broker.cluster.cluster_client import ClusterClient
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce

TIME_LIMIT = 30.0


NO_ERROR = 0


UNKNOWN_TOPIC_OR_PARTITION = 3


NOT_LEADER_OR_FOLLOWER = 6


REQUEST_TIMED_OUT = 7


NOT_ENOUGH_REPLICAS = 19


@pytest.fixture(scope="module", params=[Cluster, ClusterProcess], ids=["thread", "process"])
def running(request: pytest.FixtureRequest) -> Iterator[ClusterClient]:
    """Run a cluster of three nodes that tests leave as they found it."""
    with request.param(nodes=3, min_insync_replicas=2) as cluster:
        yield cluster


def leader_of(cluster: ClusterClient, topic: str) -> int:
    """Return the leader of a topic's first partition."""
    return int(cluster.describe_topic(topic)[0]["leader"])


def connect_to_leader(cluster: ClusterClient, topic: str, connect: Connect) -> RawClient:
    """Connect to the leader of a topic's first partition."""
    return connect(cluster.bootstrap_servers.split(",")[leader_of(cluster, topic)])


def wait_for_isr(cluster: ClusterClient, topic: str, isr: set[int]) -> None:
    """Poll wait_for_isr a topic's first partition has these in-sync replicas."""
    for _ in range(2_000):
        if set(cluster.describe_topic(topic)[0]["isr"]) == isr:
            return
        threading.Event().wait(0.01)
    raise AssertionError(
        f"in-sync replicas are {cluster.describe_topic(topic)[0]['isr']}, not {isr}"
    )


def test_acknowledged_records_can_be_read(running: ClusterClient, connect: Connect) -> None:
    running.create_topic("read")
    client = connect_to_leader(running, "read", connect)
    assert [
        produce(client, "read", b"one", b"two").base_offset,
        produce(client, "read", b"three").base_offset,
    ] == [0, 2]
    found = fetch(client, "read", 0)
    assert (found.error_code, found.high_watermark) == (NO_ERROR, 3)
    offsets = running.describe_topic("read")[0]["offsets"]
    assert {node: each["end_offset"] for node, each in offsets.items()} == {0: 3, 1: 3, 2: 3}


def test_waiting_fetch_is_completed_by_an_append(running: ClusterClient, connect: Connect) -> None:
    running.create_topic("parked")
    reader, writer = (connect_to_leader(running, "parked", connect) for _ in range(2))
    reader.start("Fetch", 11, **fetch_fields("parked", 0, max_wait_ms=20_000))
    assert produce(writer, "parked", b"news").error_code == NO_ERROR
    assert reader.read(timeout=10.0).responses[0].partitions[0].high_watermark == 1


def test_paused_followers_stop_the_high_watermark(running: ClusterClient, connect: Connect) -> None:
    running.create_topic("paused")
    leader = leader_of(running, "paused")
    client = connect_to_leader(running, "paused", connect)
    others = [node for node in range(3) if node != leader]
    for node in others:
        running.pause_replication(node)
    assert produce(client, "paused", b"all", timeout_ms=100).error_code == REQUEST_TIMED_OUT
    assert produce(client, "paused", b"one", acks=1).error_code == NO_ERROR
    for node in others:
        running.resume_replication(node)
    assert produce(client, "paused", b"all").base_offset == 2


def test_moved_leader_refuses_requests(running: ClusterClient, connect: Connect) -> None:
    running.create_topic("moved")
    old = connect_to_leader(running, "moved", connect)
    before = leader_of(running, "moved")
    assert produce(old, "moved", b"before").error_code == NO_ERROR
    after = (before + 1) % 3
    running.move_leader("moved", 0, after)
    for _ in range(100):
        if produce(old, "moved", b"refused").error_code == NOT_LEADER_OR_FOLLOWER:
            break
    assert leader_of(running, "moved") == after
    new = connect_to_leader(running, "moved", connect)
    assert fetch(new, "moved", 0).error_code == NO_ERROR
    assert produce(new, "moved", b"after").error_code == NO_ERROR
    assert running.describe_topic("moved")[0]["leader_epoch"] == 1


def test_killed_node_restarts_and_rejoins(running: ClusterClient, connect: Connect) -> None:
    running.create_topic("killed")
    leader = leader_of(running, "killed")
    others = [node for node in range(3) if node != leader]
    running.kill(leader)
    wait_for_isr(running, "killed", set(others))
    client = connect_to_leader(running, "killed", connect)
    assert produce(client, "killed", b"with two").error_code == NO_ERROR
    now = leader_of(running, "killed")
    last = next(node for node in others if node != now)
    running.kill(last)
    wait_for_isr(running, "killed", {now})
    assert produce(client, "killed", b"with one").error_code == NOT_ENOUGH_REPLICAS
    running.restart(leader)
    running.restart(last)
    wait_for_isr(running, "killed", {0, 1, 2})
    assert produce(client, "killed", b"with three").base_offset == 1


def test_metrics_cover_every_purgatory(running: ClusterClient) -> None:
    """By node and Kafka's names; fetches by follower and consumer."""
    running.metrics()
    found = running.metrics()
    assert sorted(found) == [0, 1, 2]
    assert {"Produce", "Fetch", "DeleteRecords", "Rebalance", "Heartbeat"} <= set(found[0])
    assert {"PurgatorySize", "NumDelayedOperations", "ExpiresPerSec"} <= set(found[0]["Produce"])
    assert {"follower.ExpiresPerSec", "consumer.ExpiresPerSec"} <= set(found[0]["Fetch"])


@pytest.mark.parametrize("at_once", [False, True])
def test_created_topic_can_be_described_at_once(connect: Connect, at_once: bool) -> None:
    with Cluster(nodes=3, num_partitions=3, auto_create_topics_at_once=at_once) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        clients = [connect(address) for address in addresses]
        for number, client in enumerate(clients):
            topic = f"made-{number}"
            found = client.call(
                "Metadata", 8, topics=[{"name": topic}], allow_auto_topic_creation=True
            ).topics[0]
            if not at_once:
                assert (found.error_code, found.partitions) == (UNKNOWN_TOPIC_OR_PARTITION, [])
                continue
            assert (found.error_code, len(found.partitions)) == (NO_ERROR, 3)
            for each in found.partitions:
                index = each.partition_index
                produced = produce(clients[each.leader_id], topic, b"x", partition=index)
                assert (produced.error_code, produced.base_offset) == (NO_ERROR, 0)


@pytest.mark.parametrize("library", ["kafka-python", "confluent-kafka"])
@pytest.mark.parametrize("at_once", [False, True])
def test_producer_learns_of_its_new_topic_at_once(library: str, at_once: bool) -> None:
    with Cluster(nodes=3, auto_create_topics_at_once=at_once) as cluster:
        if library == "kafka-python":
            producer = pytest.importorskip("kafka").KafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers, acks="all"
            )
            assert producer.send("made", b"x").get(TIME_LIMIT).offset == 0
            producer.close()
        else:
            producer = pytest.importorskip("confluent_kafka").Producer(
                {"bootstrap.servers": cluster.bootstrap_servers}
            )
            producer.produce("made", b"x")
            assert producer.flush(TIME_LIMIT) == 0
        assert [each.value for each in cluster.records("made")] == [b"x"]
        codes = [
            topic["error_code"]
            for each in cluster.requests(api="Metadata")
            for topic in (each.response or {"topics": []})["topics"]
            if topic["name"] == "made"
        ]
        assert codes[0] == (NO_ERROR if at_once else UNKNOWN_TOPIC_OR_PARTITION)
        assert codes[-1] == NO_ERROR


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("pause_replication", {"node": 3}, "node must be between 0 and 2, got 3"),
        (
            "set_latency",
            {"node": 0, "latency_ms": -1},
            "latency_ms must be between 0 and 2147483647, got -1",
        ),
        ("restart", {"node": 0}, "node must be a killed or stopped node, got 0"),
        ("describe_topic", {"topic": "none"}, "describe_topic: there is no topic 'none'"),
        (
            "move_leader",
            {"topic": "none", "partition": 0, "node": 0},
            "there is no partition none-0",
        ),
        ("create_topic", {"name": "a/b"}, "contains one or more characters"),
        (
            "create_topic",
            {"name": "t", "partitions": 10**9},
            "partitions was set to 1000000000; a topic is created with at most 10000",
        ),
        (
            "create_topic",
            {"name": "t", "configs": {"retention.ms": None}},
            "Null value not supported",
        ),
        ("create_topic", {"name": "t", "partitions": 0}, "invalid non-positive value: 0"),
        (
            "create_topic",
            {"name": "t", "replication_factor": 2**15},
            "factor of 32768 cannot be reached because only 3",
        ),
        (
            "inject_request_error",
            {"api": "Telepathy", "error": "UNKNOWN_SERVER_ERROR"},
            "api must be one of Add.*, .* got 'Telepathy'",
        ),
        (
            "inject_request_error",
            {"api": "Fetch", "error": "OOPS"},
            "error must be the name or number of an error .* got 'OOPS'",
        ),
        (
            "inject_request_error",
            {"api": "Fetch", "error": "NONE"},
            "error must be the name or number of an error .* other than NONE, got 'NONE'",
        ),
        (
            "inject_request_error",
            {"api": "Fetch", "error": "KAFKA_STORAGE_ERROR", "times": 0},
            "times must be at least 1, or None for until it is cleared, got 0",
        ),
        (
            "inject_response_fault",
            {"api": "Fetch", "kind": "bless"},
            "kind must be one of delay, drop, corrupt, disconnect",
        ),
        (
            "inject_response_fault",
            {"api": "Fetch", "kind": "delay"},
            "delay_ms must be between 1 and 2147483647, got 0",
        ),
        ("dance", {}, "unknown command 'dance'; known: advance_time, bootstrap_servers, "),
        ("pause_replication", {}, "missing a required argument: 'node'"),
    ],
)
def test_invalid_commands_are_refused_with_a_reason(
    running: ClusterClient, command: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises((ClusterError, InvalidArgumentError), match=message):
        running.call(command, **arguments)
    assert running.call("bootstrap_servers") == running.bootstrap_servers


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
def test_command_without_a_running_cluster_is_refused(
    kind: type[ClusterClient], tmp_path: Path
) -> None:
    cluster = kind()
    with pytest.raises(ClusterError, match="is not running"):
        cluster.describe_topic("t")
    with cluster:
        assert cluster.metrics()
    with pytest.raises(ClusterError, match="is not running"):
        cluster.describe_topic("t")
    cluster.close()
    with pytest.raises(RuntimeError, match="can be started once only"):
        cluster.start()
    taken = Cluster()
    with taken:
        port = int(taken.bootstrap_servers.rsplit(":", 1)[1])
        second: ClusterClient = kind(port=port)  # type: ignore[call-arg]
        with pytest.raises((OSError, ClusterError), match="in use"):
            second.start()


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess], ids=["thread", "process"])
@pytest.mark.parametrize("command", ["restart", "reset"])
def test_taken_port_is_an_error_of_the_cluster(
    kind: type[Cluster] | type[ClusterProcess], command: str
) -> None:
    with kind(nodes=2) as cluster:
        cluster.kill(1)
        host, port = cluster.bootstrap_servers.split(",")[1].split(":")
        arguments = {"node": 1} if command == "restart" else {}
        with (
            socket.create_server((host, int(port))),
            pytest.raises(ClusterError, match=f"{command}: .*in use") as raised,
        ):
            cluster.call(command, **arguments)
        if kind is Cluster:
            assert isinstance(raised.value.__cause__, OSError)
        cluster.call(command, **arguments)
        assert len(cluster.metrics()) == 2


def test_commands_of_an_async_cluster_are_refused_on_another_thread() -> None:
    async def main() -> None:
        async with AsyncCluster(ClusterSettings(nodes=2)) as cluster:
            cluster.create_topic("a")

            def refused(call: Callable[[], object], name: str) -> None:
                with pytest.raises(ClusterError, match=f"{name}: .*call_soon_threadsafe"):
                    call()

            def elsewhere() -> None:
                refused(lambda: cluster.create_topic("t"), "create_topic")
                refused(lambda: cluster.kill(1), "kill")
                refused(lambda: cluster.partition_node(0), "partition_node")
                refused(lambda: cluster.delete_topic("a"), "delete_topic")
                refused(lambda: asyncio.run(cluster.restart(1)), "restart")

            await asyncio.to_thread(elsewhere)
            assert list(cluster.controller.topics) == ["a"]
            assert not cluster.network.partitioned_nodes
            assert not any(node.is_stopped for node in cluster.nodes)
            assert await asyncio.to_thread(lambda: cluster.bootstrap_servers) == ",".join(
                cluster.addresses()
            )

    asyncio.run(main())
