"""A cluster in virtual time whose nodes handle requests without connections."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.messages import Header
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.cluster.node import Node
from purgatory_broker.log.batch import split_batches
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.record import read_records
from purgatory_broker.log.transaction_marker import TransactionMarker
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_fetch import (
    FetchedPartition,
    FetchParams,
    FetchTarget,
)
from purgatory_broker.replication.delayed_partitions import ProducedPartition
from purgatory_broker.replication.record_deletions import DeletedPartition
from purgatory_broker.replication.replica import Replica
from purgatory_broker.request_context import ANONYMOUS, Client, RequestContext
from purgatory_broker.settings import ClusterSettings
from tests.broker.log.batches import NOW, batch, contents
from tests.broker.log.transactions import transactional
from tests.broker.parity.raw import message
from tests.broker.wire.schemas import read_body, request_class
from tests.unit.aio.virtual import run

T = TypeVar("T")

#: The partition of most tests: the only one of the topic that `run_scenario` creates.
KEY = TopicPartition("orders", 0)
ALL = -1
LAG_MS = 10_000


@dataclass
class Reply(Generic[T]):
    """The reply to a request, and how often the request was answered."""

    sent_at: float
    value: T | None = None
    count: int = 0
    arrived_at: float = 0.0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, value: T) -> None:
        """Note a reply."""
        self.value = value
        self.count += 1
        self.arrived_at = asyncio.get_running_loop().time()
        self.arrived.set()

    @property
    def done(self) -> bool:
        """True once the request was answered; asserts that it was not answered twice."""
        assert self.count <= 1, self.value
        return self.count == 1

    @property
    def waited_ms(self) -> int:
        """Milliseconds of virtual time from the request to its reply."""
        assert self.done
        return round((self.arrived_at - self.sent_at) * 1_000)

    async def get(self) -> T:
        """Wait for the reply, and return it."""
        await asyncio.wait_for(self.arrived.wait(), 1_000)
        assert self.done
        assert self.value is not None
        return self.value


class ClusterHarness:
    """A cluster with the topic `orders`: one partition, replicas on all nodes, led by node 0."""

    def __init__(self, cluster: AsyncCluster) -> None:
        self.cluster = cluster

    async def create_topic(self, **configs: str) -> None:
        """Create the topic, and wait until all nodes know it."""
        self.cluster.create_topic(
            KEY.topic,
            partitions=1,
            replication_factor=len(self.cluster.nodes),
            configs=dict(configs),
        )
        await self.settle()

    async def settle(self) -> None:
        """Deliver every message without latency; no waiting request times out."""
        await asyncio.sleep(0.001)

    async def until(self, condition: Callable[[], object], limit_ms: int = 60_000) -> None:
        """Let time pass until a condition is true."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_ms / 1_000
        while not condition():
            assert loop.time() < end, f"not true after {limit_ms} ms: {self.state()}"
            await asyncio.sleep(0.01)

    # -- state

    def node(self, node: int) -> Node:
        """Return a node."""
        return self.cluster.nodes[node]

    def replica(self, node: int, key: TopicPartition = KEY) -> Replica:
        """Return a node's replica."""
        return self.cluster.nodes[node].replicas.replicas[key]

    def log(self, node: int, key: TopicPartition = KEY) -> PartitionLog:
        """Return a replica's log."""
        return self.replica(node, key).log

    def values(self, node: int, key: TopicPartition = KEY) -> list[bytes | None]:
        """Return the values in a replica's log."""
        return [value for _, value in contents(self.log(node, key))]

    def state(self, key: TopicPartition = KEY) -> dict[str, Any]:
        """Return the state of a partition, as `describe_topic` does."""
        # Without the check of the loop: the models look between their steps, when it stands still.
        describe = inspect.unwrap(AsyncCluster.describe_topic)
        return dict(describe(self.cluster, key.topic)[key.partition])

    @property
    def leader(self) -> int:
        """The leader, as the controller knows it."""
        return int(self.state()["leader"])

    @property
    def isr(self) -> set[int]:
        """The in-sync replicas, as the controller knows them."""
        return set(self.state()["isr"])

    def ends(self) -> dict[int, tuple[int, int]]:
        """Return (high watermark, end offset) by node."""
        return {
            node: (each["high_watermark"], each["end_offset"])
            for node, each in self.state()["offsets"].items()
        }

    def purgatory(self, name: str, node: int = 0) -> int:
        """Return the number of requests that wait in a purgatory."""
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
    ) -> Reply[list[ProducedPartition]]:
        """Send a batch to a node."""
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
    ) -> Reply[list[ProducedPartition]]:
        """Send several batches to a node."""
        reply: Reply[list[ProducedPartition]] = Reply(asyncio.get_running_loop().time())
        with self.node(node).actions:
            self.node(node).appends.append(acks, timeout_ms, records, reply.take)
        return reply

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
        read_committed: bool = False,
        keys: tuple[TopicPartition, ...] = (KEY,),
    ) -> Reply[list[FetchedPartition]]:
        """Send a fetch to a node, as a consumer or as a follower."""
        reply: Reply[list[FetchedPartition]] = Reply(asyncio.get_running_loop().time())
        params = FetchParams(
            replica_id, max_wait_ms, min_bytes, max_bytes, leader_only, read_committed
        )
        targets = [
            FetchTarget(key, offset, 2**20, epoch, last_epoch, 0 if replica_id >= 0 else -1)
            for key in keys
        ]
        with self.node(node).actions:
            self.node(node).fetches.fetch(params, targets, reply.take)
        return reply

    def begin(
        self,
        node: int,
        *values: bytes,
        producer: tuple[int, int, int] = (7, 0, 0),
        key: TopicPartition = KEY,
    ) -> Reply[list[ProducedPartition]]:
        """Send a batch of a transaction, with the guard that its verification would give."""
        producer_id, epoch, sequence = producer
        guard = self.log(node, key).producers.start_verification(
            producer_id, epoch, sequence, NOW, adds=False
        )
        data = transactional(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)
        reply: Reply[list[ProducedPartition]] = Reply(asyncio.get_running_loop().time())
        guards = {} if guard is None else {key: guard}
        with self.node(node).actions:
            self.node(node).appends.append(ALL, 30_000, [(key, data)], reply.take, guards=guards)
        return reply

    def end(
        self,
        node: int,
        *,
        commit: bool,
        producer_id: int = 7,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        keys: tuple[TopicPartition, ...] = (KEY,),
    ) -> Reply[dict[TopicPartition, ErrorCode]]:
        """Let a node write the markers of a transaction."""
        reply: Reply[dict[TopicPartition, ErrorCode]] = Reply(asyncio.get_running_loop().time())
        marker = TransactionMarker(producer_id, epoch, commit, coordinator_epoch)
        self.node(node).markers.write(marker, keys, reply.take)
        return reply

    def delete(
        self, node: int, offset: int, *, timeout_ms: int = 30_000, key: TopicPartition = KEY
    ) -> Reply[list[DeletedPartition]]:
        """Send a request to delete the records before an offset."""
        reply: Reply[list[DeletedPartition]] = Reply(asyncio.get_running_loop().time())
        with self.node(node).actions:
            self.node(node).deletions.delete_records(timeout_ms, [(key, offset)], reply.take)
        return reply


