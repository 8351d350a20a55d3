"""Topics that a test deletes or truncates, and clusters that it makes empty."""

from __future__ import annotations

import gc
import socket
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import Cluster, ClusterError, ClusterProcess
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.cluster_client import ClusterClient
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce

#: Shorter than the time that `truncate` waits for a follower.
TIME_LIMIT = 20.0


@pytest.fixture(params=[Cluster, ClusterProcess], ids=["thread", "process"])
def running(request: pytest.FixtureRequest) -> Iterator[ClusterClient]:
    """Run a cluster of three nodes for one test."""
    with request.param(nodes=3) as cluster:
        yield cluster


def connect_to_leader(
    cluster: ClusterClient, topic: str, connect: Connect, partition: int = 0
) -> RawClient:
    """Connect to the leader of a partition."""
    leader = cluster.describe_topic(topic)[partition]["leader"]
    return connect(cluster.bootstrap_servers.split(",")[leader])


def test_deleted_topic_is_gone_and_its_name_is_free(
    running: ClusterClient, connect: Connect
) -> None:
    running.create_topic("t")
    client = connect_to_leader(running, "t", connect)
    produce(client, "t", b"old")
    running.delete_topic("t")
    assert produce(client, "t", b"x").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ClusterError, match="delete_topic: there is no topic 't'") as refused:
        running.delete_topic("t")
    assert refused.value.code == "UNKNOWN_TOPIC_OR_PARTITION"
    running.create_topic("t")
    assert fetch(connect_to_leader(running, "t", connect), "t", 0).high_watermark == 0


