"""An RPC client: any number of calls under way over one connection, each matched to its reply, or to its timeout.

    python examples/rpc.py          # a server and a client on this machine: 1,000 calls at once,
    some of them too slow

One line of JSON is one message. A call is `{"id": 7, "method": "sleep", "params": [0.1]}`, its
reply `{"id": 7, "result": ...}` or `{"id": 7, "error": "..."}`; replies come in any order. A
pending call is one request in the purgatory, watched under its id, and under the connection, so
that all calls fail at once if that breaks.
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
    """The server answered that the call failed."""


class RpcClient:
    """Calls over one connection: `async with RpcClient(host, port) as client.

    Await client.call("add", 1, 2, timeout=0.5)`.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._ids = itertools.count(1)
        self._replies: dict[int, dict[str, Any]] = {}
        self._waited_for: set[int] = set()
        self._lost: Exception | None = None
        #: Replies to calls that had timed out.
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
        """The reply's result.

        RpcError, TimeoutError after `timeout` seconds, or ConnectionError if the line breaks.
        """
        number = next(self._ids)
        self._waited_for.add(number)
        try:
            self._writer.write(
                json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n"
            )
            reply = await self._purgatory.hold(
                [number, _CONNECTION], until=lambda: self._reply_to(number), timeout=timeout
            )
        finally:
            self._waited_for.discard(number)
            self._replies.pop(number, None)
        if "error" in reply:
            raise RpcError(reply["error"])
        return reply["result"]

    def _reply_to(self, number: int) -> dict[str, Any] | None:
        if self._lost is not None:
            raise ConnectionError("the connection was lost before the reply came") from self._lost
        return self._replies.get(number)

    async def _read_replies(self) -> None:
        try:
            while line := await self._reader.readline():
                reply = json.loads(line)
                if reply["id"] in self._waited_for:
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
        """Calls under way."""
        return self._purgatory.num_delayed


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server for the example: `sleep`, `add` and `hang_up`."""

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
    """A thousand calls at once, a tenth of which take longer than they may."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with RpcClient(host, port) as client:
        quick = [client.call("sleep", 0.05, timeout=10) for _ in range(900)]
        slow = [client.call("sleep", 0.4, timeout=0.2) for _ in range(100)]
        outcomes = await asyncio.gather(*quick, *slow, return_exceptions=True)
        print(Counter(type(outcome).__name__ for outcome in outcomes))
        await client.call(
            "sleep", 0.5, timeout=10
        )  # Comes after the slow ones' replies, which nobody waits for any more.
        print(f"{client.late} replies came too late, {client.pending} calls are pending")
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
