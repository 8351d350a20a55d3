"""Runs commands by name, with arguments and results that can be written as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from purgatory_broker.cluster._commands.arguments import checked_types, quoted
from purgatory_broker.cluster._commands.cluster_commands import COMMANDS, ClusterCommands
from purgatory_broker.cluster._commands.inspection_commands import InspectionCommands
from purgatory_broker.cluster.cluster_errors import ClusterError
from purgatory_broker.cluster.json_values import VALUES_PER_SLICE, slices, to_json
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.metadata.topics import ControllerError
from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError

#: The longest time that a client waits for a command's own timeout, about a year, in seconds.
_MAX_WAIT_S = 3e7


#: Commands that wait for what happens on the event loop later.
WAITING_COMMANDS = frozenset(
    {
        "compact",
        "fence_producer",
        "reset",
        "restart",
        "start_schema_registry",
        "truncate",
        "wait_for",
    }
)
#: Commands that change nothing, and may end half way.
LOOKING_COMMANDS = frozenset({"transactions", *InspectionCommands.commands()}) - {"forget_requests"}


def run_command_at_once(cluster: ClusterCommands, name: str, arguments: dict[str, Any]) -> Any:
    """Run one command for a function that runs on the cluster's event loop, and can't await."""
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
    """Return for how many seconds a command may wait by its own `timeout`; 0 if it has none."""
    timeout: float = arguments.get("timeout", 0.0)
    return min(max(timeout, 0.0), _MAX_WAIT_S)
