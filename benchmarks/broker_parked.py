"""A broker's parked fetches: what 10,000 of them cost while nothing happens, how soon an append answers all, and how many expire.

Each fetch has a connection of its own and waits for the same partition. `idle_cpu` is the broker's
processor time while all wait, in hundredths of a second for each second; `answer_ms` the time from
sending a record to the answer to half of them, `last_answer_ms` to all; `expiries_per_second` how
many fetches of a maximal wait of 0.5 s are answered, each sent again at once.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from benchmarks import peers
from benchmarks.broker_client import Link, connect, fetch_frame, make_topic, produce_frame
from benchmarks.broker_peers import cpu_seconds, running
from benchmarks.question import Case, NotApplicableError

QUESTION = "broker_parked"
METRICS = {"answer_ms": "ms", "last_answer_ms": "ms", "idle_cpu": "%", "expiries_per_second": "1/s"}
SIDES = (peers.OURS, peers.MOCK_CLUSTER, peers.KAFKA_BROKER)

_TOPIC = "benchmark"
_WATCHED_MS = 3_000
_PATIENCE_SECONDS = 20.0


def cases(quick: bool) -> list[Case]:
    """Few, or ten thousand."""
    return [
        Case({"fetches": fetches}, fetches) for fetches in ((100,) if quick else (1_000, 10_000))
    ]


def left_out(side: str, case: Case) -> str | None:  # noqa: ARG001 - every case is the same in this
    """Why librdkafka's mock is."""
    if side == peers.MOCK_CLUSTER:
        return "an append wakes no fetch that is parked in it: each waits for its own time to end (librdkafka 2.16)"
    return None


def measure(side: str, fetches: int, ms: int = _WATCHED_MS) -> dict[str, float]:
    """Park fetches, answer them, and let them expire.

    Args:
        side: One of `SIDES`.
        fetches: How many are parked, each on a connection of its own.
        ms: How long idling and expiring are watched, each; a fetch that is to expire waits for a
            sixth of it.

    Returns:
        All metrics.

    Raises:
        NotApplicableError: This process may not have as many files.
        RuntimeError: A fetch was answered before there was anything to read.
    """
    # Our broker takes no more connections than three quarters of the files that it may have.
    with _open_files(fetches * 3 // 2 + 1_000), running(side, 1) as broker:
        return asyncio.run(_measure(broker.addresses, broker.pids, fetches, ms / 1_000))


@contextmanager
def _open_files(needed: int) -> Iterator[None]:
    """Allow this process, and those that it starts, that many files while the block runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise NotApplicableError(f"{needed} files are needed, {hard} allowed")
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _measure(
    addresses: list[str], pids: list[int], fetches: int, watched: float
) -> dict[str, float]:
    leader = await make_topic(addresses, _TOPIC, 1)
    links = [await connect(leader) for _ in range(fetches)]
    writer = await connect(leader)
    record = produce_frame(_TOPIC, 0, 100)

    parked = [link.ask(fetch_frame(_TOPIC, 0, 0, 60_000)) for link in links]
    await asyncio.sleep(watched / 3)
    began_cpu, began = cpu_seconds(pids), perf_counter()
    await asyncio.sleep(watched)
    idle = (cpu_seconds(pids) - began_cpu) / (perf_counter() - began)
    if any(each.done() for each in parked):
        raise RuntimeError("a fetch was answered before there was anything to read")

    answered: list[float] = []
    for each in parked:
        each.add_done_callback(lambda _: answered.append(perf_counter()))
    began = perf_counter()
    await writer.ask(record)
    await asyncio.wait_for(asyncio.gather(*parked), _PATIENCE_SECONDS)
    answered.sort()
    half, last = answered[len(answered) // 2] - began, answered[-1] - began

    expired = await _expire(links, watched)
    for link in [*links, writer]:
        link.close()
    return {
        "answer_ms": half * 1e3,
        "last_answer_ms": last * 1e3,
        "idle_cpu": idle * 100,
        "expiries_per_second": expired / watched,
    }


async def _expire(links: list[Link], seconds: float) -> int:
    """Return how many fetches run out of their time within `seconds`."""
    request = fetch_frame(_TOPIC, 0, 1, round(seconds * 1_000 / 6))
    until = perf_counter() + seconds

    async def wait(link: Link) -> int:
        count = 0
        while perf_counter() < until:
            await link.ask(request)
            count += perf_counter() < until
        return count

    return sum(await asyncio.gather(*(wait(link) for link in links)))
