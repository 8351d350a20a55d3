"""Runs commands by name, with arguments and results that can be written as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from request_purgatory.broker.cluster.commands import COMMANDS, ClusterCommands
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

#: How much of a refused value an error message quotes.
QUOTED_CHARACTERS = 200
_INT64 = range(-(2**63), 2**63)


class ClusterError(PurgatoryError):
    """A cluster refused a command, did not start, or is not running; the message gives the reason.

    Attributes:
        code: Kafka's name of the error; None if it has none.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[ClusterError], tuple[str, str | None]]:
        return type(self), (str(self), self.code)


async def run_command(cluster: ClusterCommands, name: str, arguments: dict[str, Any]) -> Any:
    """Run one command on the cluster's event loop.

    Args:
        cluster: the cluster.
        name: the command's name.
        arguments: its keyword arguments.

    Returns:
        The command's result, which can be written as JSON.

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
    except (TypeError, IndexError) as error:
        raise InvalidArgumentError(
            name, f"called with arguments of the right types ({error})", arguments
        ) from error
    return result


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
    if hint is int:
        return type(value) is int and value in _INT64
    return isinstance(value, hint)


def with_integer_keys(value: Any, hint: Any) -> Any:
    """Return a result that was decoded from JSON, in which the keys of objects are strings.

    Args:
        value: the result.
        hint: its type.

    Returns:
        The result, with integers as keys where the type has them.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        return [with_integer_keys(each, arguments[0]) for each in value]
    if origin is dict:
        key_type, value_type = arguments
        return {key_type(key): with_integer_keys(each, value_type) for key, each in value.items()}
    if is_typeddict(hint):
        hints = get_type_hints(hint)
        return {key: with_integer_keys(each, hints[key]) for key, each in value.items()}
    return value
