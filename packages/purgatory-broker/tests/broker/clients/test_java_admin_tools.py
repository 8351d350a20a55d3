"""Kafka's own tools for administrators."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.broker.clients.waiting import until
from tests.broker.kafka_server import broker_libraries, run_tool

pytestmark = pytest.mark.jvm


def _run(libraries: Path, name: str, servers: str, *arguments: str) -> str:
    """Return what a tool prints; raise an AssertionError with its output if it fails."""
    ran = run_tool(libraries, name, "--bootstrap-server", servers, *arguments)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[:2000]
    return ran.stdout


def test_partitions_are_reassigned(
    tools: Path, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    _run(
        tools,
        "TopicCommand",
        bootstrap_servers,
        *("--create", "--topic", topic, "--replica-assignment", "0:1,1:0"),
    )
    wanted = [{"topic": topic, "partition": 0, "replicas": [2, 1]}]
    wanted += [{"topic": topic, "partition": 1, "replicas": [2, 0]}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    given = ("--reassignment-json-file", str(plan))
    command = "reassign.ReassignPartitionsCommand"
    said = _run(tools, command, bootstrap_servers, *given, "--execute", "--throttle", "10000000")
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in said

    def is_complete() -> bool:
        said = _run(tools, command, bootstrap_servers, *given, "--verify")
        return said.count("is completed.") == 2 and "Clearing broker-level throttles" in said

    until(is_complete)
    assert "No partition reassignments found." in _run(tools, command, bootstrap_servers, "--list")
    described = _run(tools, "TopicCommand", bootstrap_servers, "--describe", "--topic", topic)
    assert re.findall(r"Replicas: ([\d,]+)", described) == ["2,1", "2,0"]
    assert "throttled" not in described


def test_quorum_is_described(tools: Path, bootstrap_servers: str) -> None:
    command = "MetadataQuorumCommand"
    said = _run(tools, command, bootstrap_servers, "describe", "--status")
    assert re.search(r"LeaderId:\s+0\n", said), said
    assert re.search(r"HighWatermark:\s+\d+\n", said), said
    said = _run(tools, command, bootstrap_servers, "describe", "--replication")
    assert {line.split()[0] for line in said.splitlines()[1:]} == {"0", "1", "2"}
    assert "Leader" in said


def test_configs_and_quotas_are_changed(bootstrap_servers: str, topic: str) -> None:
    libraries = broker_libraries()

    def configs(*arguments: str) -> str:
        return _run(libraries, "kafka.admin.ConfigCommand", bootstrap_servers, *arguments)

    group = ("--entity-type", "groups", "--entity-name", topic)
    setting = "consumer.session.timeout.ms"
    configs("--alter", *group, "--add-config", f"{setting}=50000")
    until(lambda: f"{setting}=50000" in configs("--describe", *group))
    assert topic in configs("--describe", "--entity-type", "groups")
    broker = ("--entity-type", "brokers", "--entity-name", "0")
    assert "broker.id=0" in configs("--describe", "--all", *broker)
    ran = run_tool(
        libraries,
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", bootstrap_servers, "--alter", *broker),
        *("--add-config", "offsets.topic.num.partitions=7"),
    )
    assert ran.returncode == 1
    assert "Cannot update these configs dynamically" in ran.stdout + ran.stderr
    client = ("--entity-type", "clients", "--entity-name", topic)
    configs("--alter", *client, "--add-config", "producer_byte_rate=1024")
    until(lambda: "producer_byte_rate=1024.0" in configs("--describe", *client))
    configs("--alter", *client, "--delete-config", "producer_byte_rate")
    until(lambda: "producer_byte_rate" not in configs("--describe", *client))
