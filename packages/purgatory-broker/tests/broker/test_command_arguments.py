"""The arguments of commands: the same values are refused, by the same errors, everywhere."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from purgatory_broker import (
    AsyncCluster,
    Cluster,
    ClusterError,
    ClusterProcess,
    ClusterTimeoutError,
)
from purgatory_broker.cluster._commands.cluster_commands import COMMANDS
from purgatory_broker.cluster.broker_panel import ACTIONS, broker_panel
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.metadata.topics import ControllerError
from request_purgatory.errors import InvalidArgumentError
from tests.broker.hostile.client import check_clients_are_served
from tests.broker.hostile.conftest import RunScenario, run_scenario
from tests.broker.replication.cluster_harness import ClusterHarness
from tests.broker.replication.cluster_harness import run_scenario as run_harness

__all__ = ["run_scenario"]

TIME_LIMIT = 30.0
WHOLE = "must be a whole number (an int of 64 bits)"
FINITE = "timeout must be a finite number"
ERROR = {"api": "Produce", "error": "KAFKA_STORAGE_ERROR"}
DELAY = {"api": "Produce", "kind": "delay", "delay_ms": 5}
RECORDS = {"records": ("orders", 1)}

#: Commands, their arguments, and how the error begins.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("advance_time", {"by_ms": 1.5}, f"by_ms {WHOLE}, got 1.5"),
    ("advance_time", {"by_ms": True}, f"by_ms {WHOLE}, got True"),
    ("advance_time", {"by_ms": 2**63}, f"by_ms {WHOLE}, got {2**63}"),
    ("advance_time", {"by_ms": -1}, "by_ms must be at least 0, and in sum at most 10000000000000"),
    ("set_latency", {"node": 0, "latency_ms": math.nan}, f"latency_ms {WHOLE}, got nan"),
    ("set_latency", {"node": 0, "latency_ms": math.inf}, f"latency_ms {WHOLE}, got inf"),
    ("set_latency", {"node": 0, "latency_ms": None}, f"latency_ms {WHOLE}, got None"),
    ("set_latency", {"node": 0, "latency_ms": -1}, "latency_ms must be between 0 and 2147483647"),
    ("set_latency", {"node": 0, "latency_ms": 2**31}, "latency_ms must be between 0 and 21474836"),
    ("set_latency", {"node": "0", "latency_ms": 1}, f"node {WHOLE}, got '0'"),
    ("set_latency", {"node": 3, "latency_ms": 1}, "node must be between 0 and 2, got 3"),
    ("kill", {"node": None}, f"node {WHOLE}, got None"),
    ("kill", {"node": -1}, "node must be between 0 and 2, got -1"),
    ("kill", {"node": 1.0}, f"node {WHOLE}, got 1.0"),
    ("kill", {"node": 10**5_000}, f"node {WHOLE}, got "),
    ("kill", {"node": [0] * 1_000}, f"node {WHOLE}, got '[0, 0, 0"),
    ("kill", {"node": np.array([1, 2])}, f"node {WHOLE}, got array([1, 2])"),
    ("partition_node", {"node": np.float64(1)}, f"node {WHOLE}, got "),
    ("create_topic", {"name": None}, "name must be a str, got None"),
    ("create_topic", {"name": b"orders"}, "name must be a str, got b'orders'"),
    ("create_topic", {"name": "t", "partitions": None}, f"partitions {WHOLE}, got None"),
    ("create_topic", {"name": "t", "configs": 5}, "configs must be a dict of str to (str or None)"),
    ("create_topic", {"name": "t", "configs": {"retention.ms": 5}}, "configs must be a dict of "),
    ("describe_topic", {"topic": None}, "topic must be a str, got None"),
    ("delete_topic", {"name": 5}, "name must be a str, got 5"),
    ("truncate", {"topic": "orders", "offset": -1}, "offset must be at least 0, got -1"),
    ("truncate", {"topic": "orders", "offset": 0.0}, f"offset {WHOLE} or None, got 0.0"),
    ("records", {"topic": None}, "topic must be a str, got None"),
    ("records", {"topic": "orders", "limit": "5"}, f"limit {WHOLE} or None, got '5'"),
    ("high_watermark", {"topic": "orders", "partition": None}, f"partition {WHOLE}, got None"),
    ("move_leader", {"topic": "orders", "partition": "0", "node": 0}, f"partition {WHOLE}, got '0"),
    ("bootstrap_servers_of", {"listener": None}, "listener must be a str, got None"),
    ("requests", {"api": 5}, "api must be a str or None, got 5"),
    ("requests", {"client_id": b"app"}, "client_id must be a str or None, got b'app'"),
    ("inject_request_error", ERROR | {"api": None}, "api must be a str, got None"),
    ("inject_request_error", ERROR | {"error": None}, f"error {WHOLE} or a str, got None"),
    ("inject_request_error", ERROR | {"error": 56.0}, f"error {WHOLE} or a str, got 56.0"),
    ("inject_request_error", ERROR | {"times": 1.5}, f"times {WHOLE} or None, got 1.5"),
    ("inject_request_error", ERROR | {"times": -2}, "times must be at least 1, or None "),
    ("inject_request_error", ERROR | {"topic": 3}, "topic must be a str or None, got 3"),
    ("inject_request_error", ERROR | {"client_id": 7}, "client_id must be a str or None, got 7"),
    ("inject_response_fault", DELAY | {"delay_ms": math.nan}, f"delay_ms {WHOLE}, got nan"),
    ("inject_response_fault", DELAY | {"seed": "x"}, f"seed {WHOLE} or None, got 'x'"),
    ("inject_response_fault", DELAY | {"kind": None}, "kind must be a str, got None"),
    ("wait_for", RECORDS | {"timeout": None}, f"{FINITE}, got None"),
    ("wait_for", RECORDS | {"timeout": math.nan}, f"{FINITE}, got nan"),
    ("wait_for", RECORDS | {"timeout": math.inf}, f"{FINITE}, got inf"),
    ("wait_for", RECORDS | {"timeout": 10**400}, f"{FINITE}, got "),
    ("wait_for", RECORDS | {"timeout": "5"}, f"{FINITE}, got '5'"),
    ("wait_for", RECORDS | {"timeout": True}, f"{FINITE}, got True"),
    ("wait_for", RECORDS | {"timeout": 1e300}, "timeout must be "),
    ("wait_for", {"records": "orders"}, "records must be (str, int) or None, got 'orders'"),
    ("wait_for", {"records": ("orders", None)}, "records must be (str, int) or None, got ('ord"),
    ("wait_for", {"records": ("orders", True)}, "records must be (str, int) or None, got ('ord"),
    ("wait_for", {"records": ("orders", -1)}, "records must be of a number from 0 on, got "),
    ("wait_for", {"isr": ("orders", 0, 1)}, "isr must be (str, int, [int, ...]) or None, got "),
    ("wait_for", {"isr": ("orders", 0, [3])}, "isr must be of a partition from 0 on and nodes fr"),
    ("wait_for", {"isr": ("orders", -1, [0])}, "isr must be of a partition from 0 on and nodes "),
    ("wait_for", {"group_stable": 5}, "group_stable must be a str or None, got 5"),
    ("wait_for", {"request": ("Nope", 1)}, "api must be one of "),
    ("wait_for", {"request": (None, 1)}, "request must be (str, int) or None, got (None, 1)"),
    ("wait_for", {"fault": 1}, "fault must be (int, int) or None, got 1"),
    ("wait_for", {"fault": (99, 1)}, "fault must be the id of a fault that `faults` has, got 99"),
]  # fmt: skip
IDS = [
    f"{name}-{number}-{'-'.join(each for each in arguments)}"
    for number, (name, arguments, _) in enumerate(REFUSED)
]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[ClusterClient, ClusterClient]]:
    """Run a cluster on a thread, and one in a process."""
    with Cluster(nodes=3) as thread, ClusterProcess(nodes=3) as process:
        for each in (thread, process):
            each.create_topic("orders")
        yield thread, process


@pytest.mark.parametrize(("name", "arguments", "message"), REFUSED, ids=IDS)
def test_refusal_is_the_same_everywhere(
    clusters: tuple[ClusterClient, ClusterClient],
    name: str,
    arguments: dict[str, Any],
    message: str,
) -> None:
    found = []
    for cluster in clusters:
        for call in (getattr(cluster, name), lambda each=cluster, **rest: each.call(name, **rest)):
            with pytest.raises(InvalidArgumentError) as caught:
                call(**arguments)
            found.append(caught.value)

    async def on_the_loop(harness: ClusterHarness) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            await _run(harness.cluster, name, arguments)
        found.append(caught.value)
        act = broker_panel(harness.cluster).act
        assert act is not None
        if name in ACTIONS:
            with pytest.raises(InvalidArgumentError) as caught:
                await act(name, arguments)
            found.append(caught.value)

    run_harness(on_the_loop)
    assert str(found[0]).startswith(message)
    assert {(each.name, each.requirement) for each in found} == {
        (found[0].name, found[0].requirement)
    }
    assert len({_bracketed(each) for each in found}) == 1


async def _run(cluster: AsyncCluster, name: str, arguments: dict[str, Any]) -> None:
    """Run a command as a method, and wait for its end."""
    result = getattr(cluster, name)(**arguments)
    if inspect.isawaitable(result):
        await result


def _bracketed(error: InvalidArgumentError) -> str:
    """Return the message with tuples as lists: JSON has no tuples."""
    return str(error).replace("(", "[").replace(")", "]")


def _answer(address: str, line: str) -> dict[str, Any]:
    """Return the answer of a control port to a line."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), TIME_LIMIT) as connection:
        connection.sendall(line.encode() + b"\n")
        found: dict[str, Any] = json.loads(connection.makefile("rb").readline())
    return found


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def test_control_port_refuses_the_same_by_itself(
    clusters: tuple[ClusterClient, ClusterClient],
) -> None:
    thread, process = clusters
    assert isinstance(process, ClusterProcess)
    assert process._control is not None
    for name, arguments, message in REFUSED:
        if not _is_json(arguments):
            continue
        line = json.dumps({"command": name, "arguments": arguments})
        refused = InvalidArgumentError(*_answer(process._control.address, line)["invalid"])
        with pytest.raises(InvalidArgumentError) as caught:
            thread.call(name, **json.loads(json.dumps(arguments)))
        assert _bracketed(refused) == _bracketed(caught.value)
        assert _bracketed(refused).startswith(message.replace("(", "[").replace(")", "]"))


