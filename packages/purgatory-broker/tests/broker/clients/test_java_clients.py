"""Kafka's Java clients, as console tools.

// Starting a JVM takes a second or two, so the fast tier runs only one of these tests.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.broker.clients.waiting import TIME_LIMIT, until
from tests.broker.kafka_server import run_tool, start_command

pytestmark = pytest.mark.jvm


def _run(tools: Path, name: str, *arguments: str, stdin: bytes = b"") -> str:
    """Return what a tool prints; raise an AssertionError with its output if it fails."""
    ran = run_tool(tools, name, *arguments, stdin=stdin)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[:1000]
    return ran.stdout


def _produce(
    tools: Path, bootstrap_servers: str, topic: str, lines: bytes, *arguments: str
) -> None:
    _run(
        tools,
        "ConsoleProducer",
        "--bootstrap-server",
        bootstrap_servers,
        "--topic",
        topic,
        *arguments,
        stdin=lines,
    )


def _consume(
    tools: Path, bootstrap_servers: str, topic: str, count: int, *arguments: str
) -> list[str]:
    limit = str(int(TIME_LIMIT * 1000))
    common = [
        "--bootstrap-server",
        bootstrap_servers,
        "--topic",
        topic,
        "--max-messages",
        str(count),
        "--timeout-ms",
        limit,
    ]
    return _run(tools, "ConsoleConsumer", *common, *arguments).splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_produced_and_consumed(
    tools: Path, bootstrap_servers: str, topic: str, codec: str
) -> None:
    keyed = [
        "--property",
        "parse.key=true",
        "--property",
        "parse.headers=true",
        "--compression-codec",
        codec,
    ]
    _produce(
        tools, bootstrap_servers, topic, b"one:1\tk1\t" + b"a" * 500 + b"\none:2\tk2\tb\n", *keyed
    )
    shown = [
        "--property",
        "print.key=true",
        "--property",
        "print.headers=true",
        "--property",
        "print.offset=true",
    ]
    found = _consume(tools, bootstrap_servers, topic, 2, "--from-beginning", *shown)
    assert found == ["Offset:0\tone:1\tk1\t" + "a" * 500, "Offset:1\tone:2\tk2\tb"]


@pytest.mark.parametrize("acks", ["0", "1"])
def test_messages_are_produced_with_acks_0_and_1(
    tools: Path, bootstrap_servers: str, topic: str, acks: str
) -> None:
    """Java's producer is then not idempotent."""
    _produce(
        tools,
        bootstrap_servers,
        topic,
        b"a\nb\n",
        "--request-required-acks",
        acks,
        "--producer-property",
        "enable.idempotence=false",
    )
    assert _consume(
        tools, bootstrap_servers, topic, 2, "--partition", "0", "--offset", "earliest"
    ) == [
        "a",
        "b",
    ]


def test_topic_is_created_described_extended_and_deleted(
    tools: Path, bootstrap_servers: str, topic: str
) -> None:
    common = ["--bootstrap-server", bootstrap_servers]
    _run(
        tools,
        "TopicCommand",
        *common,
        "--create",
        "--topic",
        topic,
        "--partitions",
        "2",
        "--replication-factor",
        "3",
        "--config",
        "retention.ms=5000",
    )
    until(lambda: topic in _run(tools, "TopicCommand", *common, "--list").split())
    _run(tools, "TopicCommand", *common, "--alter", "--topic", topic, "--partitions", "3")
    described = _run(tools, "TopicCommand", *common, "--describe", "--topic", topic)
    assert "ReplicationFactor: 3" in described
    assert "retention.ms=5000" in described
    assert [f"Partition: {number}\t" in described for number in range(4)] == [
        True,
        True,
        True,
        False,
    ]
    again = run_tool(tools, "TopicCommand", *common, "--create", "--topic", topic)
    assert again.returncode != 0
    assert "already exists" in again.stdout + again.stderr
    _run(tools, "TopicCommand", *common, "--delete", "--topic", topic)
    until(lambda: topic not in _run(tools, "TopicCommand", *common, "--list").split())


def test_group_resumes_from_its_committed_offsets(
    tools: Path, bootstrap_servers: str, topic: str
) -> None:
    _produce(tools, bootstrap_servers, topic, b"a\nb\nc\n")
    assert _consume(tools, bootstrap_servers, topic, 3, "--group", topic, "--from-beginning") == [
        "a",
        "b",
        "c",
    ]
    common = ["--bootstrap-server", bootstrap_servers, "--group", topic]
    described = _run(tools, "ConsumerGroupCommand", *common, "--describe").split()
    # Group, topic, partition, committed offset, log end, and lag.
    start = described.index(topic)
    assert described[start : start + 6] == [topic, topic, "0", "3", "3", "0"]
    _run(
        tools,
        "ConsumerGroupCommand",
        *common,
        "--topic",
        topic,
        "--reset-offsets",
        "--to-offset",
        "1",
        "--execute",
    )
    assert _consume(tools, bootstrap_servers, topic, 2, "--group", topic) == ["b", "c"]
    _run(tools, "ConsumerGroupCommand", *common, "--delete")
    assert (
        topic
        not in _run(
            tools, "ConsumerGroupCommand", "--bootstrap-server", bootstrap_servers, "--list"
        ).split()
    )


def test_offsets_are_listed_and_records_deleted(
    tools: Path, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    _produce(tools, bootstrap_servers, topic, b"a\nb\nc\n")
    common = ["--bootstrap-server", bootstrap_servers]
    wanted = tmp_path / "records.json"
    wanted.write_text(
        f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "offset": 2}}]}}'
    )
    assert "low_watermark: 2" in _run(
        tools, "DeleteRecordsCommand", *common, "--offset-json-file", str(wanted)
    )
    times = {"earliest": 2, "latest": 3, "max-timestamp": None, "1000": 2}
    for when, offset in times.items():
        offsets = _run(tools, "GetOffsetShell", *common, "--topic", topic, "--time", when).strip()
        assert offsets.startswith(f"{topic}:0:" if offset is None else f"{topic}:0:{offset}")


def test_consumer_at_the_end_gets_new_messages(
    tools: Path, bootstrap_servers: str, topic: str
) -> None:
    """Long before its fetch would time out."""
    _produce(tools, bootstrap_servers, topic, b"first\n")
    settings = ["--from-beginning", "--consumer-property", "fetch.max.wait.ms=25000"]
    command = start_command(
        tools,
        "ConsoleConsumer",
        "--bootstrap-server",
        bootstrap_servers,
        "--topic",
        topic,
        *settings,
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
        assert reader.stdout is not None
        try:
            assert reader.stdout.readline() == b"first\n"
            _produce(tools, bootstrap_servers, topic, b"late\n")
            produced = time.monotonic()
            assert reader.stdout.readline() == b"late\n"
            assert time.monotonic() - produced < 15
        finally:
            # Otherwise it would wait for the end of its next fetch.
            reader.kill()
