"""Replay of the corpus: each frame gets a response or closes its connection."""

from __future__ import annotations

import asyncio
import socket

import pytest

from purgatory_broker import ClusterProcess
from purgatory_broker.cluster.async_cluster import AsyncCluster
from tests.broker.hostile.client import check_clients_are_served
from tests.broker.hostile.conftest import RunScenario, check_invariants, count_delayed_requests
from tests.broker.hostile.corpus import FOLDER, frames, streams
from tests.broker.hostile.process_memory import peak_resident_kb
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import (
    TOPIC,
    every_api_and_version,
    frame,
    with_size,
    with_topic_id,
)
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, produce

#: The limit on a process's memory after the whole corpus; it starts with 40 MB.
MAX_RESIDENT_KB = 200_000
#: The limit on the size of the corpus, which is in the repository.
MAX_CORPUS_BYTES = 1_000_000


def test_corpus_has_every_api_and_version() -> None:
    kept = {raw for _, raw in frames()}
    missing = [
        (api.name, version)
        for api, version in every_api_and_version()
        if frame(api, version) not in kept
    ]
    assert not missing, missing
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.bin")) < MAX_CORPUS_BYTES


def test_corpus_does_no_harm(run_scenario: RunScenario) -> None:
    async def replay(cluster: AsyncCluster) -> None:
        for number, (name, raw) in enumerate(frames()):
            if TOPIC not in cluster.controller.topics:
                cluster.create_topic(TOPIC, partitions=2)
                await asyncio.sleep(1)
            topic = cluster.controller.topics[TOPIC]
            connection = RawConnection(cluster.nodes[topic.partitions[0].leader])
            connection.send(with_size(with_topic_id(raw, topic.topic_id)))
            assert len(connection.responses()) <= 1, name
            connection.end()
            if number % 100 == 0:
                await asyncio.sleep(1)
                check_invariants(cluster)
        for name, raw in streams():
            connection = RawConnection(cluster.nodes[0])
            for position in range(0, len(raw), 1_000):
                connection.send(raw[position : position + 1_000])
            assert len(connection.responses()) <= 1, name
            connection.end()
        await asyncio.sleep(60)
        assert await count_delayed_requests(cluster) == 0
        await check_clients_are_served(cluster)

    run_scenario(replay)


def test_corpus_does_no_harm_to_a_process(capfd: pytest.CaptureFixture[str]) -> None:
    with ClusterProcess(nodes=2) as process:
        process.create_topic(TOPIC, partitions=2)
        host, port = process.bootstrap_servers.split(",")[0].split(":")
        for raw in [*(with_size(each) for _, each in frames()), *(each for _, each in streams())]:
            with socket.create_connection((host, int(port)), 30) as connection:
                try:
                    connection.sendall(raw)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):
                        pass
                except ConnectionError:
                    pass  # The broker closes the connection before it has read everything.
        process.create_topic("good")
        client = RawClient(
            process.bootstrap_servers.split(",")[int(process.describe_topic("good")[0]["leader"])]
        )
        assert produce(client, "good", b"still there").error_code == 0
        assert b"still there" in fetch(client, "good", 0).records
        client.close()
        assert peak_resident_kb(process) < MAX_RESIDENT_KB
    log = capfd.readouterr().err
    assert "ERROR" not in log, log[:5_000]
    assert "Traceback" not in log, log[:5_000]
