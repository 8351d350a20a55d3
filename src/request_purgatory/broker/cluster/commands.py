"""The commands that change or inspect a running cluster, by name.

Code, another process and the command line run the same commands.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.errors import InvalidArgumentError, PurgatoryError


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


def commands(cluster: AsyncCluster) -> dict[str, Callable[..., Any]]:
    """Return the commands of a cluster by name; their results can be written as JSON."""
    faults = cluster.faults
    return {
        "bootstrap_servers": lambda: cluster.bootstrap_servers,
        "create_topic": cluster.create_topic,
        "describe_topic": cluster.describe_topic,
        "metrics": cluster.metrics,
        "pause_replication": cluster.pause_replication,
        "resume_replication": cluster.resume_replication,
        "set_latency": cluster.set_latency,
        "partition_node": cluster.partition_node,
        "heal_node": cluster.heal_node,
        "kill": cluster.kill,
        "stop": cluster.stop,
        "restart": cluster.restart,
        "move_leader": cluster.move_leader,
        "inject_request_error": faults.inject_request_error,
        "inject_response_fault": faults.inject_response_fault,
        "clear_faults": faults.clear,
    }


async def run_command(cluster: AsyncCluster, name: str, arguments: dict[str, Any]) -> Any:
    """Run one command on the cluster's event loop.

    Args:
        cluster: the cluster.
        name: the command's name, as in `commands`.
        arguments: its keyword arguments.

    Returns:
        The command's result, which can be written as JSON.

    Raises:
        ClusterError: the command is unknown, an argument is missing or unknown, or the cluster
            refused the command.
        InvalidArgumentError: an argument's value is not allowed.
    """
    known = commands(cluster)
    if name not in known:
        raise ClusterError(f"unknown command {name!r}; known: {', '.join(sorted(known))}")
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
            name, f"called with arguments of the right types ({error})", arguments
        ) from error
    return result
