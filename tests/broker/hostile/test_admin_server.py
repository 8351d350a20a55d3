"""Invalid input to the admin server."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from typing import Any

import pytest

from request_purgatory.broker.cluster.admin_server import (
    MAX_CONNECTIONS,
    MAX_LINE_BYTES,
    ControlServer,
)
from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.cluster.commands import COMMANDS
from tests.broker import apis
from tests.broker.hostile.client import check_clients_are_served
from tests.broker.hostile.conftest import RunScenario
from tests.broker.hostile.sample_requests import frame, with_size


async def _send_line(control: ControlServer, line: bytes) -> dict[str, Any] | None:
    """Send a line, and return the response; None if the connection is closed instead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", control.port)
    try:
        writer.write(line + b"\n")
        answer = await reader.readline()
    except ConnectionError:
        return None
    finally:
        writer.transport.abort()
    return json.loads(answer) if answer else None


def _command(name: bytes, arguments: bytes) -> bytes:
    return b'{"command": "%s", "arguments": %s}' % (name, arguments)


INVALID_LINES = {
    "empty": b"",
    "HTTP": b"GET / HTTP/1.1\r",
    "not UTF-8": b"\xff\xfe\xfd",
    "Kafka frame": with_size(frame(apis.API_VERSIONS, 0)),
    "null": b"null",
    "list": b"[]",
    "no command": b"{}",
    "no arguments": b'{"command": "metrics"}',
    "command is a list": b'{"command": ["metrics"], "arguments": {}}',
    "arguments are a list": b'{"command": "metrics", "arguments": [1]}',
    "deeply nested": b"[" * 200_000,
    "NaN": _command(b"set_latency", b'{"node": 0, "latency_ms": NaN}'),
    "infinity": _command(b"set_latency", b'{"node": 0, "latency_ms": -Infinity}'),
    "float": _command(b"set_latency", b'{"node": 0.5, "latency_ms": 1}'),
    "ten thousand digits": _command(b"pause_replication", b'{"node": ' + b"9" * 10_000 + b"}"),
    "a thousand digits": _command(b"pause_replication", b'{"node": ' + b"9" * 1_000 + b"}"),
    "bool for a number": _command(b"pause_replication", b'{"node": true}'),
    "number for a name": _command(b"create_topic", b'{"name": 5}'),
    "number for a config": _command(
        b"create_topic", b'{"name": "t", "configs": {"retention.ms": 5}}'
    ),
    "unknown argument": _command(b"metrics", b'{"node": 0}'),
}


@pytest.mark.parametrize("line", INVALID_LINES.values(), ids=INVALID_LINES)
def test_invalid_lines_get_an_error(run_scenario: RunScenario, line: bytes) -> None:
    """The server still runs valid commands."""

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            answer = await _send_line(control, line)
            assert answer is not None
            assert answer.keys() & {"error", "invalid"}, answer
            assert len(json.dumps(answer)) < 2_000
            assert "result" in (
                await _send_line(control, b'{"command": "metrics", "arguments": {}}') or {}
            )

    run_scenario(scenario)


def test_endless_line_closes_its_connection(run_scenario: RunScenario) -> None:
    """Other connections stay open."""

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            assert await _send_line(control, b"a" * (3 * MAX_LINE_BYTES)) is None
            assert "result" in (
                await _send_line(control, b'{"command": "bootstrap_servers", "arguments": {}}')
                or {}
            )

    run_scenario(scenario)


def test_connections_are_limited(run_scenario: RunScenario) -> None:
    """A connection that ends makes room for another."""

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            held = [
                await asyncio.open_connection("127.0.0.1", control.port)
                for _ in range(MAX_CONNECTIONS)
            ]
            await asyncio.sleep(0.1)
            assert await _send_line(control, b'{"command": "metrics", "arguments": {}}') is None
            held[0][1].transport.abort()
            await asyncio.sleep(0.1)
            assert "result" in (
                await _send_line(control, b'{"command": "metrics", "arguments": {}}') or {}
            )
            for _, writer in held:
                writer.transport.abort()

    run_scenario(scenario)


def test_commands_with_any_arguments_get_a_response(run_scenario: RunScenario) -> None:
    """Every command is called with values of every kind.

    Commands are trusted: they may ask for more partitions than there is memory for.
    """
    names = ["", "hostile", "Produce", "NOT_CONTROLLER", "delay"]
    values: list[Any] = [None, True, -1, 0, 1, 5_000, *names, [], {}, {"retention.ms": "1"}]

    async def scenario(cluster: AsyncCluster) -> None:
        chance = random.Random(1)
        async with ControlServer(cluster) as control:
            for name, command in COMMANDS.items():
                _, *parameters = inspect.signature(command).parameters
                for _ in range(30):
                    arguments = {
                        each: chance.choice(values) for each in parameters if chance.random() < 0.8
                    }
                    if name == "create_topic" and arguments.get("partitions") == 2**40:
                        continue  # It would fill the memory: commands are trusted.
                    line = json.dumps({"command": name, "arguments": arguments}).encode()
                    answer = await _send_line(control, line)
                    assert answer is not None, line
            await _send_line(control, b'{"command": "clear_faults", "arguments": {}}')
            for node in range(2):
                for name, more in (
                    ("resume_replication", {}),
                    ("heal_node", {}),
                    ("set_latency", {"latency_ms": 0}),
                    ("restart", {}),
                ):
                    await _send_line(
                        control,
                        json.dumps({"command": name, "arguments": {"node": node} | more}).encode(),
                    )
        await asyncio.sleep(60)
        await check_clients_are_served(cluster)

    run_scenario(scenario)
