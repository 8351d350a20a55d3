"""Random histories of a cluster: what was accepted with an answer is never delivered again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.replication.cluster_harness import KEY, Reply
from tests.broker.sharing.share_harness import (
    ACCEPT,
    RELEASE,
    Member,
    ShareHarness,
    partition_of,
    ranges,
    run_shares,
)
from tests.support.profiles import examples

_NODES = 3
#: No record of a history is delivered so often, so that none is archived.
_LIMIT = 10
_members = st.sampled_from(["a", "b"])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 3)),
        st.tuples(st.just("fetch"), _members),
        st.tuples(st.just("fetch"), _members),
        st.tuples(st.just("acknowledge"), _members, st.sampled_from([ACCEPT, ACCEPT, RELEASE])),
        st.tuples(st.just("acknowledge"), _members, st.sampled_from([ACCEPT, ACCEPT, RELEASE])),
        st.tuples(st.just("disconnect"), _members),
        st.tuples(st.just("move"), st.integers(0, _NODES - 1)),
        st.tuples(st.just("kill"), st.integers(0, _NODES - 1)),
        st.tuples(st.just("kill, and lose an answer"), _members),
        st.tuples(st.just("time")),
    ),
    max_size=25,
)


class History:
    """A history, with what its members know."""

    def __init__(self, harness: ShareHarness) -> None:
        self.harness = harness
        self.members = {name: Member(harness, name) for name in "ab"}
        self.held: dict[str, set[int]] = {"a": set(), "b": set()}
        self.produced = 0
        self.accepted: set[int] = set()
        #: Accepted without an answer: they may be delivered again, or not.
        self.unknown: set[int] = set()

    async def step(self, what: str, *arguments: Any) -> None:
        """Take a step, and deliver all messages."""
        if what == "produce":
            await self.produce(*arguments)
        elif what == "fetch":
            await self.fetch(self.members[arguments[0]])
        elif what == "acknowledge":
            await self.acknowledge(self.members[arguments[0]], arguments[1])
        elif what == "disconnect":
            self.members[arguments[0]].disconnect(self.harness.leader)
            self.held[arguments[0]].clear()
        elif what == "move":
            self.harness.cluster.move_leader(KEY.topic, KEY.partition, *arguments)
        elif what == "kill":
            await self.kill(*arguments)
        elif what == "time":
            self.harness.cluster.advance_time(30_000)
        else:
            await self.lose_an_answer(self.members[arguments[0]])
        await self.harness.settle()
        await self.harness.until(lambda: len(self.harness.isr) == _NODES)
        for node in self.harness.cluster.nodes:
            for led in node.share_partitions:
                if led.records is not None:
                    led.records.check()

    async def produce(self, count: int) -> None:
        """Produce a batch."""
        values = [b"%d" % number for number in range(count)]
        (produced,) = await self.harness.produce(self.harness.leader, *values).get()
        assert produced.error is ErrorCode.NONE
        self.produced += count

    async def fetch(self, member: Member) -> int:
        """Fetch from the leader, in a new session if need be; return how many there were."""
        node = self.harness.leader
        response = await member.fetch(node=node, max_wait_ms=150).get()
        if response.error_code:
            assert response.error_code in (
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            )
            member.epochs.pop(node)
            response = await member.fetch(node=node, max_wait_ms=150).get()
        data = partition_of(response)
        acquired = {
            offset
            for first, last, _ in ([] if data is None else ranges(data))
            for offset in range(first, last + 1)
        }
        assert not acquired & self.accepted, (acquired, self.accepted)
        self.held[member.name] |= acquired
        return len(acquired)

    def _acknowledgement(self, member: Member, kind: int) -> tuple[set[int], Reply[Any]] | None:
        offsets = set(sorted(self.held[member.name])[:3])
        node = self.harness.leader
        if not offsets or node not in member.epochs:
            return None
        given = [(offset, offset, [kind]) for offset in sorted(offsets)]
        return offsets, member.acknowledge(*given, node=node)

    async def acknowledge(self, member: Member, kind: int) -> None:
        """Acknowledge some records: all or none of them are, as the answer says."""
        sent = self._acknowledgement(member, kind)
        if sent is None:
            return
        offsets, reply = sent
        response = await reply.get()
        error = response.error_code or response.responses[0].partitions[0].error_code
        if error == ErrorCode.NONE and kind == ACCEPT:
            self.accepted |= offsets
        self.held[member.name] -= offsets

    async def kill(self, node: int) -> None:
        """Kill a node, and start it again."""
        self.harness.cluster.kill(node)
        for member in self.members.values():
            member.disconnect(node)
        await self.harness.settle()
        await self.harness.cluster.restart(node)

    async def lose_an_answer(self, member: Member) -> None:
        """Accept some records, and kill the leader before its answer."""
        sent = self._acknowledgement(member, ACCEPT)
        node = self.harness.leader
        if sent is not None:
            offsets, reply = sent
            (self.accepted if reply.done else self.unknown).update(offsets)
            if reply.done:
                response = await reply.get()
                code = response.error_code or response.responses[0].partitions[0].error_code
                if code:
                    self.accepted -= offsets
            self.held[member.name] -= offsets
        await self.kill(node)

    async def end(self) -> None:
        """Let new members take what is left: every record is accepted in the end.

        Nothing of it comes again, neither after the locks nor from other coordinators.
        """
        for node in (None, *range(_NODES)):
            for name, member in self.members.items():
                for each in range(_NODES):
                    member.disconnect(each)
                self.held[name].clear()
            if node is not None:
                await self.step("kill", node)
            await self.step("time")
            last = self.members[f"z{node}"] = Member(self.harness, f"z{node}")
            self.held[last.name] = set()
            while await self.fetch(last):
                while self.held[last.name]:
                    await self.acknowledge(last, ACCEPT)
        missing = set(range(self.produced)) - self.accepted - self.unknown
        assert not missing, missing


@pytest.mark.explore
@examples(8)
@given(_steps)
def test_each_record_is_accepted_once_or_delivered_again(steps: list[tuple[Any, ...]]) -> None:
    """Leaders change, nodes are killed, connections end and locks expire in between."""

    async def scenario(harness: ShareHarness) -> None:
        history = History(harness)
        await history.produce(3)
        for step in steps:
            await history.step(*step)
        await history.end()

    run_shares(
        scenario,
        nodes=_NODES,
        group_share_delivery_count_limit=_LIMIT,
        log_retention_ms=None,
    )
