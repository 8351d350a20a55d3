"""What a test can wait for in a cluster."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from purgatory_broker import (
    Cluster,
    ClusterError,
    ClusterProcess,
    ClusterTimeoutError,
)
from purgatory_broker.cluster.cluster_client import ClusterClient
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.raw_requests import leader_client, produce
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario

TIME_LIMIT = 30.0


def test_wait_for_records_ends_with_the_append(running: ClusterClient, connect: Connect) -> None:
    done = threading.Event()

    def wait() -> None:
        running.wait_for(records=("awaited", 2), timeout=TIME_LIMIT)
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    running.create_topic("awaited")
    client = leader_client(running, "awaited", connect)
    produce(client, "awaited", b"one")
    assert not done.is_set()
    produce(client, "awaited", b"two")
    assert done.wait(TIME_LIMIT)
    thread.join(TIME_LIMIT)


def test_wait_for_isr_sees_a_follower_leave_and_return(running: ClusterClient) -> None:
    running.create_topic("left")
    running.wait_for(isr=("left", 0, [2, 1, 0]))
    running.pause_replication(2)
    with pytest.raises(ClusterTimeoutError, match=r"the in-sync replicas \[0\] of left-0, got"):
        running.wait_for(isr=("left", 0, [0]), timeout=0)
    running.kill(2)
    running.wait_for(isr=("left", 0, [0, 1]))
    running.resume_replication(2)
    running.restart(2)
    running.wait_for(isr=("left", 0, [0, 1, 2]))


@pytest.mark.parametrize("elapsed", [1.0, 5.0])
def test_wait_is_an_operation_of_the_purgatory(elapsed: float) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        loop = asyncio.get_running_loop()
        purgatory = harness.cluster.waits.purgatory
        began = loop.time()
        waiting = asyncio.ensure_future(
            harness.cluster.wait_for(records=("orders", 1), isr=("orders", 0, [0, 1, 2]), timeout=5)
        )
        await asyncio.sleep(elapsed - 0.1)
        assert (purgatory.num_delayed, waiting.done()) == (1, False)
        if elapsed < 5:
            await harness.produce(0, b"value").get()
            await waiting
            assert loop.time() - began < 1
        else:
            with pytest.raises(ClusterTimeoutError) as caught:
                await waiting
            assert str(caught.value) == (
                "not within 5 s: expected 1 records in orders, got 0 (partition 0: offsets 0 to 0, "
                "high watermark 0, in sync [0, 1, 2])"
            )
            assert round(loop.time() - began, 1) == 5
        assert purgatory.num_delayed == 0

    run_scenario(scenario)


def test_wait_follows_the_leader() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.partition_node(0)
        harness.produce(0, b"lost", acks=1)
        waiting = asyncio.ensure_future(
            harness.cluster.wait_for(records=("orders", 1), timeout=100)
        )
        await harness.until(lambda: harness.leader != 0)
        assert not waiting.done()
        await harness.settle()
        await harness.produce(harness.leader, b"kept").get()
        await waiting
        assert [each.value for each in await harness.cluster.records("orders")] == [b"kept"]

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "wait_for must be called with at least one condition"),
        ({"records": ["t"]}, "records must be "),
        ({"records": ["t", "many"]}, "records must be "),
        ({"isr": ["t", 0, 1]}, "isr must be "),
        ({"group_stable": 5}, "group_stable must be "),
        ({"fault": [99, 1]}, "fault must be the id of a fault that `faults` has, got 99"),
        ({"fault": ["x", 1]}, "fault must be "),
        ({"records": ["t", 1], "timeout": "5"}, "timeout must be "),
    ],
)
def test_invalid_conditions_are_refused(
    running: ClusterClient, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        running.call("wait_for", **arguments)


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
def test_wait_ends_with_the_cluster(kind: type[ClusterClient]) -> None:
    errors: list[Exception] = []

    def wait(cluster: ClusterClient) -> None:
        try:
            cluster.wait_for(records=("t", 1), timeout=600)
        except ClusterError as error:
            errors.append(error)

    with kind() as cluster:
        cluster.create_topic("t")
        thread = threading.Thread(target=wait, args=(cluster,))
        thread.start()
    thread.join(TIME_LIMIT)
    assert not thread.is_alive()
    assert "wait_for: the cluster " in str(errors[0])


def test_wait_for_requests_counts_from_when_they_were_forgotten(
    running: ClusterClient, connect: Connect
) -> None:
    running.create_topic("forgotten")
    client = leader_client(running, "forgotten", connect)
    produce(client, "forgotten", b"before")
    running.wait_for(request=("Produce", 1))
    running.forget_requests()
    assert running.requests() == []
    with pytest.raises(ClusterTimeoutError, match="expected 1 Produce requests, got 0"):
        running.wait_for(request=("Produce", 1), timeout=0)
    waiting = threading.Thread(target=running.wait_for, kwargs={"request": ("Produce", 2)})
    waiting.start()
    produce(client, "forgotten", b"one")
    assert len(running.requests(api="Produce")) == 1
    assert waiting.is_alive()
    produce(client, "forgotten", b"two")
    waiting.join(TIME_LIMIT)
    assert not waiting.is_alive()


@pytest.mark.parametrize("kind", ["error", "delay"])
def test_wait_for_fault_ends_with_its_hits(
    running: ClusterClient, connect: Connect, kind: str
) -> None:
    topic = f"hit-{kind}"
    running.create_topic(topic)
    client = leader_client(running, topic, connect)
    if kind == "error":
        fault = running.inject_request_error("Produce", "KAFKA_STORAGE_ERROR", times=2, topic=topic)
    else:
        fault = running.inject_response_fault("Produce", kind, times=2, topic=topic, delay_ms=1)
    ended: list[int] = []

    def wait() -> None:
        running.wait_for(fault=(fault, 2), timeout=TIME_LIMIT)
        ended.append(running.call("faults")[-1]["hits"])

    thread = threading.Thread(target=wait)
    thread.start()
    produce(client, topic, b"one")
    with pytest.raises(ClusterTimeoutError) as caught:
        running.wait_for(fault=(fault, 2), timeout=0)
    assert f"expected 2 hits of fault {fault}, got 1 (" in str(caught.value)
    assert f"{topic!r}" in str(caught.value)
    assert ended == []
    produce(client, topic, b"two")
    thread.join(TIME_LIMIT)
    assert ended == [2]
    # It holds although the fault is over.
    running.wait_for(fault=(fault, 2), timeout=0)
    running.clear_faults()


def test_wait_for_fault_is_an_operation_of_the_purgatory() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        cluster = harness.cluster
        fault = cluster.inject_request_error("Produce", "KAFKA_STORAGE_ERROR")
        waiting = asyncio.ensure_future(cluster.wait_for(fault=(fault, 1), timeout=5))
        await asyncio.sleep(1)
        assert (cluster.waits.purgatory.num_delayed, waiting.done()) == (1, False)
        cluster.clear_faults()
        with pytest.raises(ClusterTimeoutError, match="1 hits of fault 1, which was cleared"):
            await waiting

    run_scenario(scenario)
