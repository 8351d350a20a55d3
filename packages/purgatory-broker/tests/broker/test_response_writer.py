"""Responses are written together, in order, and before their connection is closed."""

from __future__ import annotations

import asyncio

from purgatory_broker.server import response_writer
from purgatory_broker.server.response_writer import ResponseWriter


class _Transport(asyncio.Transport):
    def __init__(self, log: list[tuple[str, bytes]], name: str) -> None:
        super().__init__()
        self._log = log
        self._name = name

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._log.append((self._name, bytes(data)))


class _Writing:
    def __init__(self) -> None:
        self.written: list[tuple[str, bytes]] = []
        self.writer = ResponseWriter()
        self.first, self.second = (_Transport(self.written, name) for name in "ab")


def test_frames_of_one_turn_are_one_write_for_each_connection() -> None:
    async def scenario() -> None:
        writing = _Writing()
        for frame in (b"1", b"2"):
            writing.writer.add(writing.first, frame)
            writing.writer.add(writing.second, frame)
        assert writing.written == []
        await asyncio.sleep(0)
        assert writing.written == [("a", b"12"), ("b", b"12")]
        writing.writer.add(writing.second, b"3")
        await asyncio.sleep(0)
        assert writing.written[2:] == [("b", b"3")]

    asyncio.run(scenario())


def test_frames_beyond_the_limit_are_written_at_once() -> None:
    async def scenario() -> None:
        writing = _Writing()
        half = bytes(response_writer.MAX_UNSENT_BYTES // 2)
        for _ in range(2):
            writing.writer.add(writing.first, half)
        assert writing.written == []
        writing.writer.add(writing.second, b"1")
        assert writing.written == [("a", half + half), ("b", b"1")]
        # They count no more.
        writing.writer.add(writing.first, half)
        assert len(writing.written) == 2
        await asyncio.sleep(0)
        assert len(writing.written) == 3

    asyncio.run(scenario())


def test_frames_are_written_before_their_connection_is_closed() -> None:
    async def scenario() -> None:
        writing = _Writing()
        writing.writer.add(writing.first, b"1")
        writing.writer.add(writing.second, b"2")
        writing.writer.flush_one(writing.second)
        assert writing.written == [("b", b"2")]
        writing.writer.flush_one(writing.second)
        await asyncio.sleep(0)
        assert writing.written == [("b", b"2"), ("a", b"1")]

    asyncio.run(scenario())


def test_frames_of_a_lost_connection_are_dropped_and_count_no_more() -> None:
    async def scenario() -> None:
        writing = _Writing()
        writing.writer.add(writing.first, bytes(response_writer.MAX_UNSENT_BYTES))
        writing.writer.drop(writing.first)
        writing.writer.add(writing.second, b"2")
        assert writing.written == []
        await asyncio.sleep(0)
        assert writing.written == [("b", b"2")]

    asyncio.run(scenario())
