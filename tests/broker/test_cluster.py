"""Clusters on a thread and in a process of their own, and what can be done to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from request_purgatory.broker import Cluster, ClusterError, ClusterProcess, ClusterSettings
from request_purgatory.broker.cluster.cluster_client import RunningCluster
from request_purgatory.errors import InvalidArgumentError
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce
from tests.support.children import in_child

TIME_LIMIT = 30.0
NO_ERROR = 0
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS = 19

Connect = Callable[[str], RawClient]


@pytest.fixture(scope="module", params=[Cluster, ClusterProcess], ids=["thread", "process"])
def running(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """A cluster of three nodes, for the tests that leave it as they found it."""
    with request.param(nodes=3, min_insync_replicas=2) as cluster:
        yield cluster


def node_of(cluster: RunningCluster, topic: str) -> int:
    """Who leads a topic's first partition."""
    return int(cluster.describe(topic)[0]["leader"])


def at_leader(cluster: RunningCluster, topic: str, connect: Connect) -> RawClient:
    """A connection to that node."""
    return connect(cluster.bootstrap.split(",")[node_of(cluster, topic)])


def until(cluster: RunningCluster, topic: str, isr: set[int]) -> None:
    """Wait for a set of in-sync replicas, by asking."""
    for _ in range(2_000):
        if set(cluster.describe(topic)[0]["isr"]) == isr:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"in-sync replicas are {cluster.describe(topic)[0]['isr']}, not {isr}")


def test_what_is_acknowledged_can_be_read(running: RunningCluster, connect: Connect) -> None:
    """acks=all is answered once it is replicated, and the high watermark stands behind it."""
    running.create_topic("read")
    client = at_leader(running, "read", connect)
    assert [
        produce(client, "read", b"one", b"two").base_offset,
        produce(client, "read", b"three").base_offset,
    ] == [0, 2]
    found = fetch(client, "read", 0)
    assert (found.error_code, found.high_watermark) == (NO_ERROR, 3)
    assert all(each["end_offset"] == 3 for each in running.describe("read")[0]["offsets"].values())


def test_parked_fetch_is_answered_by_an_append(running: RunningCluster, connect: Connect) -> None:
    """Long before its time runs out."""
    running.create_topic("parked")
    reader, writer = (at_leader(running, "parked", connect) for _ in range(2))
    reader.start("Fetch", 11, **fetch_fields("parked", 0, max_wait_ms=20_000))
    assert produce(writer, "parked", b"news").error_code == NO_ERROR
    assert reader.read(timeout=10.0).responses[0].partitions[0].high_watermark == 1


def test_frozen_followers_hold_up_the_high_watermark(
    running: RunningCluster, connect: Connect
) -> None:
    """acks=all runs out of time, acks=1 does not.

    Once they are thawed, both records are replicated.
    """
    running.create_topic("frozen")
    leader = node_of(running, "frozen")
    client = at_leader(running, "frozen", connect)
    others = [node for node in range(3) if node != leader]
    for node in others:
        running.freeze(node)
    assert produce(client, "frozen", b"all", timeout_ms=100).error_code == REQUEST_TIMED_OUT
    assert produce(client, "frozen", b"one", acks=1).error_code == NO_ERROR
    for node in others:
        running.thaw(node)
    assert produce(client, "frozen", b"all").base_offset == 2


def test_leader_moves(running: RunningCluster, connect: Connect) -> None:
    """The old leader refuses from then on, the new one takes over where it was."""
    running.create_topic("moved")
    old = at_leader(running, "moved", connect)
    before = node_of(running, "moved")
    assert produce(old, "moved", b"before").error_code == NO_ERROR
    after = (before + 1) % 3
    running.move_leader("moved", 0, after)
    for _ in range(100):
        if produce(old, "moved", b"refused").error_code == NOT_LEADER_OR_FOLLOWER:
            break
    assert node_of(running, "moved") == after
    new = at_leader(running, "moved", connect)
    assert fetch(new, "moved", 0).error_code == NO_ERROR
    assert produce(new, "moved", b"after").error_code == NO_ERROR
    assert running.describe("moved")[0]["leader_epoch"] == 1


def test_killed_node_comes_back_and_is_in_sync(running: RunningCluster, connect: Connect) -> None:
    """Others lead meanwhile.

    With one in-sync replica left, acks=all is refused before the append.
    """
    running.create_topic("killed")
    leader = node_of(running, "killed")
    others = [node for node in range(3) if node != leader]
    running.kill(leader)
    until(running, "killed", set(others))
    client = at_leader(running, "killed", connect)
    assert produce(client, "killed", b"with two").error_code == NO_ERROR
    now = node_of(running, "killed")
    last = next(node for node in others if node != now)
    running.kill(last)
    until(running, "killed", {now})
    assert produce(client, "killed", b"with one").error_code == NOT_ENOUGH_REPLICAS
    running.restart(leader)
    running.restart(last)
    until(running, "killed", {0, 1, 2})
    assert produce(client, "killed", b"with three").base_offset == 1


