"""A cluster in virtual time whose nodes are asked directly, and answers that are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.cluster.node import Node
from request_purgatory.broker.log import PartitionLog, read_records, split
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_delete_records import DeletedPartition
from request_purgatory.broker.replication.delayed_fetch import (
    FetchedPartition,
    FetchParams,
    FetchTarget,
)
from request_purgatory.broker.replication.delayed_produce import ProducedPartition
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.server.request_context import Client, RequestContext
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.apis import Api
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.messages import Header
from tests.broker.log.batches import NOW, batch, contents
from tests.broker.parity.raw import message
from tests.unit.aio.virtual import run

T = TypeVar("T")

#: The partition that most tests are about: the first of the topic that a scene begins with.
KEY = TopicPartition("orders", 0)
ALL = -1
LAG_MS = 10_000


@dataclass
class Answer(Generic[T]):
    """What a request was answered with, and how often it was."""

    began: float
    value: T | None = None
    count: int = 0
    ended: float = 0.0
    told: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, value: T) -> None:
        """The request's reply."""
        self.value = value
        self.count += 1
        self.ended = asyncio.get_running_loop().time()
        self.told.set()

    @property
    def done(self) -> bool:
        """True once it was answered; never more than once."""
        assert self.count <= 1, self.value
        return self.count == 1

    @property
    def waited_ms(self) -> int:
        """How long it took, in milliseconds of virtual time."""
        assert self.done
        return round((self.ended - self.began) * 1_000)

    async def get(self) -> T:
        """Wait for it."""
        await asyncio.wait_for(self.told.wait(), 1_000)
        assert self.done
        assert self.value is not None
        return self.value


