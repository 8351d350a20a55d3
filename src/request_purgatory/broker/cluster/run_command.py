"""Runs commands by name, with arguments and results that can be written as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from request_purgatory.broker.cluster.commands import COMMANDS, ClusterCommands
from request_purgatory.broker.cluster.errors import ClusterError
from request_purgatory.broker.cluster.json_values import to_json
from request_purgatory.broker.log import RecordError
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError

#: How much of a refused value an error message quotes.
QUOTED_CHARACTERS = 200
#: The longest time that a client waits for a command's own timeout, about a year, in seconds.
_MAX_WAIT_S = 3e7
_INT64 = range(-(2**63), 2**63)


#: Commands that wait for what happens on the event loop later.
WAITING_COMMANDS = frozenset({"reset", "restart", "truncate", "wait_for"})


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
        ClusterError: the command is unknown, an argument is missing or unknown, or the cluster
            refused the command.
        InvalidArgumentError: an argument's value is not allowed.
    """
    if name not in COMMANDS:
        raise ClusterError(f"unknown command {name!r}; known: {', '.join(sorted(COMMANDS))}")
    command = COMMANDS[name]
    try:
        inspect.signature(command).bind(cluster, **arguments)
    except TypeError as error:
        raise ClusterError(f"{name}: {error}") from None
    try:
        result = command(cluster, **arguments)
        if isinstance(result, Awaitable):
            result = await result
    except ControllerError as error:
        raise ClusterError(f"{name}: {error}", error.code.name) from None
    except RecordError as error:
        raise ClusterError(f"{name}: {error}", error.code.name) from error
    except PurgatoryClosedError:
        raise ClusterError(f"{name}: the cluster has stopped") from None
    except (TypeError, IndexError) as error:
        raise InvalidArgumentError(
            name, f"called with arguments of the right types ({error})", arguments
        ) from error
    return to_json(result)


def command_timeout(arguments: dict[str, Any]) -> float:
    """Return for how many seconds a command may wait by its own `timeout`; 0 if it has none."""
    timeout = arguments.get("timeout")
    # Any other value is refused by the command.
    return min(max(timeout, 0.0), _MAX_WAIT_S) if isinstance(timeout, (int, float)) else 0.0


def require_types(name: str, arguments: dict[str, Any]) -> None:
    """Check that the arguments of a command have the types of its parameters.

    Raises:
        InvalidArgumentError: an argument has the wrong type.
        TypeError: `arguments` is not an object.
    """
    if not isinstance(arguments, dict):
        raise TypeError(f"arguments must be an object, got {type(arguments).__name__}")
    command = COMMANDS.get(name)
    hints = {} if command is None else get_type_hints(command)
    for argument, value in arguments.items():
        if argument in hints and not _fits(value, hints[argument]):
            raise InvalidArgumentError(
                argument, f"of type {hints[argument]}", str(value)[:QUOTED_CHARACTERS]
            )


def _fits(value: Any, hint: Any) -> bool:
    """Return True if a parameter with this annotation accepts a value decoded from JSON."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is dict:
        keys, values = get_args(hint)
        return isinstance(value, dict) and all(
            _fits(key, keys) and _fits(each, values) for key, each in value.items()
        )
    if origin is tuple and isinstance(value, list):
        hints = get_args(hint)
        return len(value) == len(hints) and all(map(_fits, value, hints))
    if origin is list:
        (each_hint,) = get_args(hint)
        return isinstance(value, list) and all(_fits(each, each_hint) for each in value)
    if origin is not None:
        return False
    if hint is float:
        return type(value) is float or (type(value) is int and value in _INT64)
    if hint is int:
        return type(value) is int and value in _INT64
    return isinstance(value, hint)
