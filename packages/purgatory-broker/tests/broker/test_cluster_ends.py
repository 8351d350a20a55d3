"""Commands before a cluster's block, and those that its end overtakes."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import AsyncCluster, Cluster, ClusterError, ClusterSettings
from purgatory_broker.cluster._commands.cluster_commands import COMMANDS
from purgatory_broker.cluster.network import CONTROLLER
from purgatory_broker.cluster.node import Node

TIME_LIMIT = 30.0
#: More rounds of the loop than a reset takes.
ROUNDS = 60

#: Arguments of commands by the parameter's name.
ARGUMENTS: dict[str, Any] = {
    "api": "Produce",
    "by_ms": 5,
    "error": "NOT_LEADER_OR_FOLLOWER",
    "kind": "disconnect",
    "latency_ms": 5,
    "listener": "PLAINTEXT",
    "name": "t",
    "node": 0,
    "partition": 0,
    "topic": "t",
    "transactional_id": "t",
}


async def run(cluster: AsyncCluster, command: str) -> None:
    """Run a command with the arguments that it requires."""
    parameters = list(inspect.signature(COMMANDS[command]).parameters.values())[1:]
    required = [each.name for each in parameters if each.default is inspect.Parameter.empty]
    result = getattr(cluster, command)(**{name: ARGUMENTS[name] for name in required})
    if inspect.isawaitable(result):
        await result


def require_free(address: str) -> None:
    """Raise an OSError if a socket of this or of another process is bound to an address."""
    host, _, port = address.rpartition(":")
    with socket.socket() as other:
        other.bind((host, int(port)))


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"bootstrap_servers"}))
def test_command_of_an_async_cluster_is_refused_outside_its_block(command: str) -> None:
    async def main() -> None:
        cluster = AsyncCluster()
        for _ in range(2):
            with pytest.raises(ClusterError, match=f"{command}: the cluster is not running"):
                await run(cluster, command)
            if cluster.nodes[0].server.listeners[0].port == 0:
                async with cluster:
                    pass

    asyncio.run(main())


def test_async_cluster_intercepts_nothing_outside_its_block() -> None:
    async def main() -> None:
        cluster = AsyncCluster()
        with pytest.raises(ClusterError, match="intercept: the cluster is not running"):
            cluster.intercept(None, print)
        async with cluster:
            cluster.intercept(None, print)
        with pytest.raises(ClusterError, match="intercept: the cluster is not running"):
            cluster.intercept(None, print)

    asyncio.run(main())


def test_late_reset_leaves_the_next_cluster_of_the_directory_alone(tmp_path: Path) -> None:
    async def main() -> None:
        settings = ClusterSettings(data_dir=tmp_path)
        async with AsyncCluster(settings) as ended:
            pass
        async with AsyncCluster(settings) as cluster:
            cluster.create_topic("precious")
            with pytest.raises(ClusterError, match="reset: the cluster is not running"):
                await ended.reset()
            require_free(ended.bootstrap_servers)
        async with AsyncCluster(settings) as cluster:
            assert cluster.describe_topic("precious")

    asyncio.run(main())


@pytest.mark.parametrize("command", ["reset", "restart"])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["", "cancelled"])
def test_end_of_an_async_cluster_ends_a_command_under_way(command: str, is_cancelled: bool) -> None:
    async def end_after(rounds: int) -> bool:
        loop: Any = asyncio.get_running_loop()
        watched = sorted(loop._selector.get_map())
        cluster = AsyncCluster(ClusterSettings(nodes=2))
        commands: list[asyncio.Task[None]] = []

        async def block() -> None:
            async with cluster:
                for node in range(2):
                    cluster.kill(node)
                    arguments = [node] if command == "restart" else []
                    commands.append(asyncio.create_task(getattr(cluster, command)(*arguments)))
                for _ in range(rounds):
                    await asyncio.sleep(0)
                was_running.append(not commands[-1].done())
                if is_cancelled:
                    loop.call_soon(blocks.cancel)

        was_running: list[bool] = []
        blocks = asyncio.create_task(block())
        await asyncio.wait([blocks], timeout=TIME_LIMIT)
        assert blocks.done()
        if is_cancelled:
            await asyncio.wait(commands, timeout=TIME_LIMIT)
        for task in commands:
            assert task.done()
            assert isinstance(task.exception(), (ClusterError, type(None)))
        for address in cluster.addresses():
            require_free(address)
        assert sorted(loop._selector.get_map()) == watched
        return was_running[0]

    async def main() -> None:
        for rounds in range(ROUNDS):
            if not await end_after(rounds):
                return
        raise AssertionError("the command takes longer")

    asyncio.run(main())


def test_message_on_its_way_at_the_end_of_a_cluster_is_lost() -> None:
    async def main() -> None:
        delivered: list[None] = []
        async with AsyncCluster() as cluster:
            cluster.network.send(0, CONTROLLER, lambda: delivered.append(None))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not delivered

    asyncio.run(main())


@pytest.mark.parametrize("command", ["reset", "restart"])
def test_cluster_that_another_thread_closes_ends_a_command_under_way(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    cluster = Cluster().start()
    cluster.kill(0)
    start, is_under_way = Node.start, threading.Event()

    async def start_at_the_end(node: Node) -> None:
        is_under_way.set()
        assert cluster._stopping is not None
        await cluster._stopping.wait()
        await start(node)

    monkeypatch.setattr(Node, "start", start_at_the_end)
    arguments = {"node": 0} if command == "restart" else {}
    with ThreadPoolExecutor() as threads:
        called = threads.submit(cluster.call, command, **arguments)
        assert is_under_way.wait(TIME_LIMIT)
        cluster.close()
        require_free(cluster.bootstrap_servers)
        with pytest.raises(ClusterError, match=f"{command}: the cluster is not running"):
            called.result(TIME_LIMIT)


def test_command_that_comes_with_the_last_turn_of_the_loop_is_refused() -> None:
    cluster = Cluster().start()
    loop = cluster._loop
    assert loop is not None
    with ThreadPoolExecutor() as threads, pytest.MonkeyPatch.context() as patched:
        called = []

        async def call_meanwhile() -> None:
            called.append(threads.submit(cluster.reset))
            while not cluster._calls:
                threading.Event().wait(0.001)

        patched.setattr(loop, "shutdown_default_executor", call_meanwhile)
        cluster.close()
        with pytest.raises(ClusterError, match="reset: the cluster has stopped"):
            called[0].result(TIME_LIMIT)
    assert not asyncio.all_tasks(loop)


def test_wait_that_the_end_of_an_async_cluster_overtakes_is_a_cluster_error() -> None:
    async def scenario() -> None:
        async with AsyncCluster() as cluster:
            cluster.create_topic("t")
            waiting = asyncio.ensure_future(cluster.wait_for(records=("t", 1), timeout=60))
            await asyncio.sleep(0)
        with pytest.raises(ClusterError, match="wait_for: the cluster has stopped"):
            await waiting

    asyncio.run(scenario())


def test_async_cluster_that_is_entered_again_runs_on() -> None:
    async def scenario() -> None:
        cluster = AsyncCluster()
        async with cluster:
            with pytest.raises(RuntimeError, match="one block only"):
                await cluster.__aenter__()
            host, port = cluster.bootstrap_servers.split(":")
            await asyncio.open_connection(host, int(port))
        with pytest.raises(RuntimeError, match="one block only"):
            await cluster.__aenter__()

    asyncio.run(scenario())


def test_failure_of_the_clusters_thread_is_raised_by_close() -> None:
    def stop() -> None:
        raise SystemExit("stopped by hand")

    cluster = Cluster().start()
    loop, thread = cluster._loop, cluster._thread
    assert loop is not None
    assert thread is not None
    loop.call_soon_threadsafe(stop)
    thread.join(TIME_LIMIT)
    with pytest.raises(ClusterError, match="it has failed with SystemExit"):
        cluster.faults()
    with pytest.raises(SystemExit, match="stopped by hand"):
        cluster.close()