def test_truncate_deletes_up_to_an_offset_or_all(running: ClusterClient, connect: Connect) -> None:
    running.create_topic("t", partitions=2)
    clients = [connect_to_leader(running, "t", connect, number) for number in range(2)]
    for number, client in enumerate(clients):
        for value in (b"a", b"b", b"c"):
            produce(client, "t", value, partition=number)
    running.truncate("t", partition=1, offset=2)
    assert starts(running) == [{0}, {2}]
    running.truncate("t", offset=1)
    assert starts(running) == [{1}, {2}]
    running.truncate("t")
    assert starts(running) == [{3}, {3}]
    assert fetch(clients[0], "t", 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert produce(clients[0], "t", b"next").base_offset == 3


def starts(cluster: ClusterClient) -> list[set[int]]:
    """Return the log start offsets of the replicas of each partition of `t`."""
    return [
        {each["log_start_offset"] for each in partition["offsets"].values()}
        for partition in cluster.describe_topic("t")
    ]


@pytest.mark.parametrize(
    ("partition", "offset", "code"),
    [
        (2, None, "UNKNOWN_TOPIC_OR_PARTITION"),
        (None, 1, "OFFSET_OUT_OF_RANGE"),
        (1, 1, "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_refused_truncate_deletes_nothing(
    cluster: Cluster, connect: Connect, partition: int | None, offset: int | None, code: str
) -> None:
    cluster.create_topic("t", partitions=2)
    produce(connect_to_leader(cluster, "t", connect), "t", b"a")
    with pytest.raises(ClusterError) as refused:
        cluster.truncate("t", partition=partition, offset=offset)
    assert refused.value.code == code
    assert starts(cluster) == [{0}, {0}]


def test_truncate_refuses_what_has_no_such_records(cluster: Cluster, connect: Connect) -> None:
    cluster.create_topic("t", partitions=1, replication_factor=1)
    with pytest.raises(InvalidArgumentError, match="offset must be at least 0, got"):
        cluster.truncate("t", offset=-1)
    client = connect(cluster.bootstrap_servers.split(",")[0])
    client.call("FindCoordinator", 1, key="g", key_type=0)
    with pytest.raises(ClusterError, match="__consumer_offsets is the broker's own topic"):
        cluster.truncate("__consumer_offsets")
    cluster.kill(cluster.describe_topic("t")[0]["leader"])
    with pytest.raises(ClusterError, match="t-0 has no leader"):
        cluster.truncate("t")


@pytest.mark.parametrize("command", ["kill", "stop", "reset", "close"])
def test_truncate_ends_with_its_leader(connect: Connect, command: str) -> None:
    with Cluster(nodes=2) as cluster, ThreadPoolExecutor() as threads:
        cluster.create_topic("t", partitions=1)
        leader = cluster.describe_topic("t")[0]["leader"]
        produce(connect_to_leader(cluster, "t", connect), "t", b"a")
        cluster.pause_replication(1 - leader)
        truncated = threads.submit(cluster.truncate, "t")
        while not cluster.metrics()[leader]["DeleteRecords"]["NumDelayedOperations"]:
            assert not truncated.done()
        if command == "close":
            cluster.close()
        else:
            cluster.call(command, **({} if command == "reset" else {"node": leader}))
        with pytest.raises(ClusterError, match="truncate: the leader of t-0 has stopped"):
            truncated.result(TIME_LIMIT)


def test_reset_leaves_nothing_on_the_same_ports(running: ClusterClient, connect: Connect) -> None:
    running.create_topic("t")
    before = running.bootstrap_servers
    cluster_id = metadata(connect(before.split(",")[0])).cluster_id
    client = connect_to_leader(running, "t", connect)
    produce(client, "t", b"old")
    client.start("Fetch", 11, **fetch_fields("t", 1, max_wait_ms=20_000))
    running.inject_request_error("Metadata", "BROKER_NOT_AVAILABLE", times=None)
    leader = running.describe_topic("t")[0]["leader"]
    running.kill((leader + 1) % 3)
    running.partition_node((leader + 2) % 3)
    running.set_latency(leader, 100)

    running.reset()

    with pytest.raises(ConnectionClosedError):
        client.read(timeout=10)
    assert running.bootstrap_servers == before
    clients = [connect(address) for address in before.split(",")]
    for each in clients:
        found = metadata(each)
        assert (len(found.brokers), found.topics, found.cluster_id) == (3, [], cluster_id)
    running.create_topic("t")
    described = running.describe_topic("t")[0]
    assert sorted(described["isr"]) == [0, 1, 2]
    client = connect_to_leader(running, "t", connect)
    assert fetch(client, "t", 0).high_watermark == 0
    assert produce(client, "t", b"new").base_offset == 0


def metadata(client: RawClient) -> Any:
    """Return a node's answer about all topics."""
    return client.call("Metadata", 8, topics=None)


def test_reset_places_topics_as_on_a_new_cluster(cluster: Cluster) -> None:
    cluster.create_topic("a", partitions=3)
    first = [each["replicas"] for each in cluster.describe_topic("a")]
    for _ in range(2):
        cluster.reset()
        cluster.create_topic("b", partitions=3)
        assert [each["replicas"] for each in cluster.describe_topic("b")] == first


def test_reset_never_assigns_a_producer_id_twice(cluster: Cluster, connect: Connect) -> None:
    def new_producer_id() -> int:
        client = connect(cluster.bootstrap_servers.split(",")[0])
        made = client.call("InitProducerId", 1, transactional_id=None, transaction_timeout_ms=1)
        return int(made.producer_id)

    before = new_producer_id()
    cluster.reset()
    assert new_producer_id() > before


def test_reset_deletes_the_files(tmp_path: Path, connect: Connect) -> None:
    with Cluster(nodes=2, data_dir=tmp_path) as cluster:
        cluster.create_topic("t")
        produce(connect_to_leader(cluster, "t", connect), "t", b"old")
        cluster.reset()
        assert not list(tmp_path.glob("node-*/t-0"))
        cluster.create_topic("kept")
    with Cluster(nodes=2, data_dir=tmp_path) as cluster:
        assert len(cluster.describe_topic("kept")) == 1
        with pytest.raises(ClusterError, match="there is no topic 't'"):
            cluster.describe_topic("t")


def test_group_is_gone_after_reset(cluster: Cluster, connect: Connect) -> None:
    def coordinator() -> RawClient:
        while True:
            found = connect(cluster.bootstrap_servers.split(",")[0]).call(
                "FindCoordinator", 1, key="g", key_type=0
            )
            if found.error_code == ErrorCode.NONE:
                return connect(f"{found.host}:{found.port}")

    def committed() -> int:
        topics = [{"name": "t", "partition_indexes": [0]}]
        client = coordinator()
        while True:
            found = client.call("OffsetFetch", 5, group_id="g", topics=topics)
            if found.error_code == ErrorCode.NONE:
                return int(found.topics[0].partitions[0].committed_offset)

    cluster.create_topic("t")
    commit = [
        {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 7}]},
    ]
    while True:
        answer = coordinator().call(
            "OffsetCommit", 2, group_id="g", generation_id_or_member_epoch=-1, member_id="",
            retention_time_ms=-1, topics=commit,
        )  # fmt: skip
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            break
    assert committed() == 7
    cluster.reset()
    cluster.create_topic("t")
    assert committed() == -1


def test_requests_are_forgotten_by_reset(running: ClusterClient, connect: Connect) -> None:
    client = connect(running.bootstrap_servers.split(",")[0])
    client.call("Metadata", 9, topics=[])
    assert [each.api for each in running.requests(api="Metadata")] == ["Metadata"]
    running.reset()
    assert running.requests() == []
    with pytest.raises(ClusterError, match="expected 1"):
        running.wait_for(request=("Metadata", 1), timeout=0)


def test_replaced_nodes_are_freed_without_the_collector(cluster: Cluster, connect: Connect) -> None:
    cluster.create_topic("t", partitions=3)
    for number in range(3):
        client = connect_to_leader(cluster, "t", connect, number)
        produce(client, "t", b"old", partition=number)
        client.start("Fetch", 11, **fetch_fields("t", 1, max_wait_ms=20_000, partition=number))
        member = connect(cluster.bootstrap_servers.split(",")[number])
        member.start(
            "JoinGroup", 5, group_id=f"g{number}", session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000, member_id="", group_instance_id=None,
            protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}],
        )  # fmt: skip
    cluster.wait_for(request=("JoinGroup", 3))
    assert cluster._cluster is not None
    old = [
        weakref.ref(each)
        for node in cluster._cluster.nodes
        for each in (node, *node.purgatories.values())
    ]
    gc.disable()
    try:
        cluster.reset()
        # The loop's later rounds end the connections.
        for _ in range(10):
            cluster.faults()
        assert [each() for each in old] == [None] * len(old)
    finally:
        gc.enable()


@pytest.mark.parametrize("command", ["kill", "stop"])
def test_port_of_a_node_that_is_down_stays_bound(command: str) -> None:
    """Clients are refused, and other programs that take a free port take another one."""
    with Cluster(
        nodes=2,
        listeners="PLAINTEXT://127.0.0.1:0,EXTRA://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
    ) as cluster:
        addresses = [cluster.bootstrap_servers_of(name) for name in ("PLAINTEXT", "EXTRA")]
        cluster.call(command, node=1)
        for each in addresses:
            host, port = each.split(",")[1].split(":")
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((host, int(port)))
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)))
        cluster.restart(1)
        cluster.call(command, node=1)
        cluster.reset()
        assert [cluster.bootstrap_servers_of(name) for name in ("PLAINTEXT", "EXTRA")] == addresses
        cluster.call(command, node=1)
    for each in addresses:
        host, port = each.split(",")[1].split(":")
        socket.create_server((host, int(port))).close()
