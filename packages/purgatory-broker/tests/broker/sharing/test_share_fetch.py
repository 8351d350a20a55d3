"""Tests of share fetches and acknowledgements, through the handlers of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import SHARE_STATE_TOPIC, TopicPartition
from purgatory_broker.sharing.share_coordinator import StateResult
from purgatory_broker.sharing.share_partition import SharePartition
from purgatory_broker.sharing.share_sessions import MemberKey
from purgatory_broker.sharing.state import ShareKey, ShareState
from tests.broker.replication.cluster_harness import KEY
from tests.broker.sharing.share_harness import (
    ACCEPT,
    GROUP,
    RELEASE,
    RENEW,
    Member,
    ShareHarness,
    by_partition,
    partition_of,
    ranges,
    run_shares,
)


def test_fetch_acquires_what_is_in_the_log() -> None:
    """Each record goes to one member, with its batch."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0", b"1", b"2")
        first, second = Member(harness, "first"), Member(harness, "second")
        assert await first.acquire() == [(0, 2, 1)]
        waiting = second.fetch(max_wait_ms=1_000)
        await harness.settle()
        assert not waiting.done
        harness.produce(0, b"3")
        data = partition_of(await waiting.get())
        assert data is not None
        assert [each.first_offset for each in data.acquired_records] == [3]
        assert waiting.waited_ms < 10

    run_shares(scenario)


def test_first_fetch_has_what_is_read_first() -> None:
    """As in Kafka, it ends with the first state that is read; the next one has the others."""

    async def scenario(harness: ShareHarness) -> None:
        await harness.add_partition()
        other = TopicPartition(KEY.topic, 1)
        harness.produce(0, b"0", b"1")
        harness.produce(0, b"2", key=other)
        member = Member(harness, "m")
        first = await member.fetch(partitions=(0, 1)).get()
        assert by_partition(first) == {0: [(0, 1, 1)]}
        assert by_partition(await member.fetch(partitions=()).get()) == {1: [(0, 0, 1)]}
        harness.produce(0, b"3")
        harness.produce(0, b"4", key=other)
        # The states are known: a fetch has all that there is.
        another = Member(harness, "another")
        assert by_partition(await another.fetch(partitions=(0, 1)).get()) == {
            0: [(2, 2, 1)],
            1: [(1, 1, 1)],
        }

    run_shares(scenario)


def test_accepted_records_move_the_start() -> None:
    """What is accepted is stored, and is delivered no more."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0", b"1", b"2")
        member = Member(harness, "m")
        assert await member.acquire() == [(0, 2, 1)]
        assert await member.acknowledged((0, 1, [ACCEPT]), (2, 2, [RELEASE])) == 0
        assert await member.acquire() == [(2, 2, 2)]
        state = harness.stored()
        assert state is not None
        assert [tuple(batch) for batch in state.batches] == [(0, 1, 2, 1), (2, 2, 0, 1)]

    run_shares(scenario)


def test_limits_of_bytes() -> None:
    """No bytes are no records, a byte is a batch; without a minimum the answer comes at once."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0")
        harness.produce(0, b"1")
        member = Member(harness, "m")
        assert await member.acquire(max_bytes=0) == []
        assert await member.acquire(max_bytes=1) == [(0, 0, 1)]
        waiting = member.fetch(min_bytes=100_000, max_wait_ms=300)
        data = partition_of(await waiting.get())
        assert data is not None
        assert (ranges(data), waiting.waited_ms) == ([(1, 1, 1)], 300)
        nothing = member.fetch(min_bytes=0, max_wait_ms=300)
        await nothing.get()
        assert nothing.waited_ms == 0

    run_shares(scenario)


def test_lock_ends_by_the_clock() -> None:
    """What is not acknowledged in time is delivered again, up to the limit."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0")
        slow, other = Member(harness, "slow"), Member(harness, "other")
        assert await slow.acquire() == [(0, 0, 1)]
        waiting = other.fetch(max_wait_ms=60_000)
        data = partition_of(await waiting.get())
        assert data is not None
        assert ranges(data) == [(0, 0, 2)]
        assert waiting.waited_ms in range(9_990, 10_050)
        assert await slow.acknowledged((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        # The limit is two deliveries.
        await asyncio.sleep(10.1)
        harness.produce(0, b"1")
        assert await other.acquire() == [(1, 1, 1)]
        state = harness.stored()
        assert state is not None
        assert [tuple(batch) for batch in state.batches] == [(0, 0, 4, 2)]

    run_shares(
        scenario, group_share_record_lock_duration_ms=10_000, group_share_delivery_count_limit=2
    )


def test_lock_ends_by_advanced_time() -> None:
    """The clock of the broker counts."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0")
        member = Member(harness, "m")
        assert await member.acquire() == [(0, 0, 1)]
        harness.cluster.advance_time(30_000)
        await asyncio.sleep(0.05)
        assert await member.acquire() == [(0, 0, 2)]
        assert harness.purgatory("AcquisitionLock") == 1

    run_shares(scenario, log_retention_ms=None)


