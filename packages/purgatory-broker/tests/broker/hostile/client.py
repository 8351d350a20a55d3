"""A regular client on an event loop, to check that the broker still serves it."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from purgatory_broker._wire.apis import Api
from purgatory_broker.cluster.async_cluster import AsyncCluster
from tests.broker import apis
from tests.broker.hostile.corpus import request
from tests.broker.hostile.sample_requests import with_size
from tests.broker.raw_requests import fetch_fields, records
from tests.broker.wire.schemas import response_class

_CHECK = "good"


class Client:
    """A connection that sends one request at a time."""

    _connected: ClassVar[list[Client]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._connected.append(self)

    @classmethod
    async def to(cls, cluster: AsyncCluster, node: int = 0) -> Client:
        """Connect to a node."""
        listener, *_ = cluster.nodes[node].server.listeners
        return cls(*await asyncio.open_connection(listener.host, listener.port, limit=2**26))

    async def call(self, api: Api, version: int, /, **fields: Any) -> Any:
        """Send a request and return its response.

        Raises asyncio.IncompleteReadError if the broker closes the connection instead.
        """
        self.writer.write(with_size(request(api, version, **fields)))
        return await self.read(api, version)

    async def read(self, api: Api, version: int) -> Any:
        """Return the next response."""
        frame = await self.read_frame()
        flexible = api.is_flexible(version) and api.has_tagged_header
        return response_class(api).decode(frame[5 if flexible else 4 :], version=version)

    async def read_frame(self) -> bytes:
        """Return the frame of the next response."""
        size = int.from_bytes(await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    def close(self) -> None:
        """Close the connection."""
        self.writer.transport.abort()

    @classmethod
    async def close_all(cls) -> None:
        """Close the connections that the scenario left open."""
        while cls._connected:
            cls._connected.pop().close()
        await asyncio.sleep(0)


async def check_clients_are_served(cluster: AsyncCluster) -> None:
    """Assert that a client can create a topic, produce to it and fetch from it."""
    if _CHECK not in cluster.controller.topics:
        cluster.create_topic(_CHECK)
        await asyncio.sleep(1)  # In virtual time: the followers fetch.
    leader = cluster.controller.topics[_CHECK].partitions[0].leader
    client = await Client.to(cluster, leader)
    data = [{"name": _CHECK, "partition_data": [{"index": 0, "records": records(b"still there")}]}]
    produced = await client.call(apis.PRODUCE, 9, acks=-1, timeout_ms=5_000, topic_data=data)
    partition = produced.responses[0].partition_responses[0]
    assert partition.error_code == 0, produced
    fetched = await client.call(apis.FETCH, 11, **fetch_fields(_CHECK, partition.base_offset))
    assert b"still there" in fetched.responses[0].partitions[0].records, fetched
    client.close()
