"""Writes the responses of several connections together."""

from __future__ import annotations

import asyncio

#: The most bytes that wait; with a response beyond them, all are written at once.
MAX_UNSENT_BYTES = 262_144


class ResponseWriter:
    """Writes responses when the event loop has handled all that it had read.

    Between two requests, the system call that sends the first one's response and wakes its client
    would cost as much as the second request: handling it finds the processor's caches taken.
    """

    def __init__(self) -> None:
        self._unsent: dict[asyncio.Transport, list[bytes | bytearray]] = {}
        self._unsent_bytes = 0

    def add(self, transport: asyncio.Transport, frame: bytes | bytearray) -> None:
        """Write a frame soon, after those that were added before."""
        unsent = self._unsent.get(transport)
        if unsent is None:
            if not self._unsent:
                asyncio.get_running_loop().call_soon(self.flush)
            self._unsent[transport] = [frame]
        else:
            unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > MAX_UNSENT_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all frames now."""
        unsent, self._unsent = self._unsent, {}
        self._unsent_bytes = 0
        for transport, frames in unsent.items():
            self._write(transport, frames)

    def flush_one(self, transport: asyncio.Transport) -> None:
        """Write the frames of a connection now, before it is closed."""
        frames = self.drop(transport)
        if frames:
            self._write(transport, frames)

    def drop(self, transport: asyncio.Transport) -> list[bytes | bytearray]:
        """Forget the frames of a connection, which is lost, and return them."""
        frames = self._unsent.pop(transport, [])
        self._unsent_bytes -= sum(map(len, frames))
        return frames

    def _write(self, transport: asyncio.Transport, frames: list[bytes | bytearray]) -> None:
        transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
