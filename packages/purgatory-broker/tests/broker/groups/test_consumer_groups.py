"""Time, failures and limits of consumer groups; parity cases compare the answers with Kafka's."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.consumer_group import ConsumerGroupState
from purgatory_broker.groups.modern.record_values import MemberState
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.consumer_members import T1, all_of, consumer_group, join
from tests.broker.groups.consumers import ModelClassic, beat, partitions_of
from tests.broker.groups.harness import CoordinatorHarness, run_scenario


def test_member_without_heartbeats_is_removed_after_its_session() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        join(harness, "a")
        await asyncio.sleep(44.9)
        assert "a" in consumer_group(harness).members
        await asyncio.sleep(0.2)
        group = consumer_group(harness)
        assert group.state is ConsumerGroupState.EMPTY
        assert group.epoch == 2

    run_scenario(scenario)


def test_setting_of_the_group_is_its_session_timeout_and_interval() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        harness.group_configs["consumer.session.timeout.ms"] = 50_000
        harness.group_configs["consumer.heartbeat.interval.ms"] = 7_000
        answer = beat(harness, "a", 0, owned=frozenset(), topics=T1)
        assert answer.response.heartbeat_interval_ms == 7_000
        await asyncio.sleep(49.9)
        assert "a" in consumer_group(harness).members
        await asyncio.sleep(0.2)
        assert not consumer_group(harness).members

    run_scenario(scenario)


def test_member_that_keeps_partitions_is_removed_after_its_rebalance_timeout() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        epoch = join(harness, "a", rebalance_ms=5_000)
        second = join(harness, "b")
        beat(harness, "a", epoch, owned=all_of(2), topics=T1, rebalance_ms=5_000)
        assert consumer_group(harness).current_of("a").state is MemberState.UNREVOKED_PARTITIONS
        await asyncio.sleep(4)
        beat(harness, "a", epoch, full=False)  # A heartbeat is not enough.
        await asyncio.sleep(1.1)
        assert set(consumer_group(harness).members) == {"b"}
        answer = beat(harness, "b", second, owned=frozenset(), topics=T1)
        assert partitions_of(harness, answer.response) == all_of(2)

    run_scenario(scenario)


def test_member_that_gives_up_partitions_in_time_stays() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        epoch = join(harness, "a", rebalance_ms=5_000)
        join(harness, "b")
        told = beat(harness, "a", epoch, owned=all_of(2), topics=T1, rebalance_ms=5_000)
        kept = partitions_of(harness, told.response)
        assert kept is not None
        assert len(kept) == 1
        after = beat(harness, "a", epoch, owned=kept, topics=T1, rebalance_ms=5_000)
        assert after.response.member_epoch == 2
        await asyncio.sleep(5.1)
        assert set(consumer_group(harness).members) == {"a", "b"}

    run_scenario(scenario)


def test_advanced_time_ends_sessions() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        join(harness, "a")
        harness.advanced_ms = 45_001
        harness.coordinator.time_advanced()
        await asyncio.sleep(0.01)
        assert not consumer_group(harness).members

    run_scenario(scenario)


def test_change_that_is_not_stored_leaves_the_group_as_it_was() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        epoch = join(harness, "a")
        group = consumer_group(harness)
        before = (dict(group.members), dict(group.current), dict(group.targets), group.epoch)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        for answer in (
            beat(harness, "b", 0, owned=frozenset(), topics=T1),
            beat(harness, "a", epoch, topics=["t1", "t2"], owned=all_of(2)),
            beat(harness, "a", -1, full=False),
        ):
            assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert before == (group.members, group.current, group.targets, group.epoch)
        harness.log.error = ErrorCode.NONE
        await asyncio.sleep(45.1)
        assert not group.members

    run_scenario(scenario)


def test_group_that_is_not_stored_does_not_exist() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        beat(harness, "a", 0, owned=frozenset(), topics=T1)
        assert not harness.coordinator.groups
        harness.log.error = ErrorCode.NONE

    run_scenario(scenario)


def test_upgrade_that_is_not_stored_leaves_a_classic_group() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        classic = ModelClassic(T1)
        for _ in range(3):
            classic.act(harness)
            await asyncio.sleep(0.1)
        assert classic.owned == all_of(2)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        answer = beat(harness, "a", 0, owned=frozenset(), topics=T1)
        assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.log.error = ErrorCode.NONE
        assert harness.heartbeat(classic.member_id, classic.generation) is ErrorCode.NONE
        assert classic.member_id in harness.group.members

    run_scenario(scenario)


def test_answer_waits_until_the_change_before_is_replicated() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        harness.log.is_held = True
        first = beat(harness, "a", 0, owned=frozenset(), topics=T1)
        again = beat(harness, "a", 1, full=False)
        assert not first.is_done
        assert not again.is_done
        harness.log.release()
        assert first.response.member_epoch == again.response.member_epoch == 1
        harness.log.is_held = False

    run_scenario(scenario)


def test_next_coordinator_goes_on_in_the_middle() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        epoch = join(harness, "a", rebalance_ms=5_000)
        join(harness, "b")
        told = beat(harness, "a", epoch, owned=all_of(2), topics=T1, rebalance_ms=5_000)
        before = vars(consumer_group(harness))["current"]
        harness.restart()
        group = consumer_group(harness)
        assert group.current == before
        assert group.current_of("a").state is MemberState.UNREVOKED_PARTITIONS
        kept = partitions_of(harness, told.response)
        after = beat(harness, "a", epoch, owned=kept, topics=T1, rebalance_ms=5_000)
        assert after.response.member_epoch == 2

    run_scenario(scenario)


def test_loaded_member_has_its_rebalance_timeout_again() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        epoch = join(harness, "a", rebalance_ms=5_000)
        join(harness, "b")
        beat(harness, "a", epoch, owned=all_of(2), topics=T1, rebalance_ms=5_000)
        harness.restart()
        await asyncio.sleep(5.1)
        assert set(consumer_group(harness).members) == {"b"}

    run_scenario(scenario)


def test_group_that_is_joined_while_it_is_deleted_stays() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        join(harness, "a")
        beat(harness, "a", -1, full=False)
        harness.log.is_held = True
        deleted = harness.delete_groups(GROUP)
        joined = beat(harness, "b", 0, owned=frozenset(), topics=T1)
        harness.log.release()
        harness.log.is_held = False
        assert deleted.is_done
        assert joined.error is ErrorCode.NONE
        listed = harness.coordinator.administration.list_groups((), ())
        assert [(group.group_id, group.state) for group in listed] == [(GROUP, "Stable")]
        harness.restart()
        assert set(consumer_group(harness).members) == {"b"}

    run_scenario(scenario)


def test_full_group_refuses_further_members() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        join(harness, "a")
        answer = beat(harness, "b", 0, owned=frozenset(), topics=T1)
        assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED

    run_scenario(scenario, group_consumer_max_size=1)


def test_most_members_choose_the_assignor() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        describe = harness.coordinator.consumer.describe
        join(harness, "a")
        assert describe(GROUP).assignor == "uniform"
        join(harness, "b", assignor="range")
        assert describe(GROUP).assignor == "range"

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("policy", "code"),
    [("upgrade", ErrorCode.NONE), ("downgrade", ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_policy_decides_about_upgrades(policy: str, code: ErrorCode) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        classic = ModelClassic(T1)
        for _ in range(3):
            classic.act(harness)
            await asyncio.sleep(0.1)
        assert beat(harness, "a", 0, owned=frozenset(), topics=T1).error is code
        if code is ErrorCode.NONE:
            beat(harness, "a", -1, full=False)
            # Without downgrades, the classic member stays in the consumer group.
            assert set(consumer_group(harness).members) == {classic.member_id}

    run_scenario(scenario, group_consumer_migration_policy=policy)


def test_revocation_that_is_not_stored_has_no_timeout() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        epoch = join(harness, "a", rebalance_ms=5_000)
        second = join(harness, "b")
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        beat(harness, "a", epoch, owned=all_of(2), topics=T1, rebalance_ms=5_000)
        harness.log.error = ErrorCode.NONE
        assert consumer_group(harness).current_of("a").state is MemberState.STABLE
        beat(harness, "b", -1, full=False)
        assert second > epoch
        await asyncio.sleep(5.1)
        assert set(consumer_group(harness).members) == {"a"}

    run_scenario(scenario)


def test_revocation_keeps_its_timeout_if_its_end_is_not_stored() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        epoch = join(harness, "a", rebalance_ms=5_000)
        join(harness, "b")
        told = beat(harness, "a", epoch, owned=all_of(2), topics=T1, rebalance_ms=5_000)
        kept = partitions_of(harness, told.response)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        beat(harness, "a", epoch, owned=kept, topics=T1, rebalance_ms=5_000)
        harness.log.error = ErrorCode.NONE
        assert consumer_group(harness).current_of("a").state is MemberState.UNREVOKED_PARTITIONS
        await asyncio.sleep(5.1)
        assert set(consumer_group(harness).members) == {"b"}

    run_scenario(scenario)


def test_static_member_that_will_return_need_not_give_up_partitions() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 2)
        epoch = join(harness, "a", instance_id="i", rebalance_ms=5_000)
        join(harness, "b")
        beat(harness, "a", epoch, owned=all_of(2), instance_id="i", rebalance_ms=5_000)
        assert consumer_group(harness).current_of("a").state is MemberState.UNREVOKED_PARTITIONS
        left = beat(harness, "a", -2, instance_id="i", full=False)
        assert left.error is ErrorCode.NONE
        await asyncio.sleep(5.1)
        assert set(consumer_group(harness).members) == {"a", "b"}

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("member_id", "options", "message"),
    [
        (" ", {}, "MemberId can't be empty."),
        ("a", {"group_id": "\t"}, "GroupId can't be empty."),
        ("a", {"instance_id": " "}, "InstanceId can't be empty."),
    ],
)
def test_blanks_are_empty(member_id: str, options: dict[str, str], message: str) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        answer = beat(harness, member_id, 0, owned=frozenset(), topics=T1, **options)  # type: ignore[arg-type]
        assert answer.error is ErrorCode.INVALID_REQUEST
        assert answer.response.error_message == message
        assert not harness.coordinator.groups

    run_scenario(scenario)
