"""Connections that are half open, slow, silent, greedy or too many."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.server.connection import READ_AHEAD_BYTES, REQUESTS_PER_TURN
from request_purgatory.broker.server.server import STALLED_MS, SWEEP_EVERY_MS, UNREAD_MS
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.apis import Api
from tests.broker.hostile.attacker import Attacker
from tests.broker.hostile.client import Client, is_served
from tests.broker.hostile.conftest import Attack, delayed
from tests.broker.hostile.corpus import request
from tests.broker.hostile.requests import TOPIC, frame, sized
from tests.broker.raw_requests import fetch_fields, records

FOR_EVER_MS = 2**31 - 1
#: After this many seconds the sweep has ended what is stalled; and what is unread while others
#: wait.
STALLED_S = (STALLED_MS + SWEEP_EVERY_MS) / 1_000 + 1
UNREAD_S = (UNREAD_MS + SWEEP_EVERY_MS) / 1_000 + 1
#: What the loop reads at a time.
CHUNK_BYTES = 256 * 1024
VERSIONS = sized(frame(apis.API_VERSIONS, 0))


def leader(cluster: AsyncCluster) -> int:
    """Of the topic's first partition."""
    return cluster.controller.topics[TOPIC].partitions[0].leader


def parked_fetch(**options: Any) -> bytes:
    """A fetch of what is not there yet, for ever."""
    return sized(
        request(apis.FETCH, 11, **fetch_fields(TOPIC, 0, max_wait_ms=FOR_EVER_MS, **options))
    )


def written(size: int, acks: int = -1, timeout_ms: int = FOR_EVER_MS) -> bytes:
    """A Produce request with a record of so many bytes."""
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records(bytes(size))}]}]
    return sized(request(apis.PRODUCE, 9, acks=acks, timeout_ms=timeout_ms, topic_data=data))


async def fill(cluster: AsyncCluster, megabytes: int) -> None:
    """Write to the topic."""
    writer = Attacker(cluster.nodes[leader(cluster)])
    for _ in range(megabytes):
        writer.send(written(1_000_000))
        await asyncio.sleep(0.1)
    assert len(writer.answers()) == megabytes
    writer.end()


# -- ends


@pytest.mark.parametrize("end", ["half", "whole"])
def test_parked_requests_end_with_their_connection(attack: Attack, end: str) -> None:
    """Whether the client closes it, or only its own half.

    Nothing waits for it in a purgatory then.
    """

    async def scenario(cluster: AsyncCluster) -> None:
        node = leader(cluster)
        cluster.freeze(1 - node)
        clients = []
        for raw in (parked_fetch(), parked_fetch(), written(10)):
            clients.append(await Client.to(cluster, node))
            clients[-1].writer.write(raw)
            await asyncio.sleep(0.1)
        assert cluster.nodes[node].purgatories["Produce"].num_delayed == 1
        assert cluster.nodes[node].purgatories["Fetch"].num_delayed >= 2
        for client in clients:
            if end == "half":
                client.writer.write_eof()
                assert await client.reader.read() == b""
            client.close()
        await asyncio.sleep(0.1)
        assert cluster.nodes[node].purgatories["Produce"].num_delayed == 0
        assert not cluster.nodes[node].server.connections
        assert await delayed(cluster) == 0
        await asyncio.sleep(5)
        await is_served(cluster)

    attack(scenario, replica_lag_time_max_ms=3_600_000)


def test_requests_behind_one_that_is_none_are_not_handled(attack: Attack) -> None:
    """They came on a connection that has ended, though their bytes are here."""

    async def scenario(cluster: AsyncCluster) -> None:
        node = cluster.nodes[leader(cluster)]
        attacker = Attacker(node)
        attacker.send(VERSIONS + sized(b"no request") + written(10) * 3)
        assert attacker.wire.is_ended
        assert len(attacker.answers()) == 1
        assert cluster.describe(TOPIC)[0]["offsets"][node.node_id]["end_offset"] == 0

    attack(scenario)


def test_connection_that_is_closed_and_not_taken_from_is_cut_off(attack: Attack) -> None:
    """Closing waits for what was sent before to be taken, but not for ever."""

    async def scenario(cluster: AsyncCluster) -> None:
        attacker = Attacker(cluster.nodes[0], is_slow=True)
        attacker.send(VERSIONS + sized(b"no request"))
        assert attacker.wire.is_ended
        assert not attacker.wire.is_aborted
        await asyncio.sleep(STALLED_S)
        assert attacker.wire.is_aborted

    attack(scenario)


