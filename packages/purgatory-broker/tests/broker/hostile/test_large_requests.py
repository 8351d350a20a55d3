"""Requests with many elements: their time and memory are limited."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from purgatory_broker import ClusterProcess
from purgatory_broker._wire.apis import Api
from purgatory_broker.cluster.async_cluster import AsyncCluster
from tests.broker.hostile.client import check_clients_are_served
from tests.broker.hostile.conftest import RunScenario
from tests.broker.hostile.corpus import request
from tests.broker.hostile.large_requests import LARGE_REQUESTS, Fields
from tests.broker.hostile.process_memory import peak_resident_kb
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import TOPIC, leader_of, with_size

#: The limit on a process's memory after all large requests, one after the other: 40 MB at the
#: start, 100 MiB for one request and its response (see `_wire.reader`), and what the allocator
#: keeps.
MAX_RESIDENT_KB = 200_000
#: The limit on a request's processor time, not wall time, since the machine may be busy. Every
#: request takes less than three seconds.
MAX_SECONDS = 15.0


@pytest.mark.slow
@pytest.mark.parametrize(("api", "version", "fields"), LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
def test_large_request_is_handled_soon(
    run_scenario: RunScenario, api: Api, version: int, fields: Fields
) -> None:
    """A handler of quadratic time would take minutes."""

    async def scenario(cluster: AsyncCluster) -> None:
        raw = with_size(request(api, version, **fields()))
        connection = RawConnection(cluster.nodes[leader_of(cluster)])
        begin = time.thread_time()
        connection.send(raw)
        await asyncio.sleep(1)
        seconds = time.thread_time() - begin
        assert connection.transport.is_closed or len(connection.responses()) == 1
        connection.end()
        assert seconds < MAX_SECONDS, f"{seconds:.1f} s"
        await check_clients_are_served(cluster)

    run_scenario(scenario)


@pytest.mark.slow
def test_large_requests_stay_below_the_memory_limit(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with ClusterProcess(nodes=1) as process:
        process.create_topic(TOPIC, partitions=2)
        host, port = process.bootstrap_servers.split(":")
        for api, version, fields in LARGE_REQUESTS.values():
            with socket.create_connection((host, int(port)), 60) as connection:
                connection.sendall(with_size(request(api, version, **fields())))
                with connection.makefile("rb") as answers:
                    size = int.from_bytes(answers.read(4))
                    assert len(answers.read(size)) == size
        assert peak_resident_kb(process) < MAX_RESIDENT_KB
    assert "ERROR" not in capfd.readouterr().err
