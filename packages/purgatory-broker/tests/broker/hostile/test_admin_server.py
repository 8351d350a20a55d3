"""Input to the control server that is no command, and more connections than it has room for."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import json
import random
import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker.cluster._commands.cluster_commands import COMMANDS
from purgatory_broker.cluster.admin_server import (
    MAX_CONNECTIONS,
    MAX_LINE_BYTES,
    ControlClient,
    ControlServer,
)
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.cluster.cluster_errors import ClusterError
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


async def _exchange(control: ControlServer, *parts: bytes) -> bytes:
    """Send parts one after the other, and return all that comes until the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", control.port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.001)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


RESET = _command(b"reset", b"{}") + b"\n"


def _post(host: bytes = b"127.0.0.1:9091", content_type: bytes = b"text/plain") -> bytes:
    """Return what a browser sends for a page that has commands in the body of its request."""
    body = RESET * 3
    return (
        b"POST / HTTP/1.1\r\nHost: %s\r\nOrigin: http://elsewhere.example\r\n"
        b"Content-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
    ) % (host, content_type, len(body), body)


def _client_hello() -> bytes:
    """Return the first bytes of a TLS connection, with a command between two ends of lines."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["\n" + RESET.decode()])
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    hello = outgoing.read()
    assert b"\n" + RESET in hello
    return hello


FOREIGN = {
    "page's POST": [_post()],
    "page's POST, in parts": [_post()[:40], _post()[40:150], _post()[150:]],
    "byte by byte": [bytes([byte]) for byte in _post()],
    "rebound name": [_post(host=b"elsewhere.example:9091")],
    "form": [_post(content_type=b"multipart/form-data; boundary=x")],
    "path with a command": [b"GET /" + RESET.strip().replace(b" ", b"") + b" HTTP/1.1\r\n\r\n"],
    "empty line before the command": [b"\r\n" + RESET],
    "TLS": [_client_hello()],
    "JSON that is no command": [b"[]\n", RESET],
    "JSON in UTF-16": [("{}\n" + RESET.decode()).encode("utf-16")],
}


@pytest.mark.parametrize("parts", FOREIGN.values(), ids=FOREIGN)
def test_first_line_that_is_no_command_ends_the_connection(
    run_scenario: RunScenario, parts: list[bytes], tmp_path: Path
) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        before = sorted(tmp_path.glob("*/*"))
        async with ControlServer(cluster) as control:
            printed = await _exchange(control, *parts)
            assert printed.count(b"\n") <= 1
            assert b"result" not in printed
            assert list(cluster.controller.topics) == topics
            assert sorted(tmp_path.glob("*/*")) == before
            answer = await _send_line(control, _command(b"delete_topic", b'{"name": "hostile"}'))
            assert answer == {"result": None}

    topics = ["hostile", "__consumer_offsets"]
    run_scenario(scenario, data_dir=tmp_path)


def test_post_of_an_http_client_runs_no_command(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:

            def post() -> None:
                with closing(http.client.HTTPConnection("127.0.0.1", control.port, 10)) as page:
                    page.request("POST", "/", RESET * 100, {"Content-Type": "text/plain"})
                    page.getresponse()

            with pytest.raises((http.client.HTTPException, ConnectionError)):
                await asyncio.to_thread(post)
            assert list(cluster.controller.topics) == ["hostile", "__consumer_offsets"]

    run_scenario(scenario)


def test_refused_commands_leave_the_connection_open(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            reader, writer = await asyncio.open_connection("127.0.0.1", control.port)
            for name, arguments, key in (
                (b"telepathy", b"{}", "error"),
                (b"kill", b'{"node": 7}', "invalid"),
                (b"kill", b'{"node": "0"}', "invalid"),
                (b"kill", b"{}", "error"),
                (b"metrics", b"{}", "result"),
            ):
                writer.write(_command(name, arguments) + b"\n")
                assert key in json.loads(await reader.readline())
            writer.transport.abort()

    run_scenario(scenario)


def test_endless_line_closes_its_connection(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            answer = await _send_line(control, b"a" * (3 * MAX_LINE_BYTES))
            assert answer is None or "longer than" in answer["error"]
            assert "result" in (
                await _send_line(control, b'{"command": "bootstrap_servers", "arguments": {}}')
                or {}
            )

    run_scenario(scenario)


METRICS = b'{"command": "metrics", "arguments": {}}\n'
WAIT = b'{"command": "wait_for", "arguments": {"records": ["hostile", 1], "timeout": 1000}}\n'


async def _open(control: ControlServer, line: bytes) -> tuple[asyncio.StreamReader, Any]:
    """Open a connection that has sent a command."""
    reader, writer = await asyncio.open_connection("127.0.0.1", control.port)
    writer.write(line)
    return reader, writer


def test_connection_that_is_idle_the_longest_makes_room(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            held = [await _open(control, METRICS) for _ in range(MAX_CONNECTIONS)]
            for reader, _ in held:
                assert "result" in json.loads(await reader.readline())
            held[0][1].write(METRICS)
            assert "result" in json.loads(await held[0][0].readline())
            held[3][1].write(b'{"command":')  # It has not sent a command.
            assert "result" in (await _send_line(control, METRICS.strip()) or {})
            reader, _ = held[1]
            assert json.loads(await reader.readline())["closed"]
            assert await reader.read() == b""
            for number in (0, 2):
                held[number][1].write(METRICS)
                assert "result" in json.loads(await held[number][0].readline())
            for _, writer in held:
                writer.transport.abort()

    run_scenario(scenario)


def test_connection_beyond_those_that_run_commands_is_told_so(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            held = [await _open(control, WAIT) for _ in range(MAX_CONNECTIONS)]
            while cluster.waits.purgatory.num_delayed < MAX_CONNECTIONS:
                await asyncio.sleep(0.01)

            def call() -> None:
                with closing(ControlClient(control.address)) as client:
                    client.call("metrics", {})

            with pytest.raises(ClusterError, match="metrics: 32 control connections run commands"):
                await asyncio.to_thread(call)
            cluster.waits.purgatory.close()
            for reader, writer in held:
                assert "error" in json.loads(await reader.readline())
                writer.transport.abort()
            await asyncio.to_thread(call)

    run_scenario(scenario)


@pytest.mark.parametrize("sent", [WAIT, WAIT + METRICS, WAIT + METRICS[:9]])
def test_command_that_waits_ends_with_its_connection(
    run_scenario: RunScenario, sent: bytes
) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            for _ in range(MAX_CONNECTIONS + 1):
                _, writer = await _open(control, sent)
                while not cluster.waits.purgatory.num_delayed:
                    await asyncio.sleep(0.01)
                writer.close()
                while cluster.waits.purgatory.num_delayed:
                    await asyncio.sleep(0.01)
            assert "result" in (await _send_line(control, METRICS.strip()) or {})

    run_scenario(scenario)


def test_change_goes_on_without_its_connection(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset that ended half way would leave nodes stopped."""
    began, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def change(_cluster: AsyncCluster) -> None:
        began.set()
        await go_on.wait()
        ended.set()

    monkeypatch.setitem(COMMANDS, "reset", change)

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            _, writer = await _open(control, RESET)
            await began.wait()
            writer.close()
            await asyncio.sleep(0.1)
            go_on.set()
            await asyncio.wait_for(ended.wait(), 10)

    run_scenario(scenario)