# -- slow and silent senders


def test_request_that_comes_byte_by_byte_ends_its_connection(attack: Attack) -> None:
    """However regularly its bytes come; one that is whole in time is answered."""

    async def scenario(cluster: AsyncCluster) -> None:
        slow, slower = Attacker(cluster.nodes[0]), Attacker(cluster.nodes[0])
        for byte in VERSIONS:
            slow.send(bytes([byte]))
            await asyncio.sleep(1)
        assert len(slow.answers()) == 1
        for byte in VERSIONS:
            slower.send(bytes([byte]))
            await asyncio.sleep(5)
        assert slower.wire.is_ended
        assert not slower.answers()

    attack(scenario)


@pytest.mark.parametrize("begun", [b"\0", b"\0\0\0\x20", VERSIONS[:-1]])
def test_connection_that_stalls_in_a_request_is_ended(attack: Attack, begun: bytes) -> None:
    """Wherever in it."""

    async def scenario(cluster: AsyncCluster) -> None:
        client = await Client.to(cluster)
        client.writer.write(begun)
        await asyncio.sleep(STALLED_MS / 1_000 - 1)
        assert not client.reader.at_eof()
        await asyncio.sleep(STALLED_S)
        assert await client.reader.read() == b""

    attack(scenario)


def test_silent_connections_are_ended_and_waiting_ones_are_not(attack: Attack) -> None:
    """After `connections_max_idle_ms`, whether they ever said something or not."""

    async def scenario(cluster: AsyncCluster) -> None:
        node = leader(cluster)
        silent, polite, waiting = [await Client.to(cluster, node) for _ in range(3)]
        assert (await polite.call(apis.API_VERSIONS, 0)).error_code == 0
        waiting.writer.write(parked_fetch())
        await asyncio.sleep(100)
        assert await silent.reader.read() == await polite.reader.read() == b""
        assert not waiting.reader.at_eof()
        assert await delayed(cluster) == 1
        waiting.close()
        await asyncio.sleep(0.1)

    attack(scenario, connections_max_idle_ms=60_000)


# -- how large, how many


def test_frame_is_refused_by_the_size_that_it_announces(attack: Attack) -> None:
    """Before anything of it is read; one of the largest size is not."""

    async def scenario(cluster: AsyncCluster) -> None:
        for size, is_ended in ((10_001, True), (-1, True), (10_000, False)):
            attacker = Attacker(cluster.nodes[0])
            attacker.send(struct.pack(">i", size))
            assert attacker.wire.is_ended is is_ended, size
            attacker.end()

    attack(scenario, socket_request_max_bytes=10_000)


def test_connections_beyond_the_limit_are_ended_at_once(attack: Attack) -> None:
    """And there is room again when one has ended."""

    async def scenario(cluster: AsyncCluster) -> None:
        clients = [await Client.to(cluster) for _ in range(4)]
        assert await clients[3].reader.read() == b""
        for client in clients[:3]:
            assert (await client.call(apis.API_VERSIONS, 0)).error_code == 0
        clients[0].close()
        await asyncio.sleep(0.1)
        assert (await (await Client.to(cluster)).call(apis.API_VERSIONS, 0)).error_code == 0

    attack(scenario, max_connections=3)


