"""A cluster process that is killed while producers write to it, in some seconds of real time."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from purgatory_broker import ClusterProcess
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import fetch, produce
from tests.broker.replication.cluster_harness import fetched_values

TIME_LIMIT_S = 30.0


class Writer(threading.Thread):
    """Produces with acks=all to one partition until its connection closes."""

    def __init__(self, addresses: list[str], topic: str, leader: int) -> None:
        super().__init__()
        self.client = RawClient(addresses[leader])
        self.topic = topic
        self.acknowledged: dict[int, bytes] = {}
        self.progress = threading.Semaphore(0)

    def run(self) -> None:
        """Produce, and note the acknowledged records."""
        number = len(self.topic) * 1_000_000
        try:
            while True:
                value = b"%d" % number * random.Random(number).randint(1, 200)
                reply = produce(self.client, self.topic, value)
                if reply.error_code == ErrorCode.NONE:
                    self.acknowledged[reply.base_offset] = value
                    self.progress.release()
                number += 1
        except (ConnectionClosedError, OSError):
            pass
        finally:
            self.client.close()

    def wait_for(self, count: int) -> None:
        """Wait until `count` more records are acknowledged."""
        for _ in range(count):
            assert self.progress.acquire(timeout=TIME_LIMIT_S)


def leader_of(cluster: ClusterProcess, topic: str) -> int:
    """Return the leader of a topic's only partition."""
    return int(cluster.describe_topic(topic)[0]["leader"])


@pytest.mark.parametrize("seed", [1, 2])
def test_every_acknowledged_record_survives_sigkill(tmp_path: Path, seed: int) -> None:
    topics = ["a", "bb"]
    acknowledged: dict[str, dict[int, bytes]] = {topic: {} for topic in topics}
    settings = {"data_dir": tmp_path, "flush_messages": 1, "min_insync_replicas": 2}
    for round_ in range(2):
        with ClusterProcess(nodes=3, **settings) as cluster:
            addresses = cluster.bootstrap_servers.split(",")
            if round_ == 0:
                for topic in topics:
                    cluster.create_topic(topic, partitions=1, replication_factor=3)
            writers = [Writer(addresses, topic, leader_of(cluster, topic)) for topic in topics]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.wait_for(random.Random(seed * 10 + round_).randint(5, 60))
            cluster.kill_process()
            for writer in writers:
                writer.join(TIME_LIMIT_S)
                acknowledged[writer.topic].update(writer.acknowledged)
    # A torn batch at the end of one log, as a power failure would leave it.
    torn = tmp_path / "node-1" / "a-0" / f"{0:020d}.log"
    with torn.open("ab") as file:
        file.write(torn.read_bytes()[:70])
    with ClusterProcess(nodes=3, **settings) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        for topic in topics:
            client = RawClient(addresses[leader_of(cluster, topic)])
            last = produce(client, topic, b"last")
            assert last.error_code == ErrorCode.NONE
            found: list[bytes | None] = []
            while len(found) <= last.base_offset:
                fetched = fetch(client, topic, len(found))
                assert fetched.error_code == ErrorCode.NONE
                found += fetched_values(fetched.records)
            client.close()
            assert found[-1] == b"last"
            assert len(acknowledged[topic]) >= 10
            for offset, value in acknowledged[topic].items():
                assert found[offset] == value
    logs = {
        topic: [
            PartitionLog.open(topic, tmp_path / f"node-{node}" / f"{topic}-0", LogSettings())
            for node in range(3)
        ]
        for topic in topics
    }
    for replicas in logs.values():
        for log in replicas:
            log.check()
            log.close()
        assert len({log.end_offset for log in replicas}) == 1
