"""Every wrong call of a cluster's commands: a documented error, and a cluster that goes on."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from request_purgatory import InvalidArgumentError
from tests.misuse.hostile_values import HOSTILE, HostileError

pytest.importorskip("kafka", reason="the broker needs the extra `broker`")

from purgatory_broker import AsyncCluster, Cluster, ClusterError
from purgatory_broker.cluster._commands.cluster_commands import COMMANDS
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.metadata.topics import ControllerError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: What a wrong call may raise. The last but one are what an AsyncCluster's own methods refuse by.
EXPECTED = (
    *(InvalidArgumentError, ClusterError, TypeError),
    *(ControllerError, RecordError, HostileError),
)

#: Arguments that are right, by the parameter's name.
RIGHT: dict[str, Any] = {
    "api": "Produce",
    "by_ms": 5,
    "error": "NOT_LEADER_OR_FOLLOWER",
    "fault": "disconnect",
    "function": lambda *_: None,
    "kind": "disconnect",
    "latency_ms": 5,
    "listener": "PLAINTEXT",
    "name": "orders",
    "node": 0,
    "offset": 0,
    "partition": 0,
    "topic": "orders",
}

#: Seconds for one call; `wait_for` takes its own time.
TIME_LIMIT = 2.0


def wrong_arguments(command: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the wrong arguments of a command, each with its name, as `PARAMETER=VALUE`."""
    parameters = list(inspect.signature(COMMANDS[command]).parameters.values())[1:]
    required = {
        parameter.name: RIGHT.get(parameter.name)
        for parameter in parameters
        if parameter.default is inspect.Parameter.empty
    }
    found = [
        (f"{parameter.name}={name}", {**required, parameter.name: make()})
        for parameter in parameters
        for name, make in HOSTILE.items()
    ]
    if required:
        found.append(("no argument", {}))
    return [*found, ("unknown keyword", {**required, "no_such_parameter": None})]


def is_wrong(error: BaseException) -> bool:
    """Return True for an error that comes from inside."""
    return not isinstance(error, EXPECTED)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_async_cluster_refuses_or_obeys(command: str) -> None:
    async def run() -> list[str]:
        found = []
        async with AsyncCluster() as cluster:
            cluster.create_topic("orders")
            for shown, arguments in wrong_arguments(command):
                try:
                    result = getattr(cluster, command)(**arguments)
                    if inspect.isawaitable(result):
                        await asyncio.wait_for(result, TIME_LIMIT)
                except TimeoutError:
                    if command != "wait_for":
                        found.append(f"{shown}: takes longer than {TIME_LIMIT} s")
                except BaseException as error:
                    if is_wrong(error):
                        found.append(f"{shown}: {type(error).__name__}: {error}")
            cluster.check()
            await cluster.reset()
            cluster.create_topic("after")
            assert cluster.describe_topic("after")
        return found

    assert not asyncio.run(run())


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"wait_for"}))
def test_cluster_refuses_or_obeys(command: str) -> None:
    found = []
    with Cluster() as cluster:
        cluster.create_topic("orders")
        for shown, arguments in wrong_arguments(command):
            try:
                getattr(cluster, command)(**arguments)
            except BaseException as error:
                if is_wrong(error):
                    found.append(f"{shown}: {type(error).__name__}: {error}")
        cluster.reset()
        cluster.create_topic("after")
        assert cluster.describe_topic("after")
    assert not found


def test_cluster_refuses_names_that_are_no_commands() -> None:
    found = []
    with Cluster() as cluster:
        for name, make in HOSTILE.items():
            try:
                cluster.call(make())  # type: ignore[arg-type]
            except BaseException as error:
                if is_wrong(error):
                    found.append(f"{name}: {type(error).__name__}: {error}")
        assert cluster.groups() == {}
    assert not found
