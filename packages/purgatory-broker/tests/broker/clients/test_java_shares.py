"""Java's share consumer, and Kafka's tools for share groups."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from purgatory_broker import Cluster
from tests.broker.kafka_server import TIME_LIMIT, run_tool, start_source, tools_libraries

pytestmark = pytest.mark.jvm

_COUNT = 200


@pytest.fixture(scope="module")
def tools() -> Path:
    """Return the folder with the jars of Kafka's tools."""
    return tools_libraries()


def _begin_at_the_start(bootstrap_servers: str, group: str) -> None:
    earliest = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[earliest])
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(TIME_LIMIT)


def _produce(bootstrap_servers: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(TIME_LIMIT) == 0


def test_two_workers_accept_each_record_once(tools: Path) -> None:
    """Every second record is released once, and has its second delivery then."""
    with Cluster(nodes=3) as cluster:
        cluster.create_topic("jobs", partitions=3)
        _begin_at_the_start(cluster.bootstrap_servers, "workers")
        _produce(cluster.bootstrap_servers, "jobs", _COUNT)
        source = Path(__file__).parent / "java" / "ShareWorkers.java"
        command = start_source(
            tools, source, cluster.bootstrap_servers, "jobs", "workers", str(_COUNT)
        )
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        accepted = sorted(tuple(map(int, line.split())) for line in ran.stdout.splitlines())
        assert accepted == [(number, 1 + number % 2) for number in range(_COUNT)]


def test_console_consumer_and_tools(tools: Path) -> None:
    """A group is consumed, listed, described and deleted."""
    with Cluster(nodes=1) as cluster:
        servers = ("--bootstrap-server", cluster.bootstrap_servers)
        cluster.create_topic("jobs")
        _begin_at_the_start(cluster.bootstrap_servers, "workers")
        _produce(cluster.bootstrap_servers, "jobs", 5)
        consumed = run_tool(
            tools, "consumer.ConsoleShareConsumer", *servers,
            "--topic", "jobs", "--group", "workers",
            "--max-messages", "5", "--timeout-ms", "30000",
        )  # fmt: skip
        assert consumed.stdout.split() == list("01234"), consumed.stderr
        group_tool = "consumer.group.ShareGroupCommand"
        listed = run_tool(tools, group_tool, *servers, "--list", "--state")
        assert listed.stdout.split()[2:] == ["workers", "Empty"], listed
        described = run_tool(
            tools, group_tool, *servers, "--describe", "--offsets", "--group", "workers"
        )
        assert described.stdout.split()[4:7] == ["workers", "jobs", "0"], described
        deleted = run_tool(tools, group_tool, *servers, "--delete", "--group", "workers")
        assert "successful" in deleted.stdout, deleted
        assert "workers" not in run_tool(tools, group_tool, *servers, "--list").stdout
