"""A start, restart or reset of a cluster that is cancelled leaves the event loop as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from purgatory_broker import AsyncCluster
from purgatory_broker.settings import ClusterSettings

#: More rounds of the loop than a start takes.
ROUNDS = 60


def watched() -> list[int]:
    loop: Any = asyncio.get_running_loop()
    return sorted(loop._selector.get_map())


async def cancel_after(rounds: int, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    task = asyncio.ensure_future(work())
    for _ in range(rounds):
        await asyncio.sleep(0)
    was_running = task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return was_running


async def answer(address: tuple[str, int]) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    # ApiVersions in version 0, of a client without a name.
    writer.write(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
    header = await asyncio.wait_for(reader.readexactly(8), 20)
    writer.close()
    return header[4:]


@pytest.mark.slow
def test_cancelled_start_leaves_no_socket_with_the_loop() -> None:
    async def start() -> None:
        async with AsyncCluster(ClusterSettings(nodes=2)):
            await asyncio.Event().wait()

    async def main() -> None:
        before = watched()
        for rounds in range(ROUNDS):
            assert await cancel_after(rounds, start)
            assert watched() == before

    asyncio.run(main())


@pytest.mark.parametrize("command", ["reset", "restart"])
def test_cluster_answers_after_a_command_that_was_cancelled_and_called_again(command: str) -> None:
    async def main() -> None:
        async with AsyncCluster(ClusterSettings(nodes=1)) as cluster:

            async def call() -> None:
                await (cluster.reset() if command == "reset" else cluster.restart(0))

            for rounds in range(ROUNDS):
                if command == "restart":
                    cluster.kill(0)
                was_running = await cancel_after(rounds, call)
                await cluster.reset()
                host, _, port = cluster.bootstrap_servers.rpartition(":")
                assert await answer((host, int(port))) == b"\x00\x00\x00\x07"
                if not was_running:
                    return
            raise AssertionError("the command takes longer")

    asyncio.run(main())
