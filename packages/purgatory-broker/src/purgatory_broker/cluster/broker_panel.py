"""A cluster's panel on the live page: its state, and buttons for the faults."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from purgatory_broker.api.registry import APIS
from purgatory_broker.cluster.cluster_overview import cluster_overview
from purgatory_broker.cluster.commands.cluster_commands import ClusterCommands
from purgatory_broker.cluster.run_command import run_command
from purgatory_broker.server.faults import RESPONSE_FAULTS
from purgatory_broker.wire.error_code import ErrorCode
from request_purgatory.dashboard.panel import Panel
from request_purgatory.errors import InvalidArgumentError

T = TypeVar("T")

#: The commands that the page may run: those that put a fault in force, and those that end one. None
#: deletes records.
ACTIONS = (
    "pause_replication",
    "resume_replication",
    "set_latency",
    "partition_node",
    "heal_node",
    "kill",
    "stop",
    "restart",
    "inject_request_error",
    "inject_response_fault",
    "clear_faults",
)


def broker_panel(cluster: ClusterCommands) -> Panel:
    """Return the panel of a cluster, for `serve_dashboard(panels=[...])`.

    Called on the cluster's event loop, on which the panel reads the cluster and runs its commands.

    Args:
        cluster: A cluster that has started.
    """
    loop = asyncio.get_running_loop()

    def on_cluster(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        try:
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        except RuntimeError:  # The loop is closed.
            work.close()
            raise

    async def overview() -> dict[str, Any]:
        return cluster_overview(cluster)

    async def read() -> dict[str, Any]:
        return await on_cluster(overview())

    async def act(action: str, arguments: dict[str, Any]) -> object:
        if action not in ACTIONS:
            raise InvalidArgumentError("action", f"one of {', '.join(ACTIONS)}", action)
        return await on_cluster(run_command(cluster, action, arguments))

    about = {
        "apis": sorted(api.name for api in APIS.values()),
        "errors": [code.name for code in ErrorCode if code is not ErrorCode.NONE],
        "response_faults": RESPONSE_FAULTS,
        "settings": {
            "min_insync_replicas": cluster.settings.min_insync_replicas,
            "replica_lag_time_max_ms": cluster.settings.replica_lag_time_max_ms,
            "broker_session_timeout_ms": cluster.settings.broker_session_timeout_ms,
        },
    }
    return Panel("broker", read, act, about)