def fetched_values(data: bytes) -> list[bytes | None]:
    """Return the values of all fetched batches."""
    return [
        record.value
        for header, each in split_batches(data)
        for record in read_records(header, each)
    ]


def error(reply: list[Any]) -> ErrorCode:
    """Return the error of a reply with one partition."""
    assert len(reply) == 1
    code: ErrorCode = reply[0].error
    return code


def run_scenario(
    scenario: Callable[[ClusterHarness], Coroutine[Any, Any, T]],
    *,
    data_dir: Path | None = None,
    **settings: Any,
) -> T:
    """Run a scenario on a cluster of three nodes, and check every invariant at its end."""
    configs = settings.pop("configs", {})
    given = {"nodes": 3, "replica_lag_time_max_ms": LAG_MS, "data_dir": data_dir, **settings}

    failures: list[dict[str, Any]] = []

    async def main() -> T:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: failures.append(context)
        )
        async with AsyncCluster(ClusterSettings(**given), wall_ms=lambda: NOW) as cluster:
            harness = ClusterHarness(cluster)
            if KEY.topic not in cluster.controller.topics:
                await harness.create_topic(**configs)
            result = await scenario(harness)
            cluster.check()
        assert not failures, failures
        return result

    return run(main)


def handle_request(
    harness: ClusterHarness,
    node: int,
    api: Api,
    version: int,
    /,
    *,
    client_id: str = "test",
    user: str = ANONYMOUS,
    **fields: Any,
) -> tuple[Reply[Any], RequestContext]:
    """Let a node handle a request as from a connection; return its reply and its context."""
    reply: Reply[Any] = Reply(asyncio.get_running_loop().time())
    header = Header(api, version, 1, client_id, 0, is_supported=True)
    context = RequestContext(
        header,
        Client(client_id, "/127.0.0.1", user=user),
        lambda _context, response: reply.take(response),
        lambda _reason: None,
    )
    body = message(request_class(api), fields).encode(version=version)
    request = read_body(api, version, body)
    harness.node(node).requests.handle(context, request)
    return reply, context
