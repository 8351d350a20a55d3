"""What can be done to a running cluster, by name.

The same commands for code, another process and the command line.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.errors import InvalidArgumentError, PurgatoryError


class ClusterError(PurgatoryError):
    """A cluster could not do what it was asked to; the message says why.

    Attributes:
        code: Kafka's name of the error, where it has one.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[ClusterError], tuple[str, str | None]]:
        return type(self), (str(self), self.code)


def commands(cluster: AsyncCluster) -> dict[str, Callable[..., Any]]:
    """The commands of a cluster by name; what they return can be written as JSON."""
    faults = cluster.faults
    return {
        "bootstrap": lambda: cluster.bootstrap,
        "create_topic": cluster.create_topic,
        "describe": cluster.describe,
        "metrics": cluster.metrics,
        "freeze": cluster.freeze,
        "thaw": cluster.thaw,
        "lag": cluster.lag,
        "cut_off": cluster.cut_off,
        "reconnect": cluster.reconnect,
        "kill": cluster.kill,
        "stop": cluster.stop,
        "restart": cluster.restart,
        "move_leader": cluster.move_leader,
        "fail_requests": faults.fail_requests,
        "befall_responses": faults.befall_responses,
        "clear_faults": faults.clear,
    }


async def run_command(cluster: AsyncCluster, name: str, arguments: dict[str, Any]) -> Any:
    """Run one command on the cluster's loop.

    Raises:
        ClusterError: there is no such command, its arguments are not its own, or it was refused.
        InvalidArgumentError: an argument has a value that it can't have.
    """
    known = commands(cluster)
    if name not in known:
        raise ClusterError(f"there is no command {name!r}: there are {', '.join(sorted(known))}")
    command = known[name]
    try:
        inspect.signature(command).bind(**arguments)
    except TypeError as error:
        raise ClusterError(f"{name}: {error}") from None
    try:
        result = command(**arguments)
        if isinstance(result, Awaitable):
            result = await result
    except ControllerError as error:
        raise ClusterError(f"{name}: {error}", error.code.name) from None
    except (TypeError, IndexError) as error:
        raise InvalidArgumentError(
            name, f"called with the arguments that it takes ({error})", arguments
        ) from error
    return result
