"""What comes in at the port for commands, and is none."""

from __future__ import annotations

import asyncio
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
from request_purgatory.broker.cluster.commands import commands
from request_purgatory.broker.wire import apis
from tests.broker.hostile.client import is_served
from tests.broker.hostile.conftest import Attack
from tests.broker.hostile.requests import frame, sized


async def _say(control: ControlServer, line: bytes) -> dict[str, Any] | None:
    """What is answered to a line; None if the connection is ended instead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", control.port)
    try:
        writer.write(line + b"\n")
        answer = await reader.readline()
    except ConnectionError:
        return None
    finally:
        writer.transport.abort()
    return json.loads(answer) if answer else None


NO_COMMANDS = {
    "nothing": b"",
    "no JSON": b"GET / HTTP/1.1\r",
    "no text": b"\xff\xfe\xfd",
    "a frame": sized(frame(apis.API_VERSIONS, 0)),
    "null": b"null",
    "a list": b"[]",
    "no command": b"{}",
    "no arguments": b'{"command": "metrics"}',
    "a command that is none": b'{"command": ["metrics"], "arguments": {}}',
    "arguments that are none": b'{"command": "metrics", "arguments": [1]}',
    "nested without end": b"[" * 200_000,
    "a number that is none": b'{"command": "lag", "arguments": {"node": 0, "lag_ms": NaN}}',
    "an endless number": b'{"command": "lag", "arguments": {"node": 0, "lag_ms": -Infinity}}',
    "a broken number": b'{"command": "lag", "arguments": {"node": 0.5, "lag_ms": 1}}',
    "a number of ten thousand digits": b'{"command": "freeze", "arguments": {"node": '
    + b"9" * 10_000
    + b"}}",
    "a number of a thousand digits": b'{"command": "freeze", "arguments": {"node": '
    + b"9" * 1_000
    + b"}}",
    "a truth for a number": b'{"command": "freeze", "arguments": {"node": true}}',
    "a number for a name": b'{"command": "create_topic", "arguments": {"name": 5}}',
    "a number for a setting": b'{"command": "create_topic", "arguments": {"name": "t", "configs": {"retention.ms": 5}}}',
    "an argument that is none": b'{"command": "metrics", "arguments": {"node": 0}}',
}


@pytest.mark.parametrize("line", NO_COMMANDS.values(), ids=NO_COMMANDS)
def test_lines_that_are_no_commands_are_answered_so(attack: Attack, line: bytes) -> None:
    """With an error that says why."""

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            answer = await _say(control, line)
            assert answer is not None
            assert answer.keys() & {"error", "invalid"}, answer
            assert len(json.dumps(answer)) < 2_000
            assert "result" in (
                await _say(control, b'{"command": "metrics", "arguments": {}}') or {}
            )

    attack(scenario)


def test_line_without_an_end_ends_its_connection(attack: Attack) -> None:
    """Not the others."""

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            assert await _say(control, b"a" * (3 * MAX_LINE_BYTES)) is None
            assert "result" in (
                await _say(control, b'{"command": "bootstrap", "arguments": {}}') or {}
            )

    attack(scenario)


def test_connections_for_commands_are_so_many_at_a_time(attack: Attack) -> None:
    """One that ends leaves its place to another."""

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            held = [
                await asyncio.open_connection("127.0.0.1", control.port)
                for _ in range(MAX_CONNECTIONS)
            ]
            await asyncio.sleep(0.1)
            assert await _say(control, b'{"command": "metrics", "arguments": {}}') is None
            held[0][1].transport.abort()
            await asyncio.sleep(0.1)
            assert "result" in (
                await _say(control, b'{"command": "metrics", "arguments": {}}') or {}
            )
            for _, writer in held:
                writer.transport.abort()

    attack(scenario)


def test_commands_with_whatever_arguments_are_answered(attack: Attack) -> None:
    """Each of them, with values of every kind, whether they do something or not.

    They are trusted: a command may ask for more partitions than there is memory for, and have
    messages take for ever.
    """
    names = ["", "hostile", "Produce", "NOT_CONTROLLER", "delay"]
    values: list[Any] = [None, True, -1, 0, 1, 5_000, *names, [], {}, {"retention.ms": "1"}]

    async def scenario(cluster: AsyncCluster) -> None:
        chance = random.Random(1)
        async with ControlServer(cluster) as control:
            for name, parameters in _PARAMETERS.items():
                assert name in commands(cluster)
                for _ in range(30):
                    arguments = {
                        each: chance.choice(values) for each in parameters if chance.random() < 0.8
                    }
                    if name == "create_topic" and arguments.get("partitions") == 2**40:
                        continue  # A command is trusted: whoever gives it may fill the memory.
                    line = json.dumps({"command": name, "arguments": arguments}).encode()
                    answer = await _say(control, line)
                    assert answer is not None, line
            await _say(control, b'{"command": "clear_faults", "arguments": {}}')
            for node in range(2):
                for name, more in (
                    ("thaw", {}),
                    ("reconnect", {}),
                    ("lag", {"lag_ms": 0}),
                    ("restart", {}),
                ):
                    await _say(
                        control,
                        json.dumps({"command": name, "arguments": {"node": node} | more}).encode(),
                    )
        await asyncio.sleep(60)
        await is_served(cluster)

    attack(scenario)


_PARAMETERS = {
    "create_topic": ("name", "partitions", "replication_factor", "configs"),
    "describe": ("topic",),
    "freeze": ("node",),
    "thaw": ("node",),
    "lag": ("node", "lag_ms"),
    "cut_off": ("node",),
    "reconnect": ("node",),
    "kill": ("node",),
    "stop": ("node",),
    "restart": ("node",),
    "move_leader": ("topic", "partition", "node"),
    "fail_requests": ("api", "error", "times", "node"),
    "befall_responses": ("api", "kind", "times", "node", "delay_ms", "seed"),
}
