"""Measure the latency of the long-poll service's responses after events and timeouts.

    python examples/long_poll.py 8080 &
    python examples/long_poll_load.py 8080 10000

10,000 clients wait, each on its own connection, a hundred for each topic. Every 50 ms one topic
gets an event, until half of the topics have had one. The clients of the other half time out. The
latency begins before the request with the event is sent. Service and clients share one machine, so
the clients' own work is included.
"""

from __future__ import annotations

import asyncio
import re
import sys
from statistics import median, quantiles
from time import perf_counter

PER_TOPIC = 100
TIMEOUT = 30.0


async def send_request(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    body: str = "",
) -> int:
    """Send a request and read the response.

    Args:
        reader: The connection.
        writer: The connection.
        method: The HTTP method.
        path: Path and query.
        body: The request's body.

    Returns:
        The response's status.
    """
    lines = (f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", "")
    writer.write("\r\n".join((*lines, body)).encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"Content-Length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split()[1])


async def measure(port: int, clients: int) -> None:
    """Run the measurement and print latencies in milliseconds.

    Args:
        port: The service's port on this machine.
        clients: Number of waiting clients.
    """
    topics = max(clients // PER_TOPIC, 2)
    events: dict[int, float] = {}
    latencies: dict[int, list[float]] = {200: [], 204: []}

    async def wait(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began = perf_counter()
        status = await send_request(
            reader, writer, "GET", f"/topics/{number % topics}?timeout={TIMEOUT}"
        )
        latencies[status].append(
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
        # A burst of connections would delay the service, and with it all timeouts.
        await asyncio.sleep(0.001)
    await asyncio.sleep(2.0)  # Until the service has received the last request.
    print(f"{clients} clients wait on {topics} topics")
    for topic in range(topics // 2):
        events[topic] = perf_counter()
        await send_request(*control, "POST", f"/topics/{topic}", "event")
        await asyncio.sleep(0.05)
    await asyncio.gather(*tasks)
    control[1].close()
    for status, name in ((200, "after the event"), (204, "after the timeout")):
        found = latencies[status]
        p99 = quantiles(found, n=100)[98]
        print(
            f"{len(found)} responses {name}: median {median(found):.1f} ms, "
            f"p99 {p99:.1f} ms, maximum {max(found):.1f} ms"
        )


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000))
