"""A bare asyncio server: it answers with fixed bytes, and does nothing else a broker does.

A Fetch request is answered after a time, or by the next request of another kind. All others are
answered at once.
"""

from __future__ import annotations

import asyncio
import struct
import sys

from benchmarks.broker_client import FETCH_API_KEY
from purgatory_broker.cluster.async_cluster import collecting_less

_REQUEST = struct.Struct(">ihhi")
_RESPONSE = struct.Struct(">ii")
#: As long as the broker's response to a fetch of a record of 100 bytes.
_BODY = bytes(241)
_READ_BYTES = 262_144


class _Connection(asyncio.BufferedProtocol):
    _read = memoryview(bytearray(_READ_BYTES))

    def __init__(
        self, wait_s: float | None, parked: list[tuple[asyncio.WriteTransport, bytes]]
    ) -> None:
        self._wait_s = wait_s
        self._parked = parked
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read for one request: a client has one in flight, of less than a packet."""
        assert self._transport is not None
        frame = bytes(self._read[:nbytes])
        _, api_key, _, correlation_id = _REQUEST.unpack_from(frame)
        response = _RESPONSE.pack(4 + len(_BODY), correlation_id) + _BODY
        if api_key != FETCH_API_KEY:
            self._transport.write(response)
            for transport, waiting in self._parked:
                transport.write(waiting)
            self._parked.clear()
        elif self._wait_s is None:
            self._parked.append((self._transport, response))
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(self._wait_s, self._transport.write, response)


async def _serve(wait_s: float | None) -> None:
    parked: list[tuple[asyncio.WriteTransport, bytes]] = []
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(wait_s, parked), "127.0.0.1", 0, backlog=1_024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    with collecting_less():
        asyncio.run(_serve(None if sys.argv[1] == "parked" else int(sys.argv[1]) / 1_000))