def test_connections_leave_files_to_be_opened(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the process may have no more open, none could be accepted any more, not even to be ended."""
    monkeypatch.setattr("request_purgatory.broker.server.server._most_connections", lambda: 2)

    async def scenario(cluster: AsyncCluster) -> None:
        first, second, third = (
            await Client.to(cluster, 0),
            await Client.to(cluster, 1),
            await Client.to(cluster, 0),
        )
        assert await third.reader.read() == b""
        for client in (first, second):
            assert (await client.call(apis.API_VERSIONS, 0)).error_code == 0

    attack(scenario)


def test_many_requests_at_once_leave_the_loop_to_others(attack: Attack) -> None:
    """So many are handled in a row; all are answered, in their order."""

    async def scenario(cluster: AsyncCluster) -> None:
        greedy, modest = Attacker(cluster.nodes[0]), Attacker(cluster.nodes[0])
        count = READ_AHEAD_BYTES // len(VERSIONS)
        greedy.send(
            b"".join(
                sized(frame(apis.API_VERSIONS, 0)[:4] + struct.pack(">i", each) + b"\xff\xff")
                for each in range(count)
            )
        )
        modest.send(VERSIONS)
        assert len(greedy.answers()) == REQUESTS_PER_TURN
        assert len(modest.answers()) == 1
        await asyncio.sleep(1)
        assert [struct.unpack_from(">i", each)[0] for each in greedy.answers()] == list(
            range(count)
        )

    attack(scenario)


def test_connection_is_read_ahead_only_so_far(attack: Attack) -> None:
    """While a request waits, what comes behind it stays with the client.

    And is handled in the end.
    """

    async def scenario(cluster: AsyncCluster) -> None:
        attacker = Attacker(cluster.nodes[leader(cluster)])
        attacker.send(parked_fetch())
        taken = 0
        while attacker.wire.is_reading():
            attacker.send(VERSIONS * 100)
            taken += 100 * len(VERSIONS)
        assert taken <= READ_AHEAD_BYTES + 100 * len(VERSIONS)
        await fill(cluster, 1)
        await asyncio.sleep(1)
        assert attacker.wire.is_reading()
        assert len(attacker.answers()) == 1 + taken // len(VERSIONS)

    attack(scenario)


# -- the budget of requests


@pytest.mark.parametrize("pause", [0.0, 3.0])
def test_sender_that_stalls_holds_up_large_requests_only_for_a_while(
    attack: Attack, pause: float
) -> None:
    """It was granted all the memory that there is for requests; small ones need none of that.

    It does not help to send on.
    """

    async def scenario(cluster: AsyncCluster) -> None:
        node = cluster.nodes[leader(cluster)]
        hog, large, small = Attacker(node), Attacker(node), Attacker(node)
        hog.send(struct.pack(">i", 1_000_000))
        assert node.server.budget.left_bytes < 0
        large.send(written(READ_AHEAD_BYTES, acks=1))
        small.send(written(1_000, acks=1))
        assert len(small.answers()) == 1
        for _ in range(int(STALLED_S)):
            assert not large.answers() or hog.wire.is_ended
            if pause:
                hog.send(b"\0")
            await asyncio.sleep(1)
        assert hog.wire.is_ended
        hog.end()
        await asyncio.sleep(0.1)
        assert len(large.answers()) == 1
        assert node.server.budget.left_bytes == node.server.budget.size_bytes

    attack(scenario, queued_max_request_bytes=100_000)


def test_who_waits_for_memory_waits_once(attack: Attack) -> None:
    """However often more of the request comes in; and not at all once it has gone."""

    async def scenario(cluster: AsyncCluster) -> None:
        server = cluster.nodes[0].server
        hog, waiting = Attacker(cluster.nodes[0]), Attacker(cluster.nodes[0])
        hog.send(struct.pack(">i", 1_000_000))
        waiting.send(struct.pack(">i", 200_000))
        for _ in range(10_000):
            waiting.send(b"\0")
        assert len(server.budget._queue._waiting) == 1
        waiting.end()
        assert not server.budget._queue._waiting
        await asyncio.sleep(STALLED_S)
        assert hog.wire.is_ended

    attack(scenario, queued_max_request_bytes=100_000)


# -- answers that are not taken


async def _answered(client: Attacker, seconds: float) -> float:
    """After how many seconds, within these, a client has an answer."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    while not client.answers():
        assert loop.time() < begin + seconds, "no answer"
        await asyncio.sleep(0.5)
    return loop.time() - begin


def test_unread_answers_are_bounded_and_hold_up_others_only_for_a_while(attack: Attack) -> None:
    """Fetches wait while more than the limit is unread, and nothing else does.

    Who does not read is cut off.
    """

    async def scenario(cluster: AsyncCluster) -> None:
        await fill(cluster, 4)
        node = cluster.nodes[leader(cluster)]
        wanted = sized(request(apis.FETCH, 11, **fetch_fields(TOPIC, 0)))
        slow = [Attacker(node, is_slow=True) for _ in range(12)]
        for attacker in slow:
            attacker.send(wanted * 3)
        largest = max(len(attacker.wire.sent) for attacker in slow)
        assert largest > 500_000
        assert (
            node.server.unread.bytes < node.server.unread.limit_bytes + largest + READ_AHEAD_BYTES
        )
        assert sum(bool(attacker.wire.sent) for attacker in slow) < len(slow)
        reader, writer = Attacker(node), Attacker(node)
        reader.send(wanted)
        writer.send(written(1_000, acks=1))
        assert (len(reader.answers()), len(writer.answers())) == (0, 1)
        # Those who wait are let in by turns, as those before them are cut off.
        assert await _answered(reader, 12 * UNREAD_S) >= UNREAD_MS / 1_000
        assert slow[0].wire.is_aborted
        for attacker in slow:
            attacker.end()
        assert (node.server.unread.bytes, len(node.server.unread)) == (0, 0)
        await is_served(cluster)

    attack(scenario, queued_max_request_bytes=3_000_000)


def test_slow_reader_is_served_on_when_it_has_read(attack: Attack) -> None:
    """As long as nobody is held up by it, it has all the time that an idle connection has."""

    async def scenario(cluster: AsyncCluster) -> None:
        await fill(cluster, 2)
        slow = Attacker(cluster.nodes[leader(cluster)], is_slow=True)
        slow.send(sized(request(apis.FETCH, 11, **fetch_fields(TOPIC, 0))) + VERSIONS)
        assert len(slow.answers()) == 1
        await asyncio.sleep(5 * STALLED_S)
        assert not slow.wire.is_ended
        slow.wire.take()
        assert len(slow.answers()) == 2
        slow.end()

    attack(scenario)


def test_parked_fetches_are_answered_without_records_where_there_is_no_room(attack: Attack) -> None:
    """All of them are ready at the same moment, and not one of them is read."""

    async def scenario(cluster: AsyncCluster) -> None:
        node = cluster.nodes[leader(cluster)]
        parked = [Attacker(node, is_slow=True) for _ in range(200)]
        for attacker in parked:
            attacker.send(parked_fetch())
        writer = Attacker(node)
        writer.send(written(1_000_000))
        await asyncio.sleep(1)
        assert all(len(attacker.answers()) == 1 for attacker in parked)
        assert sum(len(attacker.wire.sent) > 1_000_000 for attacker in parked) <= 4
        assert node.server.unread.bytes < 5_000_000
        for attacker in [*parked, writer]:
            attacker.end()

    attack(scenario, queued_max_request_bytes=3_000_000)


def test_clients_of_real_sockets_that_do_not_read_are_cut_off(attack: Attack) -> None:
    """What the system keeps for them is beside the bound."""

    async def scenario(cluster: AsyncCluster) -> None:
        await fill(cluster, 16)
        node = cluster.nodes[leader(cluster)]
        loop = asyncio.get_running_loop()
        wanted = request(apis.FETCH, 11, **fetch_fields(TOPIC, 0) | {"topics": [_whole_topic()]})
        sockets = []
        for _ in range(4):
            sockets.append(socket.socket())
            sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            sockets[-1].setblocking(False)
            await loop.sock_connect(sockets[-1], (node.server.host, node.server.port))
            await loop.sock_sendall(sockets[-1], sized(wanted))
        await asyncio.sleep(1)
        assert len(node.server.unread) > 0
        assert not node.server.unread.has_room(is_fetch=True)
        await is_served_within(cluster, 4 * UNREAD_S)
        await asyncio.sleep(4 * UNREAD_S)
        assert not node.server.connections
        for each in sockets:
            each.close()

    attack(scenario, queued_max_request_bytes=2_000_000)


def _whole_topic() -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**30}],
    }


async def is_served_within(cluster: AsyncCluster, seconds: float) -> None:
    """As `is_served`, in so long."""
    await asyncio.wait_for(is_served(cluster), seconds)


# -- everything together

Connect = Callable[[AsyncCluster], Awaitable[None]]


@pytest.mark.parametrize("api", apis.APIS.values(), ids=lambda api: api.name)
def test_requests_of_each_kind_may_be_left_alone(attack: Attack, api: Api) -> None:
    """Sent by clients that are gone before they are answered.

    Nothing of them waits on when the time is over that they ask.
    """

    async def scenario(cluster: AsyncCluster) -> None:
        for version in range(api.min_version, api.max_version + 1):
            for _ in range(5):
                attacker = Attacker(cluster.nodes[leader(cluster)])
                attacker.send(sized(frame(api, version)) * 2)
                attacker.end()
            if TOPIC not in cluster.controller.topics:
                cluster.create_topic(TOPIC, partitions=2)
                await asyncio.sleep(1)
        await asyncio.sleep(400)
        for node in cluster.nodes:
            left = {
                name: each.num_delayed
                for name, each in node.purgatories.items()
                if name != "Fetch" and each.num_delayed
            }
            assert not left, left
        assert await delayed(cluster) == 0

    attack(scenario)
