"""The corpus, replayed: each frame gets an answer or ends its connection, and never the broker."""

from __future__ import annotations

import asyncio
import socket

import pytest

from request_purgatory.broker import ClusterProcess
from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from tests.broker.hostile.attacker import Attacker
from tests.broker.hostile.client import is_served
from tests.broker.hostile.conftest import Attack, check, delayed
from tests.broker.hostile.corpus import FOLDER, frames, streams
from tests.broker.hostile.memory import most_resident_kb
from tests.broker.hostile.requests import (
    TOPIC,
    every_api_and_version,
    frame,
    sized,
    with_topic_id,
)
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, produce

#: What a cluster's process may come to have in memory by all of it, where it starts with 40 MB.
MOST_RESIDENT_KB = 200_000
#: The whole corpus is kept with the sources.
MOST_CORPUS_BYTES = 1_000_000


def test_corpus_has_each_api_at_each_version() -> None:
    """As a client would send it, beside all that no client would; and it stays small."""
    kept = {raw for _, raw in frames()}
    missing = [
        (api.name, version)
        for api, version in every_api_and_version()
        if frame(api, version) not in kept
    ]
    assert not missing, missing
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.bin")) < MOST_CORPUS_BYTES


def test_corpus_does_no_harm(attack: Attack) -> None:
    """Nothing is logged as an error, every invariant holds all along, and nothing waits on when the connections are gone."""

    async def replay(cluster: AsyncCluster) -> None:
        for number, (name, raw) in enumerate(frames()):
            if TOPIC not in cluster.controller.topics:
                cluster.create_topic(TOPIC, partitions=2)
                await asyncio.sleep(1)
            topic = cluster.controller.topics[TOPIC]
            attacker = Attacker(cluster.nodes[topic.partitions[0].leader])
            attacker.send(sized(with_topic_id(raw, topic.topic_id)))
            assert len(attacker.answers()) <= 1, name
            attacker.end()
            if number % 100 == 0:
                await asyncio.sleep(1)
                check(cluster)
        for name, raw in streams():
            attacker = Attacker(cluster.nodes[0])
            for position in range(0, len(raw), 1_000):
                attacker.send(raw[position : position + 1_000])
            assert len(attacker.answers()) <= 1, name
            attacker.end()
        await asyncio.sleep(60)
        assert await delayed(cluster) == 0
        await is_served(cluster)

    attack(replay)


def test_corpus_leaves_a_process_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    """Over real connections, each half closed.

    It serves on, complains of nothing, and has not grown beyond what is stated.
    """
    with ClusterProcess(nodes=2) as process:
        process.create_topic(TOPIC, partitions=2)
        host, port = process.bootstrap.split(",")[0].split(":")
        for raw in [*(sized(each) for _, each in frames()), *(each for _, each in streams())]:
            with socket.create_connection((host, int(port)), 30) as connection:
                try:
                    connection.sendall(raw)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):
                        pass
                except ConnectionError:
                    pass  # It ends the connection before it has read all.
        process.create_topic("good")
        client = RawClient(process.bootstrap.split(",")[int(process.describe("good")[0]["leader"])])
        assert produce(client, "good", b"still there").error_code == 0
        assert b"still there" in fetch(client, "good", 0).records
        client.close()
        assert most_resident_kb(process) < MOST_RESIDENT_KB
    said = capfd.readouterr().err
    assert "ERROR" not in said, said[:5_000]
    assert "Traceback" not in said, said[:5_000]
