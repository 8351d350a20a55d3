"""Measures the long-poll service: how long after its event, or its timeout, each waiting client has its answer.

    python examples/long_poll.py 8080 &
    python examples/long_poll_load.py 8080 10000

So many clients wait, each on a connection of its own, a hundred on each topic. Every 50 ms one
topic gets an event, until half of the topics have had one; the other half run into their timeout.
An event's time is taken before the request that brings it is sent. All runs on one machine, so the
clients' own work is in the figures.
"""

from __future__ import annotations

import asyncio
import re
import sys
from statistics import median, quantiles
from time import perf_counter

PER_TOPIC = 100
TIMEOUT = 30.0


async def ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    body: str = "",
) -> int:
    """One request; the answer's status."""
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"Content-Length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split()[1])


async def measure(port: int, clients: int) -> None:
    """Run, and print milliseconds."""
    topics = max(clients // PER_TOPIC, 2)
    events: dict[int, float] = {}
    late: dict[int, list[float]] = {200: [], 204: []}

    async def wait(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began = perf_counter()
        status = await ask(reader, writer, "GET", f"/topics/{number % topics}?timeout={TIMEOUT}")
        late[status].append(
            (perf_counter() - (events[number % topics] if status == 200 else began + TIMEOUT))
            * 1000
        )
        writer.close()

    control = await asyncio.open_connection("127.0.0.1", port)
    tasks = []
    for number in range(clients):
        tasks.append(
            asyncio.create_task(wait(number, *await asyncio.open_connection("127.0.0.1", port)))
        )
        await asyncio.sleep(
            0.001
        )  # All at once, the service would be behind from the start, and each time-out as late as that.
    await asyncio.sleep(2.0)  # Until the last of them waits there, too.
    print(f"{clients} clients wait on {topics} topics")
    for topic in range(topics // 2):
        events[topic] = perf_counter()
        await ask(*control, "POST", f"/topics/{topic}", "event")
        await asyncio.sleep(0.05)
    await asyncio.gather(*tasks)
    control[1].close()
    for status, name in ((200, "after the event"), (204, "after the timeout")):
        found = late[status]
        cut = quantiles(found, n=100)
        print(
            f"{len(found)} answered {name}: median {median(found):.1f} ms, 99 % within {cut[98]:.1f} ms, last {max(found):.1f} ms"
        )


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000))