def test_numbers_of_numpy_are_numbers(clusters: tuple[ClusterClient, ClusterClient]) -> None:
    for cluster in clusters:
        assert cluster.high_watermark("orders", np.int64(0)) == 0  # type: ignore[arg-type]
        cluster.set_latency(np.int8(1), np.int64(0))  # type: ignore[arg-type]
        for timeout in (np.float32(0.5), Fraction(1, 2), 1):
            cluster.wait_for(records=("orders", np.int64(0)), timeout=timeout)  # type: ignore[arg-type]


#: Valid arguments of the commands that have any.
VALID: dict[str, dict[str, Any]] = {
    "create_topic": {"name": "made"},
    "describe_topic": {"topic": "orders"},
    "delete_topic": {"name": "orders"},
    "truncate": {"topic": "orders"},
    "compact": {"topic": "orders"},
    "bootstrap_servers_of": {"listener": "PLAINTEXT"},
    "set_latency": {"node": 0, "latency_ms": 1},
    "move_leader": {"topic": "orders", "partition": 0, "node": 0},
    "advance_time": {"by_ms": 1},
    "fence_producer": {"transactional_id": "shop"},
    "inject_request_error": ERROR,
    "inject_response_fault": DELAY,
    "records": {"topic": "orders"},
    "high_watermark": {"topic": "orders"},
    "wait_for": RECORDS | {"timeout": 0.1},
} | {
    name: {"node": 0}
    for name in (
        "pause_replication",
        "resume_replication",
        "partition_node",
        "heal_node",
        "kill",
        "stop",
        "restart",
    )
}


