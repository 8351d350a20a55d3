"""Runs commands by name, with arguments and results that can be written as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from request_purgatory.broker.cluster.commands import COMMANDS, ClusterCommands
from request_purgatory.broker.cluster.commands.arguments import checked_types, quoted
from request_purgatory.broker.cluster.commands.inspection_commands import InspectionCommands
from request_purgatory.broker.cluster.errors import ClusterError
from request_purgatory.broker.cluster.json_values import to_json
from request_purgatory.broker.cluster.slices import VALUES_PER_SLICE, slices
from request_purgatory.broker.log import RecordError
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError

#: The longest time that a client waits for a command's own timeout, about a year, in seconds.
_MAX_WAIT_S = 3e7


#: Commands that wait for what happens on the event loop later.
WAITING_COMMANDS = frozenset({"reset", "restart", "truncate", "wait_for"})
#: Commands that change nothing, and may end half way.
LOOKING_COMMANDS = frozenset(InspectionCommands.commands()) - {"forget_requests"}


def run_command_at_once(cluster: ClusterCommands, name: str, arguments: dict[str, Any]) -> Any:
    """Run one command for a function that runs on the cluster's event loop, and can't await.

    Args:
        cluster: the cluster.
        name: the command's name.
        arguments: its keyword arguments.

    Returns:
        The command's result, as `run_command` returns it.

    Raises:
        ClusterError: as `run_command`, and if the command waits.
    """
    refused = ClusterError(
        f"{name}: a function given to intercept can't wait for the cluster, on whose thread it "
        f"runs; in a coroutine function, use `await asyncio.to_thread(cluster.{name}, ...)`"
    )
    if name in WAITING_COMMANDS:
        raise refused
    running = run_command(cluster, name, arguments)
    try:
        # A command of many steps gives way to others between them, which yields None.
        while running.send(None) is None:
            pass
    except StopIteration as done:
        return done.value
    running.close()
    raise refused


async def run_command(cluster: ClusterCommands, name: str, arguments: dict[str, Any]) -> Any:
    """Run one command on the cluster's event loop.

    Args:
        cluster: the cluster.
        name: the command's name.
        arguments: its keyword arguments.

    Returns:
        The command's result, as JSON has it; see `json_values`.

    Raises:
        ClusterError: the command is unknown, an argument is missing or unknown, the cluster
            refused the command, or the operating system did, as where a port is taken.
        InvalidArgumentError: an argument's value is not allowed.
        TimeoutError: what the command waits for did not happen in time.
    """
    checked = checked_arguments(name, arguments)
    try:
        result = COMMANDS[name](cluster, **checked)
        if isinstance(result, Awaitable):
            result = await result
    except ControllerError as error:
        raise ClusterError(f"{name}: {error}", error.code.name) from None
    except RecordError as error:
        raise ClusterError(f"{name}: {error}", error.code.name) from error
    except PurgatoryClosedError:
        raise ClusterError(f"{name}: the cluster has stopped") from None
    except TimeoutError:  # An OSError, too; `wait_for` raises a ClusterTimeoutError.
        raise
    except OSError as error:
        raise ClusterError(f"{name}: {error}") from error
    if not isinstance(result, list):
        return to_json(result)
    shown: list[Any] = []
    async for part in slices(result, VALUES_PER_SLICE):
        shown += map(to_json, part)
    return shown


def checked_arguments(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command, converted to the types of its parameters.

    Args:
        name: the command's name.
        arguments: its keyword arguments.

    Raises:
        ClusterError: the command is unknown, or an argument is missing or unknown.
        InvalidArgumentError: an argument has another type, or is not a finite number.
    """
    if not isinstance(arguments, dict):
        raise InvalidArgumentError("arguments", "an object", quoted(arguments))
    if not isinstance(name, str) or name not in COMMANDS:
        raise ClusterError(
            f"unknown command {quoted(name)!r}; known: {', '.join(sorted(COMMANDS))}"
        )
    try:
        inspect.signature(COMMANDS[name]).bind(None, **arguments)
    except TypeError as error:
        raise ClusterError(f"{name}: {error}") from None
    return checked_types(COMMANDS[name], arguments)


def command_timeout(arguments: dict[str, Any]) -> float:
    """Return for how many seconds a command may wait by its own `timeout`; 0 if it has none.

    Args:
        arguments: as `checked_arguments` returns them.
    """
    timeout: float = arguments.get("timeout", 0.0)
    return min(max(timeout, 0.0), _MAX_WAIT_S)
