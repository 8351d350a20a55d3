"""Clusters on a thread and in a process, and their commands."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Unpack, get_type_hints

import numpy as np
import pytest

from request_purgatory.broker import (
    AsyncCluster,
    Cluster,
    ClusterError,
    ClusterProcess,
    ClusterSettings,
)
from request_purgatory.broker.cluster import cluster_process as cluster_process_module
from request_purgatory.broker.cluster.cluster_client import ClusterClient
from request_purgatory.broker.cluster.outcome import Outcome
from request_purgatory.broker.settings import ClusterOptions
from request_purgatory.errors import InvalidArgumentError
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce
from tests.support.children import in_child

TIME_LIMIT = 30.0
NO_ERROR = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS = 19

Connect = Callable[[str], RawClient]


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
    """acks=all is answered after replication, when the high watermark has passed the records."""
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
    """Long before its timeout."""
    running.create_topic("parked")
    reader, writer = (connect_to_leader(running, "parked", connect) for _ in range(2))
    reader.start("Fetch", 11, **fetch_fields("parked", 0, max_wait_ms=20_000))
    assert produce(writer, "parked", b"news").error_code == NO_ERROR
    assert reader.read(timeout=10.0).responses[0].partitions[0].high_watermark == 1


def test_paused_followers_stop_the_high_watermark(running: ClusterClient, connect: Connect) -> None:
    """acks=all times out, acks=1 does not; both records are replicated later."""
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
    """The new leader continues its log."""
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
    """With one in-sync replica left, acks=all is refused before the append."""
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
    """If the setting says so; its leaders take records as soon as the response has arrived."""
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
    """By its first answer about the topic, if the setting says so."""
    with Cluster(nodes=3, auto_create_topics_at_once=at_once) as cluster:
        if library == "kafka-python":
            producer = pytest.importorskip("kafka").KafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers, acks="all"
            )
            assert producer.send("made", b"x").get(TIME_LIMIT).offset == 0
            producer.close()
        else:
            producer = pytest.importorskip("confluent_kafka").Producer({
                "bootstrap.servers": cluster.bootstrap_servers
            })
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
            "api must be one of Alter.*, .* got 'Telepathy'",
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
            "times must be at least 1, or -1 for always, got 0",
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
    """The errors of both kinds of cluster are the same, and the cluster continues."""
    with pytest.raises((ClusterError, InvalidArgumentError), match=message):
        running.call(command, **arguments)
    assert running.call("bootstrap_servers") == running.bootstrap_servers


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
def test_command_without_a_running_cluster_is_refused(
    kind: type[ClusterClient], tmp_path: Path
) -> None:
    """Before and after the block; a cluster that can't start gives the reason."""
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


