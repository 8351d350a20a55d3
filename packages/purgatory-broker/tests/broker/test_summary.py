"""A cluster's state and its last requests as text."""

from __future__ import annotations

from purgatory_broker import Cluster
from purgatory_broker.cluster.summary import cluster_summary
from tests.broker.conftest import Connect
from tests.broker.parity.members import join_fields
from tests.broker.raw_requests import fetch_fields, leader_client, produce
from tests.broker.replication.cluster_harness import KEY, ClusterHarness, run_scenario
from tests.broker.test_transaction_commands import RawProducer
from tests.broker.test_waiting_for_groups import ask_coordinator, assigned, commit


def section(summary: str, title: str) -> list[str]:
    """Return the lines below a title."""
    lines = summary.splitlines()
    below = lines[lines.index(title) + 1 :] if title in lines else []
    ends = (number for number, line in enumerate(below) if not line.startswith("  "))
    return [line.strip() for line in below[: next(ends, None)]]


def test_summary_of_a_cluster_shows_nodes_and_partitions() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"one", b"two").get()
        harness.cluster.kill(1)
        harness.cluster.pause_replication(2)
        harness.cluster.set_latency(2, 5)
        harness.cluster.partition_node(2)
        shown = cluster_summary(harness.cluster._parts)
        first, second, third = section(shown, "nodes")
        assert first == f"0 at {harness.cluster.bootstrap_servers.split(',')[0]}"
        assert second.endswith(", not running")
        assert third.endswith(", cut off from the others, replication paused, latency 5 ms")
        assert section(shown, "topics") == [
            "orders-0: leader 0, offsets 0 to 2, high watermark 2, in sync [0, 2]"
        ]
        assert section(shown, "groups") == section(shown, "faults") == []
        assert shown.splitlines()[-1] == "last of 0 requests"

    run_scenario(scenario)


def test_summary_of_a_cluster_shows_groups() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"one", b"two").get()
        await commit(harness, 1)
        joined = await ask_coordinator(harness, "JoinGroup", 2, **join_fields("joiners"))
        part = {"member_id": joined.member_id, "assignment": assigned("orders", 0, 1)}
        await ask_coordinator(
            harness,
            "SyncGroup",
            2,
            group_id="joiners",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[part],
        )
        (coordinator,) = {group.coordinator for group in harness.cluster.groups().values()}
        assert section(cluster_summary(harness.cluster._parts), "groups") == [
            f"readers: Empty, generation 0, coordinator {coordinator}; no members; committed "
            f"{KEY}: 1 (1 behind)",
            f"joiners: Stable, generation 1, coordinator {coordinator}; test has orders-0, "
            "orders-1; committed nothing",
        ]

    run_scenario(scenario, offsets_topic_num_partitions=1)


def test_summary_shows_errors_of_responses_and_what_has_no_response(
    cluster: Cluster, connect: Connect
) -> None:
    cluster.create_topic("orders")
    client = leader_client(cluster, "orders", connect)
    fault = cluster.inject_request_error("Produce", "NOT_ENOUGH_REPLICAS", node=None, times=2)
    cluster.inject_request_error("Fetch", "KAFKA_STORAGE_ERROR", times=None, client_id="other")
    with cluster.intercept("Heartbeat", lambda _request: None):
        pass
    produce(client, "orders", b"x")
    client.start("JoinGroup", 2, **join_fields(""))
    client.read()
    shown = cluster.summary()
    assert section(shown, "faults") == [
        f"{fault}: Produce error NOT_ENOUGH_REPLICAS: met 1 times, 1 left",
        "2: Fetch error KAFKA_STORAGE_ERROR, client_id other: never met, until it is cleared",
        "3: Heartbeat intercept: never met, over",
    ]
    asked, joined = section(shown, "last of 2 requests")
    assert asked[12:].startswith(" node ")
    assert "Produce v9 of 'parity', answered after " in asked
    assert asked.endswith(" ms: NOT_ENOUGH_REPLICAS")
    assert joined.endswith(" ms: INVALID_GROUP_ID")


def test_summary_shows_a_request_that_waits(cluster: Cluster, connect: Connect) -> None:
    cluster.create_topic("orders")
    client = leader_client(cluster, "orders", connect)
    client.start("Fetch", 11, **fetch_fields("orders", 0, max_wait_ms=60_000))
    cluster.wait_for(request=("Fetch", 1))
    (line,) = section(cluster.summary(), "last of 1 requests")
    assert line.endswith(": Fetch v11 of 'parity', not answered")


def test_summary_shows_transactions(cluster: Cluster, connect: Connect) -> None:
    cluster.create_topic("t", partitions=2)
    producer = RawProducer(cluster, connect)
    producer.init()
    producer.add("t", 0, 1)
    (line,) = section(cluster.summary(), "transactions")
    assert line.startswith(f"payments: Ongoing, producer {producer.producer_id}, epoch 0, coordi")
    assert line.endswith("; t-0, t-1")


def test_summary_is_short_whatever_there_is(cluster: Cluster, connect: Connect) -> None:
    cluster.create_topic("wide", partitions=50)
    client = connect(cluster.bootstrap_servers.split(",")[0])
    for _ in range(50):
        client.call("Metadata", 1, topics=None)
    shown = cluster.summary()
    topics = section(shown, "topics")
    assert (len(topics), topics[-1]) == (21, "and 30 more")
    assert len(section(shown, "last of 50 requests")) == 20
