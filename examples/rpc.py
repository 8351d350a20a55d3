"""An RPC client: concurrent calls over one connection, each with its reply or its timeout.

    python examples/rpc.py          # a server and a client: 1,000 concurrent calls, some too slow

One line of JSON is one message. A call is `{"id": 7, "method": "sleep", "params": [0.1]}`, its
reply `{"id": 7, "result": ...}` or `{"id": 7, "error": "..."}`; replies arrive in any order. A
pending call is one request in the purgatory. It is watched under its id, and under the connection,
so that all calls fail when the connection breaks.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from types import TracebackType
from typing import Any

from request_purgatory.aio import Purgatory

_CONNECTION = "connection"


class RpcError(Exception):
    """The server replied that the call failed."""


class RpcClient:
    """A client with one connection.

    For example::

        async with RpcClient(host, port) as client:
            total = await client.call("add", 1, 2, timeout=0.5)

    Attributes:
        late: Number of replies to calls that had timed out.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._ids = itertools.count(1)
        self._replies: dict[int, dict[str, Any]] = {}
        self._awaited_ids: set[int] = set()
        self._lost: Exception | None = None
        self.late = 0

    async def __aenter__(self) -> RpcClient:
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._purgatory = await Purgatory("rpc").__aenter__()
        self._reading = asyncio.create_task(self._read_replies())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._reading.cancel()
        self._writer.close()
        await self._purgatory.__aexit__(kind, error, traceback)
        await asyncio.gather(self._reading, return_exceptions=True)

    async def call(self, method: str, *params: Any, timeout: float) -> Any:
        """Call a method of the server and wait for the reply.

        Args:
            method: The method's name.
            params: Its arguments, as JSON values.
            timeout: Seconds.

        Returns:
            The result.

        Raises:
            RpcError: The server replied that the call failed.
            TimeoutError: There was no reply in time.
            ConnectionError: The connection was lost.
        """
        number = next(self._ids)
        self._awaited_ids.add(number)
        try:
            self._writer.write(
                json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n"
            )
            reply = await self._purgatory.hold(
                [number, _CONNECTION], until=lambda: self._reply_to(number), timeout=timeout
            )
        finally:
            self._awaited_ids.discard(number)
            self._replies.pop(number, None)
        if "error" in reply:
            raise RpcError(reply["error"])
        return reply["result"]

    def _reply_to(self, number: int) -> dict[str, Any] | None:
        if self._lost is not None:
            raise ConnectionError(
                "the connection was lost before the reply arrived"
            ) from self._lost
        return self._replies.get(number)

    async def _read_replies(self) -> None:
        try:
            while line := await self._reader.readline():
                reply = json.loads(line)
                if reply["id"] in self._awaited_ids:
                    self._replies[reply["id"]] = reply
                    self._purgatory.notify(reply["id"])
                else:
                    self.late += 1
            self._lost = EOFError("the server closed the connection")
        except (OSError, ValueError, KeyError) as error:
            self._lost = error
        self._purgatory.notify(_CONNECTION)

    @property
    def pending(self) -> int:
        """The number of pending calls."""
        return self._purgatory.num_delayed


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve a connection of the example: methods `sleep`, `add` and `hang_up`."""

    async def answer(message: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"id": message["id"]}
        try:
            if message["method"] == "sleep":
                await asyncio.sleep(message["params"][0])
                reply["result"] = message["params"][0]
            elif message["method"] == "add":
                reply["result"] = sum(message["params"])
            elif message["method"] == "hang_up":
                writer.close()
                return
            else:
                reply["error"] = f"unknown method {message['method']!r}"
        except TypeError as error:
            reply["error"] = str(error)
        if not writer.is_closing():
            writer.write(json.dumps(reply).encode() + b"\n")

    async with asyncio.TaskGroup() as answers:
        try:
            while line := await reader.readline():
                answers.create_task(answer(json.loads(line)))
        except ConnectionError:
            pass
    writer.close()


async def main() -> None:
    """Make a thousand concurrent calls, a tenth of which take longer than their timeout."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with RpcClient(host, port) as client:
        quick = [client.call("sleep", 0.05, timeout=10) for _ in range(900)]
        slow = [client.call("sleep", 0.4, timeout=0.2) for _ in range(100)]
        outcomes = await asyncio.gather(*quick, *slow, return_exceptions=True)
        print(Counter(type(outcome).__name__ for outcome in outcomes))
        # This reply arrives after those of the slow calls, which have timed out.
        await client.call("sleep", 0.5, timeout=10)
        print(f"{client.late} replies came too late, {client.pending} calls are pending")
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
