"""The examples, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TIME_LIMIT = 120.0
#: Seconds that a service may take to stop: less than aiohttp waits for its handlers (60).
STOP_LIMIT = 30.0


def load(name: str) -> ModuleType:
    """Import an example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, TIME_LIMIT))


# -- the RPC client


def with_client(scenario: Any) -> None:
    """Run `scenario(client)` against the example's server."""
    rpc = load("rpc")

    async def main() -> None:
        server = await asyncio.start_server(rpc.serve, "127.0.0.1", 0)
        async with rpc.RpcClient(*server.sockets[0].getsockname()[:2]) as client:
            await scenario(rpc, client)
        server.close()

    run(main())


def test_calls_are_matched_to_replies_and_timeouts() -> None:
    async def scenario(_rpc: Any, client: Any) -> None:
        quick = [client.call("sleep", number % 7 / 1_000, timeout=60) for number in range(1_000)]
        added = [client.call("add", number, number, timeout=60) for number in range(900)]
        slow = [client.call("sleep", 3_600, timeout=0.05) for _ in range(100)]
        outcomes = await asyncio.gather(*quick, *added, *slow, return_exceptions=True)
        assert outcomes[:1_000] == [number % 7 / 1_000 for number in range(1_000)]
        assert outcomes[1_000:1_900] == [2 * number for number in range(900)]
        assert Counter(type(outcome) for outcome in outcomes[1_900:]) == {TimeoutError: 100}
        assert client.pending == 0

    with_client(scenario)


def test_failing_call_is_an_error_of_its_own() -> None:
    async def scenario(rpc: Any, client: Any) -> None:
        with pytest.raises(rpc.RpcError, match="unknown method 'fly'"):
            await client.call("fly", timeout=60)
        with pytest.raises(rpc.RpcError):
            await client.call("add", "x", timeout=60)
        assert await client.call("add", 1, 2, timeout=60) == 3

    with_client(scenario)


def test_lost_connection_fails_all_pending_calls_at_once() -> None:
    async def scenario(_rpc: Any, client: Any) -> None:
        pending = [
            asyncio.create_task(client.call("sleep", 3_600, timeout=3_600)) for _ in range(10)
        ]
        with pytest.raises(ConnectionError):
            await client.call("hang_up", timeout=60)
        outcomes = await asyncio.gather(*pending, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ConnectionError}
        with pytest.raises(ConnectionError):
            await client.call("add", 1, 2, timeout=60)

    with_client(scenario)


def test_rpc_example_runs_as_it_says() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "rpc.py"],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=True,
    )
    assert "'float': 900" in done.stdout
    assert "'TimeoutError': 100" in done.stdout
    assert "100 replies came too late, 0 calls are pending" in done.stdout


# -- the long-poll service


