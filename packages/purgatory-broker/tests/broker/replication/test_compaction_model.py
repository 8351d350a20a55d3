"""A compacted topic through elections, crashes and partitions: the latest values survive."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.record import build_batch
from purgatory_broker.metadata.topics import ControllerError
from tests.broker.log.batches import NOW
from tests.broker.log.compactions import Pair, table
from tests.broker.replication.cluster_harness import ALL, KEY, ClusterHarness, Reply, run_scenario
from tests.support.profiles import examples

NODES = st.integers(0, 2)
PUT = st.tuples(
    st.just("put"),
    st.sampled_from([b"a", b"b", b"c"]),
    st.booleans(),
    st.sampled_from([ALL, ALL, 1]),
)
STEP = st.one_of(
    PUT,
    PUT,
    PUT,
    st.just(("compact",)),
    st.just(("compact",)),
    st.tuples(
        st.sampled_from(["kill", "restart", "partition", "heal", "pause", "resume", "move"]), NODES
    ),
    st.tuples(st.just("wait"), st.sampled_from([0.001, 0.3, 2.0, 13.0])),
)


class _Writer:
    """The values that were sent of each key, and which of them are acknowledged."""

    def __init__(self, harness: ClusterHarness) -> None:
        self.harness = harness
        self.sent: dict[bytes, list[tuple[bytes | None, Reply[Any], int]]] = defaultdict(list)
        self.count = 0

    def put(self, key: bytes, is_tombstone: bool, acks: int) -> None:
        leader = self.harness.leader
        if leader < 0 or self.harness.node(leader).is_stopped:
            return
        self.count += 1
        value = None if is_tombstone else (b"%d" % self.count).ljust(200)
        batch = build_batch([(key, value)], NOW)
        reply = self.harness.produce_to(leader, [(KEY, batch)], acks=acks, timeout_ms=1_000)
        self.sent[key].append((value, reply, acks))

    def allowed(self, key: bytes) -> set[bytes | None]:
        """Return the values that a key may have: the last acknowledged one, or a later one."""
        found: set[bytes | None] = {None}
        for value, reply, acks in self.sent[key]:
            if (
                acks == ALL
                and reply.done
                and reply.value
                and reply.value[0].error is ErrorCode.NONE
            ):
                found.clear()
            found.add(value)
        return found


async def _do(harness: ClusterHarness, writer: _Writer, step: tuple[Any, ...]) -> None:
    cluster = harness.cluster
    name, *rest = step
    if name == "put":
        writer.put(*rest)
    elif name == "wait":
        await asyncio.sleep(rest[0])
    elif name == "compact":
        await cluster.compact("orders")
    elif name == "restart":
        if harness.node(*rest).is_stopped:
            await cluster.restart(*rest)
    elif name == "move":
        try:
            cluster.move_leader("orders", 0, *rest)
        except ControllerError:
            pass  # It is not in sync.
    else:
        commands = {
            "kill": cluster.kill,
            "partition": cluster.partition_node,
            "heal": cluster.heal_node,
            "pause": cluster.pause_replication,
            "resume": cluster.resume_replication,
        }
        commands[name](*rest)
    await asyncio.sleep(0.001)


@examples(40)
@given(steps=st.lists(STEP, min_size=5, max_size=40))
def test_latest_values_survive(steps: list[tuple[Any, ...]]) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        writer = _Writer(harness)
        for step in steps:
            await _do(harness, writer, step)
        for node in range(3):
            for undo in ("restart", "heal", "resume"):
                await _do(harness, writer, (undo, node))
        await harness.until(lambda: len(harness.isr) == 3, limit_ms=120_000)
        await asyncio.sleep(2)
        await harness.cluster.compact("orders")
        tables = []
        for node in range(3):
            pairs: list[Pair] = [(each.key, each.value) for each in harness.log(node).records()]
            assert len({key for key, _ in pairs}) == len(pairs)
            tables.append(table(pairs))
        assert tables[1:] == tables[:1] * 2
        for key in writer.sent:
            assert tables[0].get(key) in writer.allowed(key), key

    run_scenario(
        scenario,
        configs={"cleanup.policy": "compact"},
        log_segment_bytes=1_024,
        log_cleaner_backoff_ms=500,
    )
