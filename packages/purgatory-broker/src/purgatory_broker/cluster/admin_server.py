"""A control server and its client, for commands to a cluster in another process.

A request is one line of JSON, and so is its answer, over a TCP connection on loopback:

    {"command": "set_latency", "arguments": {"node": 2, "latency_ms": 50}}
    {"result": null}

An answer has `result`, or `error` and `code` for a ClusterError, or `invalid` for an
InvalidArgumentError. With `"timeout": true` the error is a ClusterTimeoutError.

A line that is no command ends the connection. A web page can send requests to loopback, but not
choose their first line, so that no command in such a request runs. An error with `"closed": true`
is the connection's last line, and no later command of the connection has run. With `"retry": true`
the connection was idle, and the client may connect again.

A command that only looks, such as `wait_for`, ends when its client closes the connection, or its
own side of it. One that changes the cluster goes on, since half of it could be worse than all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NoReturn

from purgatory_broker.cluster._commands.arguments import QUOTED_CHARACTERS, quoted
from purgatory_broker.cluster._commands.cluster_commands import ClusterCommands
from purgatory_broker.cluster.cluster_errors import ClusterError, ClusterTimeoutError
from purgatory_broker.cluster.json_values import VALUES_PER_SLICE, slices
from purgatory_broker.cluster.run_command import (
    LOOKING_COMMANDS,
    checked_arguments,
    command_timeout,
    run_command,
)
from purgatory_broker.listeners import LOOPBACK
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)
#: The port for commands unless another is chosen; the one below Kafka's.
CONTROL_PORT = 9091

#: The longest command. A connection buffers at most two lines, so all connections together buffer
#: at most 64 MiB.
MAX_LINE_BYTES = 2**20
MAX_CONNECTIONS = 32
#: Seconds for a client to read an answer.
_READ_TIMEOUT = 60.0
#: How often the client connects again for one command.
_MAX_ATTEMPTS = 8
#: The most bytes that the client reads at a time.
_READ_BYTES = 2**16


class _Reader(asyncio.StreamReader):
    """Tells when the client sends nothing more, also while lines before are unread."""

    def __init__(self) -> None:
        super().__init__(limit=MAX_LINE_BYTES)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def feed_eof(self) -> None:
        super().feed_eof()
        self._end()

    def set_exception(self, exc: BaseException) -> None:  # type: ignore[override,unused-ignore]
        super().set_exception(exc)  # type: ignore[arg-type,unused-ignore]
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class _Connection:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.is_running = False
        self.is_closed = False

    def close(self, reason: str, *, is_idle: bool = False) -> None:
        self.is_closed = True
        logger.info("control connection closed: %s", reason)
        last = {"error": reason, "code": None, "closed": True}
        self.writer.write(_encode(last | {"retry": True} if is_idle else last))
        self.writer.close()


class ControlServer:
    """Listens on loopback and runs commands on a cluster, for one `async with` block.

    There is no authentication: every local process that can connect may run commands. Pages in a
    browser can't, since the first line that is no command ends a connection.
    """

    def __init__(self, cluster: ClusterCommands, port: int = 0) -> None:
        """Create a server; entering the block starts it. Port 0 is a free one."""
        self.cluster = cluster
        self.port = port
        self._server: asyncio.Server | None = None
        #: Those that were idle the longest come first.
        self._connections: dict[_Connection, None] = {}

    async def __aenter__(self) -> ControlServer:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: asyncio.StreamReaderProtocol(_Reader(), self._serve_connection),
            LOOPBACK,
            self.port,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = _Connection(writer)
        if not self._make_room():
            connection.close(
                f"{MAX_CONNECTIONS} control connections run commands, the most allowed"
            )
            return
        self._connections[connection] = None
        assert isinstance(reader, _Reader)
        try:
            while (line := await reader.readline()) and not connection.is_closed:
                await self._run_line(connection, reader, line)
        except ValueError:
            connection.close(f"the line is longer than {MAX_LINE_BYTES:,} bytes")
        except (ConnectionError, TimeoutError) as error:
            logger.info("control connection closed: %r", error)
            writer.transport.abort()
        except asyncio.CancelledError:
            pass  # The cluster is stopping.
        finally:
            self._connections.pop(connection, None)
            writer.close()

    def _make_room(self) -> bool:
        """Return whether there is room for a connection; an idle one is closed if need be."""
        if len(self._connections) < MAX_CONNECTIONS:
            return True
        idle = next(
            (connection for connection in self._connections if not connection.is_running), None
        )
        if idle is None:
            return False
        del self._connections[idle]
        idle.close("it was idle, and another one needs its place", is_idle=True)
        return True

    async def _run_line(self, connection: _Connection, reader: _Reader, line: bytes) -> None:
        connection.is_running = True
        try:
            try:
                name, arguments = _parse(line)
            except ValueError as error:
                connection.close(f"invalid command: {error}")
                return
            answer = await self._answer_unless_gone(reader, name, arguments)
            if answer is None:
                return
            async for part in _encoded_parts(answer):
                connection.writer.write(part)
                async with asyncio.timeout(_READ_TIMEOUT):
                    await connection.writer.drain()
        finally:
            connection.is_running = False
        self._connections[connection] = self._connections.pop(connection)

    async def _answer_unless_gone(
        self, reader: _Reader, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return the answer to a command; None if its client has gone, for whom it only looks."""
        if name not in LOOKING_COMMANDS:
            return await self._answer(name, arguments)
        answering = asyncio.ensure_future(self._answer(name, arguments))
        try:
            awaited: set[asyncio.Future[Any]] = {answering, reader.ended}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if answering.done() or not reader.ended.done():
                return await answering
            logger.info("%s ends, since its client has gone", name)
            return None
        finally:
            answering.cancel()

    async def _answer(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": await run_command(self.cluster, name, arguments)}
        except InvalidArgumentError as error:
            return {"invalid": [error.name, error.requirement, _json_value(error.value)]}
        except ClusterTimeoutError as error:
            return {"error": str(error), "code": None, "timeout": True}
        except ClusterError as error:
            return {"error": str(error), "code": error.code}
        except (PurgatoryError, OSError) as error:
            return {"error": str(error), "code": None}
        except Exception as error:
            _errors.log(error, "%s failed", name[:QUOTED_CHARACTERS])
            reason = str(error)[:QUOTED_CHARACTERS]
            return {"error": f"{name}: {type(error).__name__}: {reason}", "code": None}


def _encode(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


async def _encoded_parts(answer: dict[str, Any]) -> AsyncIterator[bytes]:
    result = answer.get("result")
    if not isinstance(result, list):
        yield _encode(answer)
        return
    before = b'{"result": ['
    async for part in slices(result, VALUES_PER_SLICE):
        yield before + json.dumps(part)[1:-1].encode()
        before = b", "
    yield b"]}\n" if result else before + b"]}\n"


def _parse(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        # As UTF-8 only: `loads` would guess the encoding of bytes.
        request = json.loads(line.decode(), parse_constant=_refuse)
        name, arguments = request["command"], request["arguments"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        reason = str(error)[:QUOTED_CHARACTERS]
        raise ValueError(f"{type(error).__name__}: {reason}") from None
    if not (isinstance(name, str) and isinstance(arguments, dict)):
        raise ValueError("expected the name and the arguments of a command")  # noqa: TRY004
    return name, arguments


def _json_value(value: object) -> object:
    """Return a refused value for the client's error: the value, or text if JSON can't have it."""
    shown = quoted(value)
    try:
        json.dumps(shown)
    except (TypeError, ValueError):
        return repr(shown)
    return shown


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number[:QUOTED_CHARACTERS]} is not a number of JSON")


class ControlClient:
    """Runs commands on a cluster in another process. A forked child has its own connection."""

    def __init__(self, address: str, *, timeout: float = 60.0) -> None:
        """Connect to a control server; `timeout` is in seconds, and beside a command's own."""
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise InvalidArgumentError("control", "host:port", address)
        self.address = address
        self._timeout = timeout
        self._host, self._port = host, int(port)
        self._is_closed = False
        try:
            self._connect()
        except OSError as error:
            raise ClusterError(f"no control server at {address}: {error}") from None

    def _connect(self) -> None:
        self._socket = socket.create_connection((self._host, self._port), self._timeout)
        #: The process whose connection it is; a forked child has a copy of the parent's.
        self._process_id = os.getpid()
        #: What was received of an answer.
        self._received = b""
        #: No command was answered yet.
        self._is_new = True
        #: A command was sent whose answer was not read: it would be taken for the next one's.
        self._is_stale = False

    def call(self, command: str, arguments: dict[str, Any]) -> Any:
        checked = checked_arguments(command, arguments)
        for name, value in checked.items():
            if callable(value):
                raise ClusterError(
                    f"{command}: the function {value!r} for {name} can't be called by a cluster in "
                    "another process; use Cluster or AsyncCluster"
                )
        timeout = self._timeout + command_timeout(checked)
        line = json.dumps({"command": command, "arguments": checked}).encode() + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise ClusterError(
                f"{command}: its arguments are longer than {MAX_LINE_BYTES:,} bytes of JSON"
            )
        for _ in range(_MAX_ATTEMPTS):
            answer = self._exchange(command, line, timeout)
            if "retry" not in answer:
                break
            self._is_stale = True
        return _result(command, answer)

    def _exchange(self, command: str, line: bytes, timeout: float) -> dict[str, Any]:
        if self._is_closed:
            raise ClusterError(f"{command}: the connection was closed")
        try:
            # An idle connection is closed when another one needs its place.
            if self._is_unusable:
                self._is_stale = True
                self._socket.close()
                self._connect()
            self._socket.settimeout(timeout)
            self._is_stale = True  # Also where a signal handler raises before the answer is there.
            self._socket.sendall(line)
            received = self._read_line()
        except ConnectionRefusedError:
            raise ClusterError(f"{command}: the cluster has stopped") from None
        except OSError as error:
            raise ClusterError(f"{command}: the cluster does not respond: {error}") from error
        except BaseException:
            self._socket.close()  # Else the server would keep the command, and its place.
            raise
        if not received.endswith(b"\n"):
            raise ClusterError(f"{command}: the cluster has stopped")
        answer: dict[str, Any] = json.loads(received)
        self._is_stale = self._is_new = False
        return answer

    def _read_line(self) -> bytes:
        """Return the next line; what came until then if the connection ends."""
        # Not by a file: its lock may be held in the parent while a child is forked.
        parts = [self._received]
        while b"\n" not in parts[-1]:
            part = self._socket.recv(_READ_BYTES)
            if not part:
                return b"".join(parts)
            parts.append(part)
        line, newline, self._received = b"".join(parts).partition(b"\n")
        return line + newline

    @property
    def _is_unusable(self) -> bool:
        """Whether the next command needs another connection."""
        if self._is_stale or self._process_id != os.getpid():
            return True
        return not self._is_new and self._is_closed_by_server()

    def _is_closed_by_server(self) -> bool:
        """Return whether there is something to read, which only the end of a connection is."""
        if self._received:
            return True
        self._socket.settimeout(0)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        """Close the connection, which ends another thread's command; a parent's stays open."""
        self._is_closed = True
        if self._process_id == os.getpid():
            with suppress(OSError):
                # It ends the other thread's read, which closing alone would not.
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _result(command: str, answer: dict[str, Any]) -> Any:
    if "closed" in answer:
        raise ClusterError(f"{command}: {answer['error']}")
    if "invalid" in answer:
        raise InvalidArgumentError(*answer["invalid"])
    if "timeout" in answer:
        raise ClusterTimeoutError(answer["error"])
    if "error" in answer:
        raise ClusterError(answer["error"], answer["code"])
    return answer["result"]