class Scene:
    """A cluster with the topic `orders`, of one partition that all nodes have and node 0 leads."""

    def __init__(self, cluster: AsyncCluster) -> None:
        self.cluster = cluster

    async def open(self, **configs: str) -> None:
        """Make the topic, and have everything in place."""
        self.cluster.create_topic(
            KEY.topic,
            partitions=1,
            replication_factor=len(self.cluster.nodes),
            configs=dict(configs),
        )
        await self.settle()

    async def settle(self) -> None:
        """Let what can happen without time passing happen.

        No request that is parked runs out of time.
        """
        await asyncio.sleep(0.001)

    async def until(self, condition: Callable[[], object], limit_ms: int = 60_000) -> None:
        """Let time pass until a condition holds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_ms / 1_000
        while not condition():
            assert loop.time() < end, f"did not come about in {limit_ms} ms: {self.state()}"
            await asyncio.sleep(0.01)

    # -- what is there

    def node(self, node: int) -> Node:
        """A node."""
        return self.cluster.nodes[node]

    def replica(self, node: int, key: TopicPartition = KEY) -> Replica:
        """A node's replica."""
        return self.cluster.nodes[node].replicas.replicas[key]

    def log(self, node: int, key: TopicPartition = KEY) -> PartitionLog:
        """A replica's log."""
        return self.replica(node, key).log

    def values(self, node: int, key: TopicPartition = KEY) -> list[bytes | None]:
        """The values in a replica's log."""
        return [value for _, value in contents(self.log(node, key))]

    def state(self, key: TopicPartition = KEY) -> dict[str, Any]:
        """What the cluster says of the partition."""
        return self.cluster.describe(key.topic)[key.partition]

    @property
    def leader(self) -> int:
        """The controller's leader."""
        return int(self.state()["leader"])

    @property
    def isr(self) -> set[int]:
        """The controller's in-sync replicas."""
        return set(self.state()["isr"])

    def ends(self) -> dict[int, tuple[int, int]]:
        """(high watermark, end offset) by node."""
        return {
            node: (each["high_watermark"], each["end_offset"])
            for node, each in self.state()["offsets"].items()
        }

    def purgatory(self, name: str, node: int = 0) -> int:
        """How many wait in a purgatory."""
        return self.node(node).purgatories[name].num_delayed

    # -- requests

    def produce(
        self,
        node: int,
        *values: bytes,
        acks: int = ALL,
        timeout_ms: int = 30_000,
        key: TopicPartition = KEY,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> Answer[list[ProducedPartition]]:
        """Append a batch at a node."""
        return self.produce_to(
            node, [(key, batch(*values, producer=producer))], acks=acks, timeout_ms=timeout_ms
        )

    def produce_to(
        self,
        node: int,
        records: list[tuple[TopicPartition, bytes | memoryview | None]],
        *,
        acks: int = ALL,
        timeout_ms: int = 30_000,
    ) -> Answer[list[ProducedPartition]]:
        """Append several batches at a node."""
        answer: Answer[list[ProducedPartition]] = Answer(asyncio.get_running_loop().time())
        with self.node(node).actions:
            self.node(node).replicas.append(acks, timeout_ms, records, answer.take)
        return answer

    def fetch(
        self,
        node: int,
        offset: int,
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 2**20,
        replica_id: int = -1,
        epoch: int = -1,
        last_epoch: int = -1,
        leader_only: bool = True,
        keys: tuple[TopicPartition, ...] = (KEY,),
    ) -> Answer[list[FetchedPartition]]:
        """Fetch from a node, as a consumer or as a follower."""
        answer: Answer[list[FetchedPartition]] = Answer(asyncio.get_running_loop().time())
        params = FetchParams(replica_id, max_wait_ms, min_bytes, max_bytes, leader_only)
        targets = [
            FetchTarget(key, offset, 2**20, epoch, last_epoch, 0 if replica_id >= 0 else -1)
            for key in keys
        ]
        with self.node(node).actions:
            self.node(node).replicas.fetch(params, targets, answer.take)
        return answer

    def delete(
        self, node: int, offset: int, *, timeout_ms: int = 30_000, key: TopicPartition = KEY
    ) -> Answer[list[DeletedPartition]]:
        """Delete records before an offset."""
        answer: Answer[list[DeletedPartition]] = Answer(asyncio.get_running_loop().time())
        with self.node(node).actions:
            self.node(node).replicas.delete_records(timeout_ms, [(key, offset)], answer.take)
        return answer


def fetched_values(data: bytes) -> list[bytes | None]:
    """The values of all batches that were fetched."""
    return [record.value for header, each in split(data) for record in read_records(header, each)]


def error(answer: list[Any]) -> ErrorCode:
    """The error of the one partition that an answer is about."""
    assert len(answer) == 1
    code: ErrorCode = answer[0].error
    return code


def play(
    scenario: Callable[[Scene], Coroutine[Any, Any, T]],
    *,
    data_dir: Path | None = None,
    **settings: Any,
) -> T:
    """Run a scenario on a cluster of three nodes, and look at all invariants at its end."""
    configs = settings.pop("configs", {})
    given = {"nodes": 3, "replica_lag_time_max_ms": LAG_MS, "data_dir": data_dir, **settings}

    failures: list[dict[str, Any]] = []

    async def main() -> T:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: failures.append(context)
        )
        async with AsyncCluster(ClusterSettings(**given), wall_ms=lambda: NOW) as cluster:
            scene = Scene(cluster)
            if KEY.topic not in cluster.controller.topics:
                await scene.open(**configs)
            result = await scenario(scene)
            cluster.check()
        assert not failures, failures
        return result

    return run(main)


def ask(
    scene: Scene, node: int, api: Api, version: int, /, *, client_id: str = "test", **fields: Any
) -> tuple[Answer[Any], RequestContext]:
    """Have a node handle a request as if a connection had brought it.

    What it answers, and the request's context.
    """
    answer: Answer[Any] = Answer(asyncio.get_running_loop().time())
    header = Header(api, version, 1, client_id, 0, is_served=True)
    context = RequestContext(
        header,
        Client(client_id, "/127.0.0.1"),
        0,
        lambda _context, response: answer.take(response),
        lambda _reason: None,
    )
    request = api.request.decode(
        message(api.request, fields).encode(version=version), version=version
    )
    scene.node(node).server.handle(context, request)
    return answer, context
