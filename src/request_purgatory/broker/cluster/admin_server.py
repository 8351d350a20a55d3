"""A control server and its client, for commands to a cluster in another process.

A request is one line of JSON, and so is its answer, over a TCP connection on loopback:

    {"command": "set_latency", "arguments": {"node": 2, "latency_ms": 50}}
    {"result": null}

An answer has `result`, or `error` and `code` for a ClusterError, or `invalid` for an
InvalidArgumentError. With `"timeout": true` the error is a ClusterTimeoutError.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import suppress
from typing import Any, NoReturn

from request_purgatory.broker.cluster.commands import ClusterCommands
from request_purgatory.broker.cluster.errors import ClusterError, ClusterTimeoutError
from request_purgatory.broker.cluster.run_command import (
    QUOTED_CHARACTERS,
    command_timeout,
    require_types,
    run_command,
)
from request_purgatory.broker.listeners import LOOPBACK
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

logger = logging.getLogger(__name__)

#: The longest command. A connection buffers at most two lines, so all connections together buffer
#: at most 64 MiB.
MAX_LINE_BYTES = 2**20
MAX_CONNECTIONS = 32


class ControlServer:
    """Listens on loopback and runs commands on a cluster, for one `async with` block.

    There is no authentication: every local process that can connect may run commands.
    """

    def __init__(self, cluster: ClusterCommands, port: int = 0) -> None:
        """Create a server; entering the block starts it.

        Args:
            cluster: a running cluster on the same event loop.
            port: the TCP port; 0 takes a free one.
        """
        self.cluster = cluster
        self.port = port
        self._server: asyncio.Server | None = None
        self._connections = 0

    async def __aenter__(self) -> ControlServer:
        self._server = await asyncio.start_server(
            self._serve_connection, LOOPBACK, self.port, limit=MAX_LINE_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def address(self) -> str:
        """The address that the server listens on, "host:port"."""
        return f"{LOOPBACK}:{self.port}"

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._connections >= MAX_CONNECTIONS:
            logger.info(
                "control connection refused: %d are open, the most allowed", self._connections
            )
            writer.close()
            return
        self._connections += 1
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:
            logger.info("control connection closed: %s", error)
        except asyncio.CancelledError:
            pass  # The cluster is stopping.
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line, parse_constant=_refuse)
            name, arguments = request["command"], request["arguments"]
            require_types(name, arguments)
            return {"result": await run_command(self.cluster, name, arguments)}
        except InvalidArgumentError as error:
            return {"invalid": [error.name, error.requirement, str(error.value)]}
        except ClusterTimeoutError as error:
            return {"error": str(error), "code": None, "timeout": True}
        except ClusterError as error:
            return {"error": str(error), "code": error.code}
        except (PurgatoryError, OSError) as error:
            return {"error": str(error), "code": None}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = str(error)[:QUOTED_CHARACTERS]
            return {
                "error": f"invalid command: {type(error).__name__}: {reason}",
                "code": None,
            }


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number[:QUOTED_CHARACTERS]} is not a number of JSON")


class ControlClient:
    """Runs commands on a cluster in another process, one at a time."""

    def __init__(self, address: str, *, timeout: float = 60.0) -> None:
        """Connect to a control server.

        Args:
            address: the server's "host:port".
            timeout: seconds for the connection, and for each command beside its own timeout.

        Raises:
            ClusterError: no server listens at the address.
            InvalidArgumentError: the address is not "host:port".
        """
        self.address = address
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise InvalidArgumentError("address", "host:port", address)
        try:
            self._socket = socket.create_connection((host, int(port)), timeout)
        except OSError as error:
            raise ClusterError(f"no control server at {address}: {error}") from None
        self._file = self._socket.makefile("rb")
        self._timeout = timeout

    def call(self, command: str, arguments: dict[str, Any]) -> Any:
        """Run a command.

        Args:
            command: its name, as in `COMMANDS`.
            arguments: its keyword arguments.

        Returns:
            The command's result.

        Raises:
            ClusterError: the cluster refused the command, or has stopped.
            ClusterTimeoutError: `wait_for` has waited in vain.
            InvalidArgumentError: an argument's value is not allowed.
        """
        try:
            self._socket.settimeout(self._timeout + command_timeout(arguments))
            self._socket.sendall(
                json.dumps({"command": command, "arguments": arguments}).encode() + b"\n"
            )
            line = self._file.readline()
        except (OSError, ValueError) as error:  # ValueError: another thread has closed it
            raise ClusterError(f"{command}: the cluster does not respond: {error}") from error
        if not line:
            raise ClusterError(f"{command}: the cluster has stopped")
        answer = json.loads(line)
        if "invalid" in answer:
            raise InvalidArgumentError(*answer["invalid"])
        if "timeout" in answer:
            raise ClusterTimeoutError(answer["error"])
        if "error" in answer:
            raise ClusterError(answer["error"], answer["code"])
        return answer["result"]

    def close(self) -> None:
        """Close the connection; a command of another thread ends with an error."""
        with suppress(OSError):
            # It ends the other thread's read, for which closing the file would wait.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._socket.close()