def test_new_client_whose_connection_made_room_connects_again(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            client = await asyncio.to_thread(ControlClient, control.address)
            held = [await _open(control, METRICS) for _ in range(MAX_CONNECTIONS)]
            for reader, _ in held:
                assert "result" in json.loads(await reader.readline())
            assert await asyncio.to_thread(client.call, "bootstrap_servers", {})
            client.close()
            for _, writer in held:
                writer.transport.abort()

    run_scenario(scenario)


def test_client_connects_again_when_its_idle_connection_made_room(
    run_scenario: RunScenario,
) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            client = await asyncio.to_thread(ControlClient, control.address)
            assert await asyncio.to_thread(client.call, "bootstrap_servers", {})
            held = [await _open(control, METRICS) for _ in range(MAX_CONNECTIONS)]
            for reader, _ in held:
                assert "result" in json.loads(await reader.readline())
            assert await asyncio.to_thread(client.call, "bootstrap_servers", {})
            client.close()
            for _, writer in held:
                writer.transport.abort()

    run_scenario(scenario)


def test_answer_to_an_interrupted_command_is_not_taken_for_the_next_one(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseException):
        """What a signal handler raises."""

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            client = await asyncio.to_thread(ControlClient, control.address)
            await asyncio.to_thread(client.call, "create_topic", {"name": "t"})

            def interrupt() -> bytes:
                raise Interrupted

            with monkeypatch.context() as patched:
                patched.setattr(client, "_read_line", interrupt)
                with pytest.raises(Interrupted):
                    client.call("describe_topic", {"topic": "t"})
            assert (
                await asyncio.to_thread(
                    client.call, "high_watermark", {"topic": "t", "partition": 0}
                )
                == 0
            )
            client.close()
            with pytest.raises(ClusterError, match="the connection was closed"):
                client.call("high_watermark", {"topic": "t", "partition": 0})

    run_scenario(scenario)


def test_client_refuses_a_command_that_is_too_long(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            client = await asyncio.to_thread(ControlClient, control.address)
            with closing(client), pytest.raises(ClusterError, match=r"create_topic: .*1,048,576"):
                await asyncio.to_thread(client.call, "create_topic", {"name": "a" * MAX_LINE_BYTES})

    run_scenario(scenario)


def test_failure_of_a_command_is_told(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_cluster: AsyncCluster) -> None:
        raise AssertionError("an invariant")

    monkeypatch.setitem(COMMANDS, "metrics", fail)

    async def scenario(cluster: AsyncCluster) -> None:
        async with ControlServer(cluster) as control:
            client = await asyncio.to_thread(ControlClient, control.address)
            with closing(client), pytest.raises(ClusterError, match="metrics: AssertionError: an"):
                await asyncio.to_thread(client.call, "metrics", {})

    with pytest.raises(AssertionError, match="metrics failed"):  # It is logged as an error.
        run_scenario(scenario)


def test_commands_with_any_arguments_get_a_response(run_scenario: RunScenario) -> None:
    names = ["", "hostile", "Produce", "NOT_CONTROLLER", "delay"]
    values: list[Any] = [None, True, -1, 0, 1, 2_000, 2**40, *names, [], {}, {"retention.ms": "1"}]

    async def scenario(cluster: AsyncCluster) -> None:
        chance = random.Random(1)
        async with ControlServer(cluster) as control:
            for name, command in COMMANDS.items():
                _, *parameters = inspect.signature(command).parameters
                for _ in range(30):
                    arguments = {
                        each: chance.choice(values) for each in parameters if chance.random() < 0.8
                    }
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
