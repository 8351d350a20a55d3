"""What all groups of commands have in common."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster._commands.arguments import checked_call
from purgatory_broker.cluster.cluster_errors import ClusterError
from purgatory_broker.cluster.node import ClusterParts, Node
from purgatory_broker.metadata.topics import ControllerError, Topic
from request_purgatory.errors import InvalidArgumentError

if TYPE_CHECKING:
    from purgatory_broker.schema_registry.registry_server import RegistryServer

F = TypeVar("F", bound=Callable[..., Any])

#: The attribute that marks a method as a command.
_MARK = "is_cluster_command"


def command(function: F) -> F:
    """Make a command of a method, which runs on the cluster's event loop only."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def checked(*args: Any, **kwargs: Any) -> Any:
            bound = checked_call(function, *args, **kwargs)
            require_own_loop(bound.args[0], function.__name__)
            return await function(*bound.args, **bound.kwargs)

    else:

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            bound = checked_call(function, *args, **kwargs)
            require_own_loop(bound.args[0], function.__name__)
            return function(*bound.args, **bound.kwargs)

    setattr(checked, _MARK, True)
    return cast(F, checked)


def command_of_any_thread(function: F) -> F:
    """Make a command without parameters of a method that any thread may call."""
    setattr(function, _MARK, True)
    return function


def require_own_loop(cluster: CommandGroup, name: str) -> None:
    cluster.require_running(name)
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is not cluster.loop:
        raise ClusterError(
            f"{name}: the commands of an AsyncCluster are called on its event loop only; from "
            "another thread, use the loop's call_soon_threadsafe, or "
            "asyncio.run_coroutine_threadsafe for a coroutine"
        )


class CommandGroup:
    def __init__(self, parts: ClusterParts) -> None:
        self.settings = parts.settings
        self.controller = parts.controller
        self.network = parts.network
        self._faults = parts.faults
        self._interceptions = parts.interceptions
        self.wall_ms = parts.wall_ms
        self.nodes = parts.nodes
        self.waits = parts.waits
        self._parts = parts
        #: The event loop while the cluster runs, from the begin of its block to its end.
        self.loop: asyncio.AbstractEventLoop | None = None
        self._fence_timers: dict[int, asyncio.TimerHandle] = {}
        #: From `start_schema_registry` on.
        self._schema_registry: RegistryServer | None = None
        #: Held while nodes start.
        self._start_lock = asyncio.Lock()

    @classmethod
    def commands(cls) -> dict[str, Callable[..., Any]]:
        """Return the commands of this class by name, in the order of their definition."""
        functions: dict[str, Any] = {
            name: member.fget if isinstance(member, property) else member
            for name, member in vars(cls).items()
        }
        return {name: member for name, member in functions.items() if hasattr(member, _MARK)}

    @property
    def _live_nodes(self) -> list[Node]:
        return [node for node in self.nodes if not node.is_stopped]

    def require_running(self, command: str) -> None:
        if self.loop is None:
            raise ClusterError(f"{command}: the cluster is not running")

    def _node(self, node: int) -> Node:
        if not 0 <= node < len(self.nodes):
            raise InvalidArgumentError("node", f"between 0 and {len(self.nodes) - 1}", node)
        return self.nodes[node]

    def _topic(self, name: str) -> Topic:
        known = self.controller.topics.get(name)
        if known is None:
            raise ControllerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
            )
        return known