@contextlib.contextmanager
def long_poll_process() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run the service as a script; give its port and its process."""
    pytest.importorskip("aiohttp")
    process = subprocess.Popen(
        [sys.executable, "-u", EXAMPLES / "long_poll.py", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r":(\d+)", line)
        assert found is not None, line
        yield int(found[1]), process
    finally:
        process.terminate()
        assert process.wait(TIME_LIMIT) is not None
        assert process.stdout is not None
        process.stdout.close()


@contextlib.contextmanager
def long_poll_service() -> Iterator[int]:
    """Give the port of the service, which runs as a script in a process of its own."""
    with long_poll_process() as (port, _process):
        yield port


class Http:
    """One connection, as a client with no library would have it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> Http:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, method: str, path: str, body: str = "") -> None:
        self.writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )

    async def answer(self) -> tuple[int, Any]:
        """Status, and the body's JSON."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"Content-Length: (\d+)", head, re.IGNORECASE)
        body = await self.reader.readexactly(int(length[1])) if length else b""
        status = int(head.split()[1])
        return status, json.loads(body) if body and status == 200 else body.decode()

    async def ask(self, method: str, path: str, body: str = "") -> tuple[int, Any]:
        self.send(method, path, body)
        return await self.answer()


async def until_waiting(http: Http, count: int) -> None:
    """Ask the service until so many clients wait there."""
    waiting = -1
    while waiting != count:
        waiting = (await http.ask("GET", "/waiting"))[1]["waiting"]


def test_waiting_client_is_answered_by_its_event_or_its_timeout() -> None:
    async def scenario(port: int) -> None:
        http, waiter = await Http.open(port), await Http.open(port)
        assert await http.ask("GET", "/topics/a?timeout=0.05") == (204, "")
        waiter.send("GET", "/topics/a?timeout=60")
        await until_waiting(http, 1)
        assert await http.ask("POST", "/topics/b", "other") == (200, {"number": 0})
        assert await http.ask("POST", "/topics/a", "first") == (200, {"number": 0})
        assert await waiter.answer() == (200, {"events": ["first"], "next": 1})
        assert await waiter.ask("GET", "/topics/a?after=0") == (
            200,
            {"events": ["first"], "next": 1},
        )
        waiter.send("GET", "/topics/a?after=1&timeout=60")
        await until_waiting(http, 1)
        waiter.writer.close()
        await until_waiting(http, 0)
        assert (await http.ask("GET", "/waiting"))[1]["hung_up"] == 1
        for query in ("after=x", "after=-1", "timeout=-1", "timeout=1e9", "timeout=nan"):
            status, message = await http.ask("GET", f"/topics/a?{query}")
            assert status == 400
            assert query.split("=")[1].lower() in message.lower().replace("1000000000.0", "1e9")
        http.writer.close()

    with long_poll_service() as port:
        run(scenario(port))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to stop in good order for")
def test_stopping_answers_held_clients_at_once() -> None:
    async def scenario(port: int, process: subprocess.Popen[str]) -> None:
        http, *waiters = [await Http.open(port) for _ in range(4)]
        for topic, waiter in enumerate(waiters):
            waiter.send("GET", f"/topics/{topic}?timeout=300")
        await until_waiting(http, len(waiters))
        process.terminate()
        async with asyncio.timeout(STOP_LIMIT):
            assert [await waiter.answer() for waiter in waiters] == [
                (503, "the service is stopping")
            ] * len(waiters)
        for each in [http, *waiters]:
            each.writer.close()

    with long_poll_process() as (port, process):
        run(scenario(port, process))
        assert process.wait(STOP_LIMIT) == 0
        assert process.stdout is not None
        assert "Error" not in process.stdout.read()


@pytest.mark.parametrize(
    ("clients", "timeout"), [(1_000, 2), pytest.param(10_000, 10, marks=pytest.mark.slow)]
)
def test_thousands_of_clients_wait_at_once(clients: int, timeout: int) -> None:
    """On 100 topics.

    Those of every second topic are answered by its event, the others at their timeout. Each gets
    its own.
    """
    pytest.importorskip("resource")
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < clients + 200:
        clients = max((hard - 200) // 100 * 100, 100)
    if soft != resource.RLIM_INFINITY and soft < clients + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (clients + 200, hard))

    async def scenario(port: int) -> None:
        http = await Http.open(port)
        waiters: list[Http] = []
        for _ in range(clients // 100):
            waiters += await asyncio.gather(*[Http.open(port) for _ in range(100)])
        for number, waiter in enumerate(waiters):
            topic = number % 100
            waiter.send("GET", f"/topics/{topic}?timeout={100 if topic % 2 == 0 else timeout}")
        # Some may be at their timeout before the last one has come, on a slow machine.
        there = 0
        while there != clients:
            counts = (await http.ask("GET", "/waiting"))[1]
            there = counts["waiting"] + counts["timed_out"]
        for topic in range(0, 100, 2):
            await http.ask("POST", f"/topics/{topic}", f"event of {topic}")
        answers = await asyncio.gather(*[waiter.answer() for waiter in waiters])
        for number, answer in enumerate(answers):
            topic = number % 100
            assert answer == (
                (200, {"events": [f"event of {topic}"], "next": 1}) if topic % 2 == 0 else (204, "")
            )
        found = (await http.ask("GET", "/waiting"))[1]
        assert found == {
            "waiting": 0,
            "answered": clients // 2,
            "timed_out": clients // 2,
            "hung_up": 0,
        }
        for each in [http, *waiters]:
            each.writer.close()

    with long_poll_service() as port:
        run(scenario(port))
