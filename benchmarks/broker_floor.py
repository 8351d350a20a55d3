"""What asyncio alone takes for the questions `broker_parked` and `broker_idle`.

The clients are the same, and the server answers with fixed bytes. So a broker on asyncio's loop
takes at least as long on the same machine.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from kafka.protocol.consumer import HeartbeatRequest

from benchmarks import peers
from benchmarks.broker_client import Connection, connect, encode_frame, fetch_frame, produce_frame
from benchmarks.broker_idle import HEARTBEAT_S, MAX_WAIT_MS
from benchmarks.broker_parked import allow_open_files, answer_parked
from benchmarks.broker_peers import RunningBroker, cpu_seconds
from benchmarks.question import Case

QUESTION = "broker_floor"
METRICS = {
    "cpu_us": "us",
    "idle_cpu": "%",
    "requests_per_second": "1/s",
    "answer_ms": "ms",
    "last_answer_ms": "ms",
}
SIDES = (peers.ASYNCIO,)

_TOPIC = "benchmark"
_OBSERVED_MS = 6_000
_GROUP_VERSION = 2


def cases(quick: bool) -> list[Case]:
    """Return the cases of the two questions with many connections."""
    counts = {"parked": 100, "idle": 50} if quick else {"parked": 10_000, "idle": 2_000}
    return [Case({"kind": kind, "count": count}, count) for kind, count in counts.items()]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - the only side does all
    """Return None."""
    return None


def measure(side: str, kind: str, count: int, ms: int = _OBSERVED_MS) -> dict[str, float]:
    """Measure a server that only reads and writes.

    Args:
        side: asyncio.
        kind: `parked`, to answer as many fetches at once, or `idle`, for as many consumers.
        count: The number of fetches or consumers.
        ms: Milliseconds for which consumers are observed.

    Returns:
        `cpu_us`, the server's processor time of a request, and the metrics of that question.
    """
    assert side == peers.ASYNCIO
    wait = "parked" if kind == "parked" else str(MAX_WAIT_MS)
    connections = count + 1 if kind == "parked" else 2 * count
    with allow_open_files(connections + 1_000), _running_server(wait) as server:
        measured = _parked(server, count) if kind == "parked" else _idle(server, count, ms / 1_000)
        return asyncio.run(measured)


@contextmanager
def _running_server(wait: str) -> Iterator[RunningBroker]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bare_server", wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield RunningBroker([f"127.0.0.1:{int(process.stdout.readline())}"], [process.pid])
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


async def _parked(server: RunningBroker, fetches: int) -> dict[str, float]:
    connections = [await connect(server.addresses[0]) for _ in range(fetches)]
    writer = await connect(server.addresses[0])
    frame = fetch_frame(_TOPIC, 0, 0, 60_000)
    parked = [connection.send(frame) for connection in connections]
    await asyncio.sleep(1)
    began_cpu = cpu_seconds(server.pids)
    half, last = await answer_parked(parked, writer, produce_frame(_TOPIC, 0, 100))
    cpu = (cpu_seconds(server.pids) - began_cpu) / fetches
    for connection in [*connections, writer]:
        connection.close()
    return {"cpu_us": cpu * 1e6, "answer_ms": half * 1e3, "last_answer_ms": last * 1e3}


async def _idle(server: RunningBroker, consumers: int, seconds: float) -> dict[str, float]:
    sent = [0]
    beat = HeartbeatRequest(group_id="group", generation_id=1, member_id="a" * 40)
    heartbeat = encode_frame(beat, _GROUP_VERSION)

    async def fetch(connection: Connection) -> None:
        frame = fetch_frame(_TOPIC, 0, 0, MAX_WAIT_MS)
        while True:
            await connection.send(frame)
            sent[0] += 1

    async def heartbeats(connection: Connection) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await connection.send(heartbeat)
            sent[0] += 1

    tasks = []
    for _ in range(consumers):
        tasks += [
            asyncio.create_task(fetch(await connect(server.addresses[0]))),
            asyncio.create_task(heartbeats(await connect(server.addresses[0]))),
        ]
    await asyncio.sleep(seconds / 3)
    before, began_cpu, began = sent[0], cpu_seconds(server.pids), perf_counter()
    await asyncio.sleep(seconds)
    observed, requests = perf_counter() - began, sent[0] - before
    cpu = cpu_seconds(server.pids) - began_cpu
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "cpu_us": cpu / requests * 1e6,
        "idle_cpu": cpu / observed * 100,
        "requests_per_second": requests / observed,
    }
