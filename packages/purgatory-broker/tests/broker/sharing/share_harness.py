"""A cluster in virtual time with members of share groups that send requests to its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID

from purgatory_broker._wire.messages import Header, encode_response
from purgatory_broker._wire.protocol.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from purgatory_broker._wire.protocol.share_fetch import (
    AcknowledgementBatch as FetchAcknowledgementBatch,
)
from purgatory_broker._wire.protocol.share_fetch import (
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from purgatory_broker.api.registry import APIS, find_api
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.request_context import Client, RequestContext
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.sharing.state import ShareKey, ShareState
from tests.broker.replication.cluster_harness import KEY, ClusterHarness, Reply
from tests.unit.aio.virtual import run

GROUP = "workers"
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
#: First and last offset, and the acknowledge types.
Acknowledged = tuple[int, int, Sequence[int]]


class ShareHarness(ClusterHarness):
    """Its topic `orders` has a state for the group `workers`, which begins at the first record."""

    async def prepare(self, start_offset: int = 0) -> None:
        """Create the topic, and initialize the state of its partition."""
        await self.create_topic()
        await self.initialize(start_offset)

    async def initialize(
        self, start_offset: int = 0, state_epoch: int = 0, partition: int = KEY.partition
    ) -> None:
        """Initialize the state of a share partition, as the group coordinator does."""
        reply: Reply[Any] = Reply(asyncio.get_running_loop().time())
        key = self.share_key._replace(partition=partition)
        self.node(0).share_states.initialize(key, state_epoch, start_offset, reply.take)
        await reply.get()

    async def add_partition(self) -> None:
        """Give the topic a second partition, with a state."""
        self.cluster.controller.topic_changes.add_partitions(KEY.topic, 2, None)
        await self.settle()
        await self.initialize(partition=1)

    @property
    def topic_id(self) -> UUID:
        """The id of the topic."""
        return self.cluster.controller.topics[KEY.topic].topic_id

    @property
    def share_key(self) -> ShareKey:
        """The share partition of the tests."""
        return ShareKey(GROUP, self.topic_id, KEY.partition)

    def stored(self) -> ShareState | None:
        """Return what a coordinator has stored."""
        states = [node.share_coordinator.state_of(self.share_key) for node in self.cluster.nodes]
        return next((state for state in states if state is not None), None)


class Member:
    """A member of a share group, with one connection to each node."""

    def __init__(self, harness: ShareHarness, name: str, group: str = GROUP) -> None:
        self.harness = harness
        self.name = name
        self.group = group
        self.epochs: dict[int, int] = {}
        self._ends: dict[int, dict[str, Callable[[], None]]] = {}
        self._contexts: dict[int, list[RequestContext]] = {}

    def send(self, node: int, request: Any) -> Reply[Any]:
        """Send a request, and return its reply."""
        reply: Reply[Any] = Reply(asyncio.get_running_loop().time())
        api = find_api(type(request).__name__.removesuffix("Request"))
        assert api in APIS.values()

        def answer(_context: RequestContext, response: Any) -> None:
            # What can't be written would close the connection.
            encode_response(header, response)
            reply.take(response)

        header = Header(api, api.versions[1], 1, self.name, 0, is_supported=True)
        context = RequestContext(
            header,
            Client(self.name, "/127.0.0.1"),
            answer,
            lambda _reason: None,
            connection_ends=self._ends.setdefault(node, {}),
        )
        self._contexts.setdefault(node, []).append(context)
        self.harness.node(node).requests.handle(context, request)
        return reply

    def fetch(
        self,
        *acknowledged: Acknowledged,
        node: int = 0,
        epoch: int | None = None,
        max_wait_ms: int = 500,
        max_records: int = 500,
        batch_size: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 2**20,
        acquire_mode: int = 0,
        partitions: Sequence[int] = (KEY.partition,),
    ) -> Reply[ShareFetchResponse]:
        """Fetch, in a new session or in the present one."""
        epoch = self.next_epoch(node) if epoch is None else epoch
        named = [
            FetchPartition(
                partition_index=number,
                acknowledgement_batches=[
                    FetchAcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=list(types)
                    )
                    for first, last, types in acknowledged
                ],
            )
            for number in partitions
        ]
        topic = FetchTopic(topic_id=self.harness.topic_id, partitions=named)
        return self.send(
            node,
            ShareFetchRequest(
                group_id=self.group,
                member_id=self.name,
                share_session_epoch=epoch,
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                max_records=max_records,
                batch_size=batch_size,
                share_acquire_mode=acquire_mode,
                topics=[topic],
            ),
        )

    def next_epoch(self, node: int = 0) -> int:
        """Return the epoch of the next request to a node."""
        epoch = self.epochs.get(node, 0)
        self.epochs[node] = epoch + 1
        return epoch

    async def acquire(self, *acknowledged: Acknowledged, **options: Any) -> list[tuple[int, ...]]:
        """Fetch, and return the acquired ranges with their delivery counts."""
        data = partition_of(await self.fetch(*acknowledged, **options).get())
        return [] if data is None else ranges(data)

    def acknowledge(
        self, *acknowledged: Acknowledged, node: int = 0, epoch: int | None = None
    ) -> Reply[ShareAcknowledgeResponse]:
        """Acknowledge without a fetch."""
        epoch = self.next_epoch(node) if epoch is None else epoch
        partition = AcknowledgePartition(
            partition_index=KEY.partition,
            acknowledgement_batches=[
                AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                )
                for first, last, types in acknowledged
            ],
        )
        topic = AcknowledgeTopic(topic_id=self.harness.topic_id, partitions=[partition])
        return self.send(
            node,
            ShareAcknowledgeRequest(
                group_id=self.group,
                member_id=self.name,
                share_session_epoch=epoch,
                is_renew_ack=any(RENEW in types for _, _, types in acknowledged),
                topics=[topic],
            ),
        )

    async def acknowledged(self, *acknowledged: Acknowledged, **options: Any) -> int:
        """Acknowledge, and return the error of the partition, or that of the request."""
        response = await self.acknowledge(*acknowledged, **options).get()
        if response.error_code:
            return response.error_code
        return response.responses[0].partitions[0].error_code

    def disconnect(self, node: int = 0) -> None:
        """End the connection to a node."""
        for context in self._contexts.pop(node, []):
            if not context.answered:
                context.cancel()
        ends = self._ends.pop(node, {})
        while ends:
            ends.popitem()[1]()
        self.epochs.pop(node, None)


def partition_of(response: ShareFetchResponse) -> PartitionData | None:
    """Return the only partition of a response; None if it has none."""
    assert not response.error_code, response.error_code
    return response.responses[0].partitions[0] if response.responses else None


def by_partition(response: ShareFetchResponse) -> dict[int, list[tuple[int, ...]]]:
    """Return the acquired ranges of each partition of a response."""
    assert not response.error_code, response.error_code
    return {
        data.partition_index: ranges(data)
        for topic in response.responses
        for data in topic.partitions
    }


def ranges(data: PartitionData) -> list[tuple[int, ...]]:
    """Return the acquired ranges: first and last offset, and delivery count."""
    return [
        (each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records
    ]


def run_shares(
    scenario: Callable[[ShareHarness], Coroutine[Any, Any, None]],
    *,
    nodes: int = 1,
    **settings: Any,
) -> None:
    """Run a scenario in virtual time, with the topic and the state in place."""

    async def main() -> None:
        async with AsyncCluster(ClusterSettings(nodes=nodes, **settings)) as cluster:
            harness = ShareHarness(cluster)
            await harness.prepare()
            await scenario(harness)
            for node in cluster.nodes:
                for led in node.share_partitions:
                    if led.records is not None:
                        led.records.check()

    run(main)
