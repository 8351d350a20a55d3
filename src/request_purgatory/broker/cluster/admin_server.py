"""Commands to a cluster in another process.

A line of JSON each way, over a connection on loopback.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from request_purgatory.broker.cluster.async_cluster import LOOPBACK, AsyncCluster
from request_purgatory.broker.cluster.commands import ClusterError, commands, run_command
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

logger = logging.getLogger(__name__)

#: Of a command, of which a connection may keep two lines; and of connections at a time: no more
#: than 64 MiB together.
MAX_LINE_BYTES = 2**20
MAX_CONNECTIONS = 32
_WHY_CHARACTERS = 200
_WHOLE_NUMBERS = range(-(2**63), 2**63)


class ControlServer:
    """Listens on loopback for commands to a cluster; whoever can connect may give them."""

    def __init__(self, cluster: AsyncCluster, port: int = 0) -> None:
        self.cluster = cluster
        self.port = port
        self._server: asyncio.Server | None = None
        self._connections = 0

    async def __aenter__(self) -> ControlServer:
        self._server = await asyncio.start_server(
            self._converse, LOOPBACK, self.port, limit=MAX_LINE_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{LOOPBACK}:{self.port}"

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= MAX_CONNECTIONS:
            logger.info("a control connection ends: there are %d already", self._connections)
            writer.close()
            return
        self._connections += 1
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:
            logger.info("a control connection ends: %s", error)
        except asyncio.CancelledError:
            pass  # The cluster ends.
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line, parse_float=_refuse, parse_constant=_refuse)
            name, arguments = asked["command"], asked["arguments"]
            self._require_types(name, arguments)
            return {"result": await run_command(self.cluster, name, arguments)}
        except InvalidArgumentError as error:
            return {"invalid": [error.name, error.requirement, str(error.value)]}
        except ClusterError as error:
            return {"error": str(error), "code": error.code}
        except (PurgatoryError, OSError) as error:
            return {"error": str(error), "code": None}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return {
                "error": f"no command: {type(error).__name__}: {str(error)[:_WHY_CHARACTERS]}",
                "code": None,
            }

    def _require_types(self, name: str, arguments: dict[str, Any]) -> None:
        """Refuse arguments of other types than the command's.

        InvalidArgumentError, or TypeError where they are no arguments.
        """
        if not isinstance(arguments, dict):
            raise TypeError(f"arguments are an object, got {type(arguments).__name__}")
        command = commands(self.cluster).get(name)
        hints = {} if command is None else get_type_hints(command)
        for argument, value in arguments.items():
            if argument in hints and not _fits(value, hints[argument]):
                raise InvalidArgumentError(
                    argument, f"what {name} takes: {hints[argument]}", str(value)[:_WHY_CHARACTERS]
                )


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number[:_WHY_CHARACTERS]} is no whole number")


def _fits(value: Any, hint: Any) -> bool:
    """True for a value out of JSON that a parameter with this annotation takes."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is dict:
        keys, values = get_args(hint)
        return isinstance(value, dict) and all(
            _fits(key, keys) and _fits(each, values) for key, each in value.items()
        )
    if hint is int:
        return type(value) is int and value in _WHOLE_NUMBERS
    return isinstance(value, hint)


class ControlClient:
    """Gives commands to a cluster of another process, one after the other."""

    def __init__(self, address: str, *, timeout: float = 60.0) -> None:
        """Connect to where a cluster takes commands.

        Args:
            address: HOST:PORT.
            timeout: seconds for the connection and for each command.

        Raises:
            ClusterError: nobody listens there.
            InvalidArgumentError: no such address.
        """
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise InvalidArgumentError("address", "HOST:PORT", address)
        try:
            self._socket = socket.create_connection((host, int(port)), timeout)
        except OSError as error:
            raise ClusterError(f"no cluster takes commands at {address}: {error}") from None
        self._file = self._socket.makefile("rb")

    def call(self, command: str, arguments: dict[str, Any]) -> Any:
        """Give a command; what it returns.

        Raises:
            ClusterError: the cluster refuses it, or has ended.
            InvalidArgumentError: an argument has a value that it can't have.
        """
        try:
            self._socket.sendall(
                json.dumps({"command": command, "arguments": arguments}).encode() + b"\n"
            )
            line = self._file.readline()
        except OSError as error:
            raise ClusterError(f"{command}: the cluster does not answer: {error}") from error
        if not line:
            raise ClusterError(f"{command}: the cluster has ended")
        answer = json.loads(line)
        if "invalid" in answer:
            raise InvalidArgumentError(*answer["invalid"])
        if "error" in answer:
            raise ClusterError(answer["error"], answer["code"])
        return answer["result"]

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()
