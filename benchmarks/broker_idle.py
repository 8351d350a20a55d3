"""Idle consumers of a broker: what they cost while nothing is sent.

Each is the member of a group of its own, with the defaults of Kafka's clients: it fetches in a
session with a maximum wait of 0.5 s, and sends a heartbeat every 3 s on another connection.
`idle_cpu` is the broker's processor time in percent of one core.
"""

from __future__ import annotations

import asyncio
import struct
from time import perf_counter
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from benchmarks import peers
from benchmarks.broker_client import (
    FETCH_VERSION,
    Connection,
    connect,
    create_topic,
    encode_frame,
    fetch_frame,
)
from benchmarks.broker_parked import allow_open_files
from benchmarks.broker_peers import cpu_seconds, running_broker
from benchmarks.question import Case

QUESTION = "broker_idle"
METRICS = {"idle_cpu": "%", "requests_per_second": "1/s"}
SIDES = (peers.OURS, peers.KAFKA_BROKER)

#: The defaults of Kafka's clients.
MAX_WAIT_MS = 500
HEARTBEAT_S = 3.0

_TOPIC = "benchmark"
_OBSERVED_MS = 6_000
_GROUP_VERSION = 2
#: Of a response without its size: after the correlation id, the throttle time and the error.
_ERROR_AT = 8
_SESSION_AT = 10


def cases(quick: bool) -> list[Case]:
    """Return a case with two thousand consumers."""
    return [
        Case({"consumers": consumers}, consumers) for consumers in ((50,) if quick else (2_000,))
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(side: str, consumers: int, ms: int = _OBSERVED_MS) -> dict[str, float]:
    """Measure the broker's processor time while consumers wait for records.

    Args:
        side: One of `SIDES`.
        consumers: Their number; each has two connections.
        ms: Milliseconds for which they are observed.
    """
    with allow_open_files(consumers * 3 + 1_000), running_broker(side, 1) as broker:
        return asyncio.run(_measure(broker.addresses, broker.pids, consumers, ms / 1_000))


async def _measure(
    addresses: list[str], pids: list[int], consumers: int, observed: float
) -> dict[str, float]:
    leader = await create_topic(addresses, _TOPIC, 1)
    sent = [0]
    tasks = []
    for number in range(consumers):
        member = await _Member.join(leader, f"group-{number}")
        tasks += [
            asyncio.create_task(_fetch(await connect(leader), sent)),
            asyncio.create_task(member.beat(sent)),
        ]
    await asyncio.sleep(observed / 3)
    before, began_cpu, began = sent[0], cpu_seconds(pids), perf_counter()
    await asyncio.sleep(observed)
    seconds = perf_counter() - began
    cpu = (cpu_seconds(pids) - began_cpu) / seconds
    ended = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if ended:
        raise RuntimeError(f"{len(ended)} consumers have failed") from ended[0].exception()
    return {"idle_cpu": cpu * 100, "requests_per_second": (sent[0] - before) / seconds}


async def _fetch(connection: Connection, sent: list[int]) -> None:
    """Fetch in a session for as long as the task runs."""
    frame = bytearray(fetch_frame(_TOPIC, 0, 0, 0))
    epoch_at = frame.index(struct.pack(">ii", 0, -1)) + 4
    struct.pack_into(">i", frame, epoch_at, 0)
    response = await connection.send(bytes(frame))
    (session,) = struct.unpack_from(">i", response, _SESSION_AT)
    if session == 0:  # A node has room for a thousand.
        whole = fetch_frame(_TOPIC, 0, 0, MAX_WAIT_MS)
        while True:
            _require_success(await connection.send(whole))
            sent[0] += 1
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=2**20,
        isolation_level=0,
        session_id=session,
        session_epoch=1,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )
    frame = bytearray(encode_frame(request, FETCH_VERSION))
    epoch_at = frame.index(struct.pack(">ii", session, 1)) + 4
    epoch = 1
    while True:
        struct.pack_into(">i", frame, epoch_at, epoch)
        _require_success(await connection.send(bytes(frame)))
        sent[0] += 1
        epoch += 1


class _Member:
    """The only member of a group."""

    def __init__(self, connection: Connection, heartbeat: bytes) -> None:
        self._connection = connection
        self._heartbeat = heartbeat

    @classmethod
    async def join(cls, address: str, group: str) -> _Member:
        connection = await connect(address)
        find = FindCoordinatorRequest(key=group, key_type=0)
        await _until_coordinated(connection, encode_frame(find, _GROUP_VERSION))
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")]
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            protocol_type="consumer",
            protocols=protocols,
        )
        response = await _until_coordinated(connection, encode_frame(join, _GROUP_VERSION))
        (generation,) = struct.unpack_from(">i", response, _ERROR_AT + 2)
        position = _ERROR_AT + 6
        for _ in range(2):  # the protocol and the leader's id, which is this member's
            (length,) = struct.unpack_from(">h", response, position)
            text = response[position + 2 : position + 2 + length].decode()
            position += 2 + length
        named: dict[str, Any] = {
            "group_id": group,
            "generation_id": generation,
            "member_id": text,
        }
        assigned = SyncGroupRequest.SyncGroupRequestAssignment(member_id=text, assignment=b"")
        sync = SyncGroupRequest(**named, assignments=[assigned])
        _require_success(await connection.send(encode_frame(sync, _GROUP_VERSION)))
        return cls(connection, encode_frame(HeartbeatRequest(**named), _GROUP_VERSION))

    async def beat(self, sent: list[int]) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            _require_success(await self._connection.send(self._heartbeat))
            sent[0] += 1


async def _until_coordinated(connection: Connection, request: bytes) -> bytes:
    """Return the response once the topic of offsets is there: Kafka creates it when it is asked."""
    for _ in range(200):
        response = await connection.send(request)
        if struct.unpack_from(">h", response, _ERROR_AT)[0] == 0:
            return response
        await asyncio.sleep(0.1)
    raise RuntimeError("the group has no coordinator after 20 s")


def _require_success(response: bytes) -> None:
    (error,) = struct.unpack_from(">h", response, _ERROR_AT)
    if error:
        raise RuntimeError(f"the broker has answered with error {error}")