def test_data_directory_belongs_to_one_running_cluster(tmp_path: Path) -> None:
    """In this process or another; later clusters find the data."""
    with Cluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("kept")
        for kind in (Cluster, ClusterProcess):
            with pytest.raises(
                (InvalidArgumentError, ClusterError),
                match="data_dir must be a directory that no other running cluster uses, got",
            ):
                kind(data_dir=tmp_path).start()
    with Cluster(data_dir=tmp_path) as cluster:
        assert cluster.describe_topic("kept")[0]["leader"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nodes": 0}, "nodes must be at least 1, got 0"),
        ({"port": 70_000}, "port must be at most 65535 for 1 nodes, got 70000"),
        (
            {"nodes": 2, "default_replication_factor": 3},
            "default_replication_factor must be between 1 and 2, the number of nodes, got 3",
        ),
        ({"message_max_bytes": 3}, "message_max_bytes must be at least 64, got 3"),
        ({"min_insync_replicas": "2"}, "min_insync_replicas must be a whole number .* got '2'"),
        ({"num_partitions": 2.5}, "num_partitions must be a whole number .* got 2.5"),
        ({"num_partitions": True}, "num_partitions must be a whole number .* got True"),
        ({"num_partitions": None}, r"must be a whole number \(an int\), got None"),
        ({"log_retention_ms": "7d"}, r"must be a whole number \(an int\) or None, got '7d'"),
        (
            {"auto_create_topics_enable": "false"},
            "auto_create_topics_enable must be True or False, got 'false'",
        ),
        ({"auto_create_topics_enable": 0}, "must be True or False, got 0"),
        ({"producer_byte_rate": "1e6"}, "must be a number or None, got '1e6'"),
        ({"producer_byte_rate": False}, "must be a number or None, got False"),
        ({"data_dir": 5}, "data_dir must be a Path or None, got 5"),
        ({"topic_defaults": [("retention.ms", "5")]}, "topic_defaults must be a dict, got"),
        ({"topic_defaults": {"retention.ms": 5}}, "topic_defaults must be a dict of str to str, g"),
        ({"topic_defaults": {"retention.ms": None}}, "must be a dict of str to str, got"),
        ({"topic_defaults": {5: "retention.ms"}}, "topic_defaults must be a dict of str to str, g"),
        ({"sasl_users": {5: "secret"}}, "must be a dict of str to str, got 'another value'"),
        ({"sasl_users": {"alice": 5}}, "must be a dict of str to str, got 'another value'"),
        ({"producer_byte_rate": math.nan}, "must be a finite number or None, got nan"),
        ({"consumer_byte_rate": math.inf}, "must be a finite number or None, got inf"),
        ({"consumer_byte_rate": -0.5}, "consumer_byte_rate must be at least 0, got -0.5"),
        ({"num_partitions": 10_001}, "num_partitions must be at most 10000, got 10001"),
        ({"offsets_topic_num_partitions": 10**9}, "must be at most 10000, got 1000000000"),
        ({"broker_session_timeout_ms": 2**31}, "must be at most 2147483647, got 2147483648"),
        ({"log_retention_ms": 2**63}, f"must be at most {2**63 - 1}, got {2**63}"),
        ({"log_retention_check_interval_ms": 0}, "must be at least 1, got 0"),
        ({"max_connections": 10**5_000}, "must be at most 2147483647, got 'a number of 16610 bits"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """When the settings are created."""
    with pytest.raises(InvalidArgumentError, match=message):
        ClusterSettings(**settings)


def test_every_setting_refuses_values_of_other_types() -> None:
    wrong = [b"x", object(), [], 1.5, math.nan, True, 10**400]
    hints = get_type_hints(ClusterSettings)
    for name, hint in hints.items():
        for value in wrong:
            if (value is True and hint is bool) or (value == 1.5 and hint == float | None):
                continue
            with pytest.raises(InvalidArgumentError, match=f"^{name} must be "):
                ClusterSettings(**{name: value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": {}}, "settings must be a ClusterSettings or None, got {}"),
        ({"settings": 3}, "settings must be a ClusterSettings or None, got 3"),
        ({"recorder": "runs"}, "recorder must be a Recorder or None, got 'runs'"),
        ({"wall_ms": 5}, "wall_ms must be callable, got 5"),
    ],
)
def test_async_cluster_refuses_other_types(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        AsyncCluster(**arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
def test_record_is_a_path(kind: type[Cluster]) -> None:
    with pytest.raises(InvalidArgumentError, match="record must be a Path, a str or None, got 5"):
        kind(record=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
@pytest.mark.parametrize("name", ["data_dir", "record", "ssl_keystore_location"])
def test_empty_path_is_refused(kind: type[Cluster], name: str) -> None:
    """It would be the current directory."""
    with pytest.raises(InvalidArgumentError, match=f"{name} must be a path that is not empty"):
        kind(**{name: ""})  # type: ignore[arg-type]


def test_settings_accept_every_whole_number(tmp_path: Path) -> None:
    """NumPy's too; a directory may be text."""
    settings = Cluster(num_partitions=np.int64(3), data_dir=str(tmp_path)).settings
    assert type(settings.num_partitions) is int
    assert settings.num_partitions == 3
    assert settings.data_dir == tmp_path


def test_unknown_settings_are_refused() -> None:
    """Before the start; `test_keyword_arguments_are_the_settings` is what mypy goes by."""
    with pytest.raises(TypeError, match="nodse"):
        Cluster(nodse=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nodse"):
        ClusterProcess(nodse=2)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="num_partitions"):
        Cluster(num_partitions="2")  # type: ignore[arg-type]


def test_keyword_arguments_are_the_settings() -> None:
    """With their types; `nodes` comes first, and paths may be text."""
    hints = get_type_hints(ClusterSettings)
    assert hints.pop("nodes") is int
    for path in ("data_dir", "ssl_keystore_location", "ssl_truststore_location"):
        hints[path] |= str
    assert get_type_hints(ClusterOptions) == hints
    for kind in (Cluster, ClusterProcess):
        assert get_type_hints(kind.__init__)["settings"] == Unpack[ClusterOptions]


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"cleanup.polcy": "delete"}, "Unknown topic config name: cleanup.polcy"),
        ({"cleanup.policy": "nonsense"}, "Invalid value nonsense .* must be one of: compact"),
        ({"retention.ms": "1_000"}, "Invalid value 1_000 .* Not a number of type LONG"),
        ({"retention.ms": f"{2**63}"}, "Not a number of type LONG"),
        ({"retention.ms": "1" * 5_000}, "Not a number of type LONG"),
        ({"segment.bytes": f"{2**31}"}, "Not a number of type INT"),
        ({"min.cleanable.dirty.ratio": "half"}, "Not a number of type DOUBLE"),
        ({"min.cleanable.dirty.ratio": "1.5"}, "Value must be no more than 1"),
        ({"preallocate": "1"}, "Expected value to be either true or false"),
    ],
)
def test_invalid_topic_settings_are_refused(configs: dict[str, Any], message: str) -> None:
    """As a topic's own, and as the defaults of all topics."""
    with pytest.raises(InvalidArgumentError, match=f"topic_defaults must be .*{message}"):
        Cluster(topic_defaults=configs).start()
    with Cluster() as cluster:
        with pytest.raises(ClusterError, match=message):
            cluster.create_topic("t", configs=configs)
        with pytest.raises(ClusterError, match="there is no topic 't'"):
            cluster.describe_topic("t")


def test_compaction_is_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Clients such as Kafka Streams create compacted topics; nothing is compacted."""
    with Cluster(nodes=1) as cluster:
        cluster.create_topic("plain")
        assert not caplog.messages
        cluster.create_topic("table", configs={"cleanup.policy": "compact"})
        (message,) = caplog.messages
        assert message.startswith("table: cleanup.policy=compact is accepted, but nothing")
    caplog.clear()
    with Cluster(topic_defaults={"cleanup.policy": "compact,delete"}):
        (message,) = caplog.messages
        assert message.startswith("topic_defaults: cleanup.policy=compact,delete is accepted")


def test_cluster_process_ends_with_its_parent() -> None:
    """Here the parent is killed by SIGKILL."""
    script = (
        "import time; from request_purgatory.broker import ClusterProcess;"
        "cluster = ClusterProcess().start();"
        "print(cluster.pid, cluster.bootstrap_servers, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid, address = starter.stdout.readline().split()
    client = RawClient(address)
    starter.kill()
    starter.wait(TIME_LIMIT)
    starter.stdout.close()
    # The broker stops at the end of its standard input, and closes the connection.
    assert client.is_closed(within=TIME_LIMIT)
    client.close()
    for _ in range(1_000):
        try:
            os.kill(int(pid), signal.SIG_DFL)
        except ProcessLookupError:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the cluster's process is still running")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_cluster_is_not_running_in_a_forked_child() -> None:
    """Calls and close don't wait for the parent's thread."""
    with Cluster() as cluster:

        def child() -> None:
            with pytest.raises(ClusterError, match="is not running"):
                cluster.create_topic("a")
            cluster.close()

        in_child(child)
        cluster.create_topic("a")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_of_a_process_has_a_connection_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ClusterProcess() as cluster:

        def child() -> None:
            # The parent's command waits for its answer, which the child must not take.
            cluster.create_topic("of-the-child")
            assert cluster.high_watermark("of-the-parent") == 0
            cluster.close()
            with pytest.raises(ClusterError, match="is not running"):
                cluster.create_topic("x")

        cluster.create_topic("of-the-parent")
        assert cluster._control is not None
        read = cluster._control._read_line

        def fork_and_read() -> bytes:
            in_child(child)
            return read()

        with monkeypatch.context() as patched:
            patched.setattr(cluster._control, "_read_line", fork_and_read)
            assert len(cluster.describe_topic("of-the-parent")) == 1
        assert len(cluster.describe_topic("of-the-child")) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("end", ["close", "kill_process"])
def test_forked_child_does_not_stop_the_parents_process(end: str) -> None:
    with ClusterProcess() as cluster:

        def child() -> None:
            with pytest.raises(ClusterError, match=f"process {parent} has started"):
                cluster.kill_process()
            for _ in range(2):
                assert cluster.high_watermark("a") == 0
            cluster.close()

        parent = os.getpid()
        cluster.create_topic("a")
        in_child(child)
        assert len(cluster.describe_topic("a")) == 1
        if end == "kill_process":
            cluster.kill_process()


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_process_stops_while_a_forked_child_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has a copy of the pipe whose end would stop the process."""
    monkeypatch.setattr(cluster_process_module, "_TIMEOUT", 30.0)
    with ClusterProcess() as cluster:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        os.close(reading)
        try:
            cluster.close()
            assert cluster._process is not None
            assert cluster._process.returncode == 0
        finally:
            os.close(writing)
            os.waitpid(child, 0)


class Interrupted(BaseException):
    """What a signal handler raises."""


@pytest.mark.parametrize("place", ["_read_first_line", "ControlClient"])
def test_interrupted_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def interrupt(*_args: object) -> None:
        raise Interrupted

    where = ClusterProcess if place.startswith("_") else cluster_process_module
    monkeypatch.setattr(where, place, interrupt)
    cluster = ClusterProcess()
    with pytest.raises(Interrupted):
        cluster.start()
    assert cluster._process is not None
    assert cluster._process.returncode == -signal.SIGKILL
    cluster.close()


def test_interrupted_start_stops_the_clusters_thread() -> None:
    cluster = Cluster()

    def interrupt(frame: FrameType, event: str, _arg: object) -> None:
        if frame.f_code is Outcome.wait.__code__ and event == "call":
            sys.settrace(None)
            raise Interrupted

    sys.settrace(interrupt)
    try:
        with pytest.raises(Interrupted):
            cluster.start()
    finally:
        sys.settrace(None)
    assert cluster._thread is not None
    assert not cluster._thread.is_alive()
    with pytest.raises(ClusterError, match="create_topic: the cluster is not running"):
        cluster.create_topic("a")
    cluster.close()


def test_signal_handler_runs_a_command_wherever_it_interrupts_another() -> None:
    """The handler is called at each line of Python, on a thread that can be given up."""
    lines: set[tuple[str, int]] = set()
    found: list[object] = []

    def interrupt(frame: FrameType, event: str, _arg: object) -> Any:
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and line not in lines:
            lines.add(line)
            sys.settrace(None)
            try:
                found.append(cluster.high_watermark("t"))
            finally:
                sys.settrace(interrupt)
        return interrupt

    def run() -> None:
        sys.settrace(interrupt)
        try:
            cluster.high_watermark("t")
        finally:
            sys.settrace(None)

    with Cluster() as cluster:
        cluster.create_topic("t")
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(TIME_LIMIT)
        assert not thread.is_alive()
    assert {Cluster.call.__code__.co_filename, Outcome.wait.__code__.co_filename} <= {
        file for file, _ in lines
    }
    assert found == [0] * len(lines)


def test_signal_handler_runs_a_command_wherever_it_interrupts_the_start() -> None:
    answers: list[object] = []
    lines: set[tuple[str, int]] = set()

    def interrupt(frame: FrameType, event: str, _arg: object) -> Any:
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and line not in lines:
            lines.add(line)
            sys.settrace(None)
            try:
                answers.append(clusters[-1].faults())
            except ClusterError as error:
                answers.append(str(error))
            finally:
                sys.settrace(interrupt)
        return interrupt

    def run() -> None:
        sys.settrace(interrupt)
        try:
            clusters[-1].start()
        finally:
            sys.settrace(None)

    clusters = [Cluster()]
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIME_LIMIT)
    assert not thread.is_alive()
    clusters[-1].close()
    assert answers[0] == "faults: the cluster is not running"
    assert answers[-1] == []


def test_command_that_is_submitted_at_the_end_of_the_cluster_ends() -> None:
    """Its caller has seen the cluster run, and the loop does not begin it."""
    cluster = Cluster().start()
    started: list[object] = []
    commands: list[Any] = []

    async def never(_cluster: object) -> None:
        started.append(None)

    def start(of: Any) -> Any:
        commands.append(never(of))
        return commands[0]

    def close(*_: object, **__: object) -> None:
        patched.undo()
        cluster.close()

    loop = cluster._loop
    assert loop is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "call_soon_threadsafe", close)
        with pytest.raises(ClusterError, match="never: the cluster has stopped"):
            cluster._submit("never", start, TIME_LIMIT)
    assert not started
    assert commands[0].cr_frame is None
    assert not cluster._calls