class _Hostile:
    """A value whose text, number and truth can't be had."""

    def _raise(self, *_: object) -> Any:
        raise TypeError("hostile")

    __repr__ = __str__ = __index__ = __float__ = __bool__ = _raise
    __hash__ = None  # type: ignore[assignment]


#: As a timeout, these seconds would be waited for.
YEARS = 2**31
VALUES: list[Any] = [
    None, True, 0, 1, -1, YEARS, 2**63, -(2**63), 10**5_000, 0.0, 1.5, math.nan, math.inf, 1e300,
    "", "x", "\ud800", b"x", [], (), ["x", 1], ("x", -1), ["x", 0, [9]], {}, {"x": 1}, {1: "x"},
    {"retention.ms": None}, object(), _Hostile(), len, np.int64(1), np.float32(1), np.array([1, 2]),
]  # fmt: skip


def test_any_value_of_any_argument_is_taken_or_refused_by_name(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        for name, command in COMMANDS.items():
            _, *parameters = inspect.signature(command).parameters
            for parameter in parameters:
                await cluster.reset()
                cluster.create_topic("orders")
                for value in VALUES:
                    if parameter != "timeout" or value is not YEARS:
                        await _try(cluster, name, parameter, value)
        await cluster.reset()
        cluster.create_topic("hostile", partitions=2)
        await asyncio.sleep(60)
        await check_clients_are_served(cluster)

    run_scenario(scenario)


async def _try(cluster: AsyncCluster, name: str, parameter: str, value: Any) -> None:
    """Run a command with one of its arguments replaced."""
    refusals = (InvalidArgumentError, ControllerError, ClusterTimeoutError)
    with _collect(refusals) as refused:
        await _run(cluster, name, VALID.get(name, {}) | {parameter: value})
    for error in refused:
        named = error.name if isinstance(error, InvalidArgumentError) else parameter
        assert named in (parameter, name, "api"), (name, parameter, str(error))


@contextmanager
def _collect(kinds: tuple[type[Exception], ...]) -> Iterator[list[Exception]]:
    """Collect the block's exception of some kinds."""
    found: list[Exception] = []
    try:
        yield found
    except kinds as error:
        found.append(error)


def test_missing_and_unknown_arguments_are_named() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        with pytest.raises(TypeError, match="kill: missing a required argument: 'node'"):
            harness.cluster.kill()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="kill: got an unexpected keyword argument 'nodse'"):
            harness.cluster.kill(0, nodse=1)  # type: ignore[call-arg]

    run_harness(scenario)
    with Cluster() as cluster, pytest.raises(ClusterError, match="kill: got an unexpected keyword"):
        cluster.call("kill", node=0, nodse=1)
