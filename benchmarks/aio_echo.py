"""An echo server on an event loop, each request under a timeout of its own.

Server and clients share one loop and process, over TCP on this machine. Each of `clients`
connections sends 64 bytes, waits until they return, and repeats. The server reads under
`asyncio.timeout(30)`, and so does the client: two timers are set and cancelled for each request, as
in services with timeouts. No other timer is pending.

asyncio's transports read into a new buffer of 256 KiB each time. Whether glibc returns that memory
to the system immediately depends on its place in the heap, and doubles the cost of a request. Every
side therefore tells the allocator to keep freed memory, so that this chance does not decide the
comparison.
"""

from __future__ import annotations

import asyncio
import ctypes
from contextlib import closing
from time import perf_counter, process_time

from benchmarks import peers
from benchmarks.question import Case
from benchmarks.stopwatch import ns_after_gc

QUESTION = "aio_echo"
METRICS = {"per_second": "1/s", "cpu_us": "\N{MICRO SIGN}s"}
SIDES = (peers.OURS, peers.ASYNCIO, peers.UVLOOP)

_MESSAGE = bytes(64)
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def cases(quick: bool) -> list[Case]:
    """Return a case with some connections and one with many."""
    return [Case({"clients": clients}, clients) for clients in ((10,) if quick else (50, 500))]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def prepare_process() -> None:
    """Tell the allocator to keep freed memory; this cannot be undone in the process."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc
        mallopt(_M_TRIM_THRESHOLD, 64 * 2**20)
        mallopt(_M_MMAP_THRESHOLD, 16 * 2**20)


def measure(side: str, clients: int, requests: int = 30_000) -> dict[str, float]:
    """Measure requests answered per second and processor time per request.

    The processor time includes server and client. It depends less on other processes than the rate.
    """
    with closing(peers.open_loop(side)) as loop:
        return loop.run_until_complete(_echo(clients, requests // clients))


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            async with asyncio.timeout(30):
                message = await reader.readexactly(len(_MESSAGE))
            writer.write(message)
    except asyncio.IncompleteReadError:
        writer.close()
        await writer.wait_closed()


async def _request(host: str, port: int, requests: int, go: asyncio.Event) -> int:
    reader, writer = await asyncio.open_connection(host, port)
    await go.wait()
    answered = 0
    for _ in range(requests):
        async with asyncio.timeout(30):
            writer.write(_MESSAGE)
            answered += await reader.readexactly(len(_MESSAGE)) == _MESSAGE
    writer.close()
    await writer.wait_closed()
    return answered


async def _echo(clients: int, requests: int) -> dict[str, float]:
    served: list[asyncio.Task[None]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.create_task(_serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    go = asyncio.Event()
    clients_done = [asyncio.create_task(_request(host, port, requests, go)) for _ in range(clients)]
    await asyncio.sleep(0.2)
    ns_after_gc()
    began, began_cpu = perf_counter(), process_time()
    go.set()
    answered = sum(await asyncio.gather(*clients_done))
    elapsed, cpu = perf_counter() - began, process_time() - began_cpu
    server.close()
    await asyncio.gather(*served)
    if answered != clients * requests:
        raise RuntimeError(f"{answered} of {clients * requests} requests were answered")
    return {"per_second": answered / elapsed, "cpu_us": cpu / answered * 1e6}
