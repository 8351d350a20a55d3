"""A client with minimal costs of its own.

Requests are encoded in advance, and only the size of a response is decoded.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest

from purgatory_broker.log.record import build_batch

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
_CLIENT = b"benchmark"
#: Versions that all sides support, without tagged fields.
PRODUCE_VERSION = 7
FETCH_VERSION = 11
METADATA_VERSION = 4
CREATE_TOPICS_VERSION = 4
FETCH_API_KEY = FetchRequest.API_KEY
#: The timestamp of all records.
NOW_MS = 1_700_000_000_000


def encode_frame(request: Any, version: int) -> bytes:
    """Return a request as a frame with size and header."""
    header = _HEADER.pack(request.API_KEY, version, 1, len(_CLIENT)) + _CLIENT
    body = header + bytes(request.encode(version=version))
    return _SIZE.pack(len(body)) + body


def produce_frame(topic: str, partition: int, size: int) -> bytes:
    """Return a Produce request with acks=all, of one record with a value of `size` bytes."""
    data = ProduceRequest.TopicProduceData
    records = bytes(build_batch([(None, bytes(size))], NOW_MS))
    partitions = [data.PartitionProduceData(index=partition, records=records)]
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[data(name=topic, partition_data=partitions)],
    )
    return encode_frame(request, PRODUCE_VERSION)


def fetch_frame(topic: str, partition: int, offset: int, max_wait_ms: int) -> bytes:
    """Return a Fetch request that waits until there is a byte to read."""
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
    return encode_frame(request, FETCH_VERSION)


class Connection(asyncio.Protocol):
    """A connection with at most one request in flight."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._response: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a frame.

        Returns:
            A future of the response without its size.

        Raises:
            ConnectionResetError: The broker has closed the connection.
        """
        assert self._transport is not None
        if self._transport.is_closing():
            raise ConnectionResetError("the broker has closed the connection")
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._response

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < _SIZE.size:
            return
        end = _SIZE.size + _SIZE.unpack_from(self._buffer)[0]
        if len(self._buffer) >= end and self._response is not None:
            response = bytes(self._buffer[_SIZE.size : end])
            del self._buffer[:end]
            if not self._response.done():  # Whoever waited was cancelled.
                self._response.set_result(response)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._response is not None and not self._response.done():
            self._response.set_exception(
                ConnectionResetError("the broker has closed the connection")
            )

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


async def connect(address: str) -> Connection:
    """Connect to a node."""
    host, _, port = address.rpartition(":")
    _, connection = await asyncio.get_running_loop().create_connection(Connection, host, int(port))
    return connection


async def create_topic(addresses: list[str], topic: str, replicas: int) -> str:
    """Create a topic of one partition and wait until all replicas are in sync.

    Returns:
        The address of the partition's leader.

    Raises:
        RuntimeError: The topic has no leader after 20 s.
    """
    connection = await connect(addresses[0])
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
    metadata_request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
    )
    try:
        await connection.send(encode_frame(request, CREATE_TOPICS_VERSION))
    except ConnectionResetError:
        # librdkafka's mock cluster has no CreateTopics: it creates topics on a metadata request.
        connection = await connect(addresses[0])
    for _ in range(1_000):
        response = MetadataResponse.decode(
            (await connection.send(encode_frame(metadata_request, METADATA_VERSION)))[4:],
            version=METADATA_VERSION,
        )
        found = response.topics[0]
        if found.error_code == 0 and found.partitions and found.partitions[0].leader_id >= 0:
            leader = found.partitions[0]
            if len(leader.isr_nodes) == replicas:
                addresses_by_id = {
                    each.node_id: f"{each.host}:{each.port}" for each in response.brokers
                }
                connection.close()
                return addresses_by_id[leader.leader_id]
        await asyncio.sleep(0.02)
    raise RuntimeError(f"topic {topic} has no leader; last metadata: {response}")