def test_acknowledged_lock_waits_no_more() -> None:
    """A lock ends with its last record."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0", b"1")
        member = Member(harness, "m")
        await member.acquire()
        await member.acknowledged((0, 0, [ACCEPT]))
        assert harness.purgatory("AcquisitionLock") == 1
        await member.acknowledged((1, 1, [ACCEPT]))
        assert harness.purgatory("AcquisitionLock") == 0

    run_shares(scenario)


def test_renewed_lock_begins_anew() -> None:
    """The records that a member renews stay with it, and the others are delivered again."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0", b"1")
        slow, other = Member(harness, "slow"), Member(harness, "other")
        assert await slow.acquire() == [(0, 1, 1)]
        await asyncio.sleep(6)
        assert await slow.acknowledged((0, 0, [RENEW])) == 0
        assert harness.purgatory("AcquisitionLock") == 2
        data = partition_of(await other.fetch(max_wait_ms=60_000).get())
        assert data is not None
        assert ranges(data) == [(1, 1, 2)]
        waiting = other.fetch(max_wait_ms=60_000)
        data = partition_of(await waiting.get())
        assert data is not None
        assert ranges(data) == [(0, 0, 2)]
        assert waiting.waited_ms in range(5_900, 6_050)
        assert await slow.acknowledged((0, 0, [RENEW])) == ErrorCode.INVALID_RECORD_STATE

    run_shares(scenario, group_share_record_lock_duration_ms=10_000)


def test_exact_number_of_records_is_acquired_in_the_middle_of_a_batch() -> None:
    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, *[b"value"] * 5)
        member, other = Member(harness, "m"), Member(harness, "other")
        assert await member.acquire(max_records=2, acquire_mode=1) == [(0, 1, 1)]
        assert await other.acquire(max_records=2) == [(2, 4, 1)]

    run_shares(scenario)


@pytest.mark.parametrize("how", ["disconnect", "final fetch", "final acknowledgement", "leave"])
def test_end_of_session_releases(how: str) -> None:
    """What a member has acquired is available again, and the delivery does not count."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0")
        gone, other = Member(harness, "gone"), Member(harness, "other")
        assert await gone.acquire() == [(0, 0, 1)]
        waiting = other.fetch(max_wait_ms=20_000)
        await harness.settle()
        if how == "disconnect":
            gone.disconnect()
        elif how == "final fetch":
            assert not (await gone.fetch(epoch=-1).get()).error_code
        elif how == "final acknowledgement":
            assert not (await gone.acknowledge(epoch=-1).get()).error_code
        else:
            with harness.node(0).actions:
                harness.node(0).share_members.end_session(MemberKey(GROUP, "gone"))
        data = partition_of(await waiting.get())
        assert data is not None
        assert ranges(data) == [(0, 0, 1)]
        assert waiting.waited_ms < 100
        assert len(harness.node(0).share_members.sessions) == 1

    run_shares(scenario)


def test_unsent_response_is_not_acquired() -> None:
    """A fetch that waits acquires nothing once its connection has ended."""

    async def scenario(harness: ShareHarness) -> None:
        gone, other = Member(harness, "gone"), Member(harness, "other")
        gone.fetch(max_wait_ms=20_000)
        await harness.settle()
        gone.disconnect()
        harness.produce(0, b"0")
        assert await other.acquire() == [(0, 0, 1)]
        assert harness.purgatory("ShareFetch") == 0

    run_shares(scenario)


def test_session_errors() -> None:
    """Each wrong epoch has its error."""

    async def scenario(harness: ShareHarness) -> None:
        member = Member(harness, "m")
        missing = ErrorCode.SHARE_SESSION_NOT_FOUND
        for epoch in (1, -1):
            assert (await member.fetch(epoch=epoch).get()).error_code == missing
            assert await member.acknowledged((0, 0, [ACCEPT]), epoch=epoch) == missing
        invalid = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await member.acknowledged((0, 0, [ACCEPT]), epoch=0) == invalid
        response = await member.fetch(max_wait_ms=0).get()
        assert not response.error_code
        assert (await member.fetch(epoch=5).get()).error_code == invalid
        assert await member.acknowledged((0, 0, [ACCEPT]), epoch=5) == invalid
        first = await member.fetch((0, 0, [ACCEPT]), epoch=0).get()
        assert first.error_code == ErrorCode.INVALID_REQUEST
        other = await Member(harness, "other").fetch(max_wait_ms=0).get()
        assert other.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED

    run_shares(scenario, group_share_max_share_sessions=1)


def test_lost_answer_to_a_fetch() -> None:
    """A member that opens its session anew gets its records when the lock ends."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0")
        member = Member(harness, "m")
        await member.acquire()
        member.epochs.clear()
        data = partition_of(await member.fetch(max_wait_ms=40_000).get())
        assert data is not None
        assert ranges(data) == [(0, 0, 2)]

    run_shares(scenario)


