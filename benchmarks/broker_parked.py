"""Parked fetches of a broker: their idle cost, the time to answer all, and how many expire.

Each fetch has a connection of its own and waits for the same partition. `idle_cpu` is the broker's
processor time while all wait, in percent of one core. `answer_ms` is the time from sending a record
until half of the fetches are answered, `last_answer_ms` until all are. `expiries_per_second` is the
number of fetches with a maximum wait of 0.5 s that are answered, each sent again immediately.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from benchmarks import peers
from benchmarks.broker_client import Connection, connect, create_topic, fetch_frame, produce_frame
from benchmarks.broker_peers import cpu_seconds, running_broker
from benchmarks.question import Case, NotApplicableError

QUESTION = "broker_parked"
METRICS = {"answer_ms": "ms", "last_answer_ms": "ms", "idle_cpu": "%", "expiries_per_second": "1/s"}
SIDES = (peers.OURS, peers.MOCK_CLUSTER, peers.KAFKA_BROKER)

_TOPIC = "benchmark"
_OBSERVED_MS = 3_000
_TIMEOUT_S = 20.0


def cases(quick: bool) -> list[Case]:
    """Return cases with few and with ten thousand fetches."""
    return [
        Case({"fetches": fetches}, fetches) for fetches in ((100,) if quick else (1_000, 10_000))
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - the same for every case
    """Return the reason for librdkafka's mock cluster."""
    if side == peers.MOCK_CLUSTER:
        return (
            "an append wakes no fetch that is parked in it: each waits for its own time to end "
            "(librdkafka 2.16)"
        )
    return None


def measure(side: str, fetches: int, ms: int = _OBSERVED_MS) -> dict[str, float]:
    """Park fetches, answer them, and let them expire.

    Args:
        side: One of `SIDES`.
        fetches: The number of fetches, each on a connection of its own.
        ms: Milliseconds for which idling and expiring are observed, each; a fetch that is to expire
            waits for a sixth of them.

    Returns:
        All metrics.

    Raises:
        NotApplicableError: This process may not open enough files.
        RuntimeError: A fetch was answered before there was anything to read.
    """
    # Our broker accepts connections for at most three quarters of its open files limit.
    with allow_open_files(fetches * 3 // 2 + 1_000), running_broker(side, 1) as broker:
        return asyncio.run(_measure(broker.addresses, broker.pids, fetches, ms / 1_000))


@contextmanager
def allow_open_files(needed: int) -> Iterator[None]:
    """Allow this process and its children to open that many files while the block runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise NotApplicableError(f"needs {needed} open files, and the limit is {hard}")
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _measure(
    addresses: list[str], pids: list[int], fetches: int, observed: float
) -> dict[str, float]:
    leader = await create_topic(addresses, _TOPIC, 1)
    connections = [await connect(leader) for _ in range(fetches)]
    writer = await connect(leader)
    record = produce_frame(_TOPIC, 0, 100)

    parked = [connection.send(fetch_frame(_TOPIC, 0, 0, 60_000)) for connection in connections]
    await asyncio.sleep(observed / 3)
    began_cpu, began = cpu_seconds(pids), perf_counter()
    await asyncio.sleep(observed)
    idle = (cpu_seconds(pids) - began_cpu) / (perf_counter() - began)
    if any(each.done() for each in parked):
        raise RuntimeError("a fetch was answered before there was anything to read")

    half, last = await answer_parked(parked, writer, record)
    expired = await _expire(connections, observed)
    for connection in [*connections, writer]:
        connection.close()
    return {
        "answer_ms": half * 1e3,
        "last_answer_ms": last * 1e3,
        "idle_cpu": idle * 100,
        "expiries_per_second": expired / observed,
    }


async def answer_parked(
    parked: list[asyncio.Future[bytes]], writer: Connection, record: bytes
) -> tuple[float, float]:
    """Return the seconds from sending a record until half of the fetches are answered, and all."""
    answered: list[float] = []
    for each in parked:
        each.add_done_callback(lambda _: answered.append(perf_counter()))
    began = perf_counter()
    await writer.send(record)
    await asyncio.wait_for(asyncio.gather(*parked), _TIMEOUT_S)
    answered.sort()
    return answered[len(answered) // 2] - began, answered[-1] - began


async def _expire(connections: list[Connection], seconds: float) -> int:
    """Return the number of fetches that expire within `seconds`."""
    request = fetch_frame(_TOPIC, 0, 1, round(seconds * 1_000 / 6))
    until = perf_counter() + seconds

    async def wait(connection: Connection) -> int:
        count = 0
        while perf_counter() < until:
            await connection.send(request)
            count += perf_counter() < until
        return count

    return sum(await asyncio.gather(*(wait(connection) for connection in connections)))
