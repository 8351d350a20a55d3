"""A client that costs as little as it can.

Its requests were encoded beforehand, and of the answers it reads the size.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest

from request_purgatory.broker.log import build

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
_CLIENT = b"benchmark"
#: Versions that all sides have, without tagged fields.
PRODUCE_VERSION = 7
FETCH_VERSION = 11
METADATA_VERSION = 4
CREATE_VERSION = 4
#: Where the error code of the one partition is in an answer to Produce: size, correlation, topics,
#: name, partitions, index.
NOW_MS = 1_700_000_000_000


def frame(request: Any, version: int) -> bytes:
    """A request as it goes over the wire."""
    header = _HEADER.pack(request.API_KEY, version, 1, len(_CLIENT)) + _CLIENT
    body = header + bytes(request.encode(version=version))
    return _SIZE.pack(len(body)) + body


def produce_frame(topic: str, partition: int, size: int) -> bytes:
    """A Produce request with acks=all of one record of `size` bytes."""
    data = ProduceRequest.TopicProduceData
    records = bytes(build([(None, bytes(size))], NOW_MS))
    partitions = [data.PartitionProduceData(index=partition, records=records)]
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[data(name=topic, partition_data=partitions)],
    )
    return frame(request, PRODUCE_VERSION)


def fetch_frame(topic: str, partition: int, offset: int, max_wait_ms: int) -> bytes:
    """A Fetch request that waits for a byte."""
    wanted = FetchRequest.FetchTopic
    partitions = [
        wanted.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=2**20)
    ]
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=2**20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[wanted(topic=topic, partitions=partitions)],
        forgotten_topics_data=[],
        rack_id="",
    )
    return frame(request, FETCH_VERSION)


class Link(asyncio.Protocol):
    """A connection with one request in flight.

    `ask` writes a frame, and its future has the answer.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a frame; the answer comes without its size."""
        assert self._transport is not None
        if self._transport.is_closing():
            raise ConnectionResetError("the broker has closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < _SIZE.size:
            return
        end = _SIZE.size + _SIZE.unpack_from(self._buffer)[0]
        if len(self._buffer) >= end and self._answer is not None:
            answer = bytes(self._buffer[_SIZE.size : end])
            del self._buffer[:end]
            self._answer.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the broker has closed the connection"))

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()


async def connect(address: str) -> Link:
    """A connection to a node."""
    host, _, port = address.rpartition(":")
    _, link = await asyncio.get_running_loop().create_connection(Link, host, int(port))
    return link


async def make_topic(addresses: list[str], topic: str, replicas: int) -> str:
    """Make a topic of one partition; the address of its leader."""
    link = await connect(addresses[0])
    wanted = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            wanted(
                name=topic,
                num_partitions=1,
                replication_factor=replicas,
                assignments=[],
                configs=[],
            )
        ],
        timeout_ms=30_000,
        validate_only=False,
    )
    asked = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
    )
    try:
        await link.ask(frame(request, CREATE_VERSION))
    except ConnectionResetError:
        # librdkafka's mock cluster makes topics when they are asked for, and knows no CreateTopics.
        link = await connect(addresses[0])
    for _ in range(1_000):
        answer = MetadataResponse.decode(
            (await link.ask(frame(asked, METADATA_VERSION)))[4:], version=METADATA_VERSION
        )
        found = answer.topics[0]
        if found.error_code == 0 and found.partitions and found.partitions[0].leader_id >= 0:
            leader = found.partitions[0]
            if len(leader.isr_nodes) == replicas:
                where = {each.node_id: f"{each.host}:{each.port}" for each in answer.brokers}
                link.close()
                return where[leader.leader_id]
        await asyncio.sleep(0.02)
    raise RuntimeError(f"topic {topic} has no leader: {answer}")