def test_metrics_tell_of_every_purgatory(running: RunningCluster) -> None:
    """By node and by Kafka's names; a fetch's expirations by follower and consumer."""
    running.metrics()
    found = running.metrics()
    assert sorted(found) == [0, 1, 2]
    assert {"Produce", "Fetch", "DeleteRecords", "Rebalance", "Heartbeat"} <= set(found[0])
    assert {"PurgatorySize", "NumDelayedOperations", "ExpiresPerSec"} <= set(found[0]["Produce"])
    assert {"follower.ExpiresPerSec", "consumer.ExpiresPerSec"} <= set(found[0]["Fetch"])


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("freeze", {"node": 3}, "node must be between 0 and 2, got '?3"),
        ("lag", {"node": 0, "lag_ms": -1}, "lag_ms must be at least 0, got '?-1"),
        ("restart", {"node": 0}, "node must be one that was killed or stopped, got '?0"),
        ("describe", {"topic": "none"}, "does not host this topic"),
        (
            "move_leader",
            {"topic": "none", "partition": 0, "node": 0},
            "there is no partition none-0",
        ),
        ("create_topic", {"name": "a/b"}, "contains one or more characters"),
        ("fail_requests", {"api": "Telepathy", "error": "NONE"}, "no API 'Telepathy'"),
        (
            "fail_requests",
            {"api": "Fetch", "error": "OOPS"},
            "error must be the name or number of an error .* got 'OOPS'",
        ),
        (
            "fail_requests",
            {"api": "Fetch", "error": "NONE", "times": 0},
            "times must be at least 1, or -1 for always, got '?0",
        ),
        (
            "befall_responses",
            {"api": "Fetch", "kind": "bless"},
            "kind must be one of delay, drop, corrupt, disconnect",
        ),
        (
            "befall_responses",
            {"api": "Fetch", "kind": "delay"},
            "delay_ms must be at least 1, got '?0",
        ),
        ("dance", {}, "there is no command 'dance': there are befall_responses, "),
        ("freeze", {}, "missing a required argument: 'node'"),
    ],
)
def test_commands_that_can_not_be_done_say_why(
    running: RunningCluster, command: str, arguments: dict[str, object], message: str
) -> None:
    """With the value, the same for a cluster in another process; the cluster goes on."""
    with pytest.raises((ClusterError, InvalidArgumentError), match=message):
        running.call(command, **arguments)
    assert running.call("bootstrap") == running.bootstrap


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
def test_cluster_that_does_not_run_says_so(kind: type[RunningCluster], tmp_path: Path) -> None:
    """Before its block and after it; and one that can't start says why."""
    cluster = kind()
    with pytest.raises(ClusterError, match="does not run"):
        cluster.describe("t")
    with cluster:
        assert cluster.metrics()
    with pytest.raises(ClusterError, match="does not run"):
        cluster.describe("t")
    cluster.close()
    with pytest.raises(RuntimeError, match="started once"):
        cluster.start()
    taken = Cluster()
    with taken:
        port = int(taken.bootstrap.rsplit(":", 1)[1])
        second: RunningCluster = kind(port=port)  # type: ignore[call-arg]
        with pytest.raises((OSError, ClusterError), match="in use"):
            second.start()


def test_data_of_a_cluster_that_runs_is_not_another_ones(tmp_path: Path) -> None:
    """In this process or in another; once it has ended, the next one finds all there is."""
    with Cluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("kept")
        for kind in (Cluster, ClusterProcess):
            with pytest.raises(
                (InvalidArgumentError, ClusterError),
                match="data_dir must be no other running cluster's, got",
            ):
                kind(data_dir=tmp_path).start()
    with Cluster(data_dir=tmp_path) as cluster:
        assert cluster.describe("kept")[0]["leader"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nodes": 0}, "nodes must be at least 1, got 0"),
        ({"port": 70_000}, "port must be at most 65535 for 1 nodes, got 70000"),
        (
            {"nodes": 2, "default_replication_factor": 3},
            "default_replication_factor must be between 1 and the 2 nodes, got 3",
        ),
        ({"message_max_bytes": 3}, "message_max_bytes must be at least 64, got 3"),
    ],
)
def test_settings_that_no_cluster_can_have_are_refused(
    settings: dict[str, int], message: str
) -> None:
    """Where the cluster is made."""
    with pytest.raises(InvalidArgumentError, match=message):
        ClusterSettings(**settings)


def test_cluster_ends_with_the_process_that_started_it() -> None:
    """However that ends: here by SIGKILL."""
    script = (
        "import time; from request_purgatory.broker import ClusterProcess; cluster = ClusterProcess().start();"
        "print(cluster._process.pid, cluster.bootstrap, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid, address = starter.stdout.readline().split()
    client = RawClient(address)
    starter.kill()
    starter.wait(TIME_LIMIT)
    starter.stdout.close()
    # The broker closes the connection when it ends, which its end of standard input makes it do.
    assert client.is_closed(within=TIME_LIMIT)
    client.close()
    for _ in range(1_000):
        try:
            os.kill(int(pid), signal.SIG_DFL)
        except ProcessLookupError:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the cluster's process is still there")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_is_told_that_the_cluster_does_not_run_in_it() -> None:
    """Its calls don't wait for a thread that is the parent's, and neither does its close."""
    with Cluster() as cluster:

        def child() -> None:
            with pytest.raises(ClusterError, match="does not run"):
                cluster.create_topic("a")
            cluster.close()

        in_child(child)
        cluster.create_topic("a")