def test_wait_ends_when_the_leader_changes() -> None:
    """A fetch does not wait for a partition that its node leads no more (KAFKA-19567)."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0", b"1")
        member = Member(harness, "m")
        assert await member.acquire() == [(0, 1, 1)]
        await member.acknowledged((0, 0, [ACCEPT]))
        waiting = member.fetch(max_wait_ms=50_000)
        await harness.settle()
        assert not waiting.done
        harness.cluster.move_leader(KEY.topic, KEY.partition, 1)
        response = await waiting.get()
        assert waiting.waited_ms < 100
        partition = partition_of(response)
        assert partition is not None
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.current_leader is not None
        assert partition.current_leader.leader_id == 1
        assert [node.node_id for node in response.node_endpoints] == [1]
        assert harness.purgatory("ShareFetch") == 0
        # The new leader knows what was accepted, and not what was acquired.
        assert await member.acquire(node=1) == [(1, 1, 1)]
        wrong = await member.acknowledged((1, 1, [ACCEPT]), node=0)
        assert wrong == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_shares(scenario, nodes=2)


def test_coordinator_of_another_node() -> None:
    """States are stored over the network, and by the next coordinator when one has stopped."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0", b"1", b"2")
        member = Member(harness, "m")
        await member.acquire()
        assert await member.acknowledged((0, 0, [ACCEPT])) == 0
        number = harness.node(0).share_coordinator.partition_for(harness.share_key.text)
        key = TopicPartition(SHARE_STATE_TOPIC, number)
        coordinator, _ = harness.node(0).metadata.leader_of(key)
        if coordinator:
            harness.cluster.kill(coordinator)
        assert await member.acknowledged((1, 1, [ACCEPT])) == 0
        assert await member.acquire() == []
        assert await member.acknowledged((2, 2, [RELEASE])) == 0
        assert await member.acquire() == [(2, 2, 2)]

    run_shares(scenario, nodes=3)


def hold_first_write(harness: ShareHarness) -> list[Callable[[], None]]:
    """Return what sends the first write of a state, as a retry does it; others are sent at once."""
    states = harness.node(0).share_states
    held: list[Callable[[], None]] = []

    class Slow:
        read = states.read

        def write(
            self, key: ShareKey, update: ShareState, reply: Callable[[StateResult], None]
        ) -> None:
            if held:
                states.write(key, update, reply)
            else:
                held.append(lambda: states.write(key, update, reply))

    harness.node(0).share_partitions._states = Slow()
    return held


def test_write_that_is_sent_again_takes_nothing_back() -> None:
    """Otherwise the next leader would deliver accepted records again."""

    async def scenario(harness: ShareHarness) -> None:
        for number in range(4):
            harness.produce(0, b"%d" % number)
        member = Member(harness, "m")
        await member.acquire()
        held = hold_first_write(harness)
        released = member.acknowledge((2, 2, [RELEASE]))
        accepted = member.acknowledge((0, 1, [ACCEPT]))
        await harness.settle()
        last = member.acknowledge((3, 3, [ACCEPT]))
        await harness.settle()
        held[0]()
        for reply in (released, accepted, last):
            assert not (await reply.get()).responses[0].partitions[0].error_code
        stored = harness.stored()
        assert stored is not None
        next_leader = SharePartition(
            stored.start_offset, stored.batches, max_in_flight=10, max_delivery_count=5
        )
        assert (next_leader.next_fetch_offset, next_leader.next_offset) == (2, 4)
        assert next_leader.start_offset == 2

    run_shares(scenario)


def test_next_session_reads_what_the_last_one_has_written() -> None:
    """Its state is read after writes that wait for an earlier one."""

    async def scenario(harness: ShareHarness) -> None:
        harness.produce(0, b"0")
        harness.produce(0, b"1")
        member = Member(harness, "m")
        await member.acquire()
        held = hold_first_write(harness)
        member.acknowledge((0, 0, [ACCEPT]))
        member.acknowledge((1, 1, [ACCEPT]))
        await harness.settle()
        member.disconnect()
        harness.produce(0, b"2")
        waiting = Member(harness, "next").fetch(max_wait_ms=5_000)
        await harness.settle()
        held[0]()
        data = partition_of(await waiting.get())
        assert data is not None
        assert ranges(data) == [(2, 2, 1)]

    run_shares(scenario)
