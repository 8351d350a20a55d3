"""The bytes that a connection has received, and the frames in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from purgatory_broker._wire.messages import SIZE_BYTES, frame_size
from purgatory_broker.server.memory_limits import RequestMemoryPool

#: The bytes that are buffered while a request is handled, before the connection stops reading.
#: Every connection may buffer these, and one read of the event loop. Requests up to this size
#: therefore need no memory of the pool.
READ_AHEAD_BYTES = 65_536


@dataclass(slots=True, eq=False)
class FrameBuffer:
    """Has at most one frame's memory of the pool, until the frame's request is answered."""

    pool: RequestMemoryPool
    now_ms: Callable[[], int]
    _data: bytearray = field(default_factory=bytearray)
    #: The size of the frame that is being received; -1 between frames.
    _frame_size: int = -1
    _allocated_bytes: int = 0
    #: The time since which a frame is incomplete only because its client does not send it.
    _receiving_since_ms: int | None = None

    def add(self, data: memoryview) -> None:
        self._data += data

    def next_frame(self, max_bytes: int, resume: Callable[[], None]) -> bytes | None:
        """Return the next frame; None if it is incomplete or the pool has no memory for it.

        `resume` is called when the pool has memory again.

        Raises:
            WireError: The frame is larger than `max_bytes`, or has no size.
        """
        data = self._data
        if not data:
            return None
        if self._frame_size < 0:
            if len(data) < SIZE_BYTES:
                self._await_bytes()
                return None
            self._frame_size = frame_size(data, max_bytes)
        if not self._allocated_bytes and self._frame_size > READ_AHEAD_BYTES:
            if not self.pool.try_allocate(self._frame_size):
                self._receiving_since_ms = None
                self.pool.wait(resume)
                return None
            self._allocated_bytes = self._frame_size
        end = SIZE_BYTES + self._frame_size
        if len(data) < end:
            self._await_bytes()
            return None
        frame = bytes(memoryview(data)[SIZE_BYTES:end])
        del data[:end]
        self._frame_size = -1
        self._receiving_since_ms = None
        return frame

    def _await_bytes(self) -> None:
        if self._receiving_since_ms is None:
            self._receiving_since_ms = self.now_ms()

    def is_receiving_too_long(self, now_ms: int, limit_ms: int) -> bool:
        """Return whether a frame has been incomplete for `limit_ms`, through its client's fault."""
        since_ms = self._receiving_since_ms
        return since_ms is not None and now_ms - since_ms >= limit_ms

    @property
    def has_data(self) -> bool:
        return bool(self._data)

    @property
    def has_read_ahead(self) -> bool:
        """Whether there are more bytes than may be read ahead."""
        return len(self._data) > READ_AHEAD_BYTES

    @property
    def is_receiving_large(self) -> bool:
        """Whether a frame has memory of the pool: it is received, however large."""
        return bool(self._allocated_bytes)

    def release_memory(self) -> None:
        """Give the frame's memory back: its request is answered."""
        if self._allocated_bytes:
            allocated, self._allocated_bytes = self._allocated_bytes, 0
            self.pool.release(allocated)

    def clear(self, resume: Callable[[], None]) -> None:
        """Drop everything; `resume` waits no more."""
        self.release_memory()
        self._data.clear()
        self.pool.cancel_wait(resume)
