"""Topics of consumer groups that come, go, or are found by expressions."""

from __future__ import annotations

import asyncio

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.acls import (
    AclOperation,
    AclResource,
    Acls,
)
from purgatory_broker.metadata.authorizer import Authorizer
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.consumer_members import T1, all_of, consumer_group, join
from tests.broker.groups.consumers import ModelClassic, Owned, beat, partitions_of
from tests.broker.groups.harness import CoordinatorHarness, run_scenario
from tests.broker.security.acls import allows_everyone


def test_expression_is_looked_at_again_for_new_topics() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 1)
        beat(harness, "a", 0, owned=frozenset(), topics=None, regex="t[0-9]")
        await asyncio.sleep(0.1)
        got = beat(harness, "a", 1, owned=frozenset(), regex="t[0-9]")
        assert partitions_of(harness, got.response) == {("t1", 0)}
        harness.topics.create("t2", 1)
        harness.topics.create("u2", 1)
        harness.coordinator.topics_changed(["t2", "u2"])
        await asyncio.sleep(10)
        beat(harness, "a", 2, owned=frozenset([("t1", 0)]), regex="t[0-9]")
        await asyncio.sleep(0.1)
        got = beat(harness, "a", 2, owned=frozenset([("t1", 0)]), regex="t[0-9]")
        assert partitions_of(harness, got.response) == {("t1", 0), ("t2", 0)}

    run_scenario(scenario)


def test_long_work_with_expressions_gives_way_to_heartbeats() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        for number in range(300):
            harness.topics.create(f"t{number:0>200}", 1)
        beat(harness, "a", 0, owned=frozenset(), topics=None, regex="(t|0|[0-9])*(0|1)?(0|2)?")
        slices = 0
        while not consumer_group(harness).regexes:
            await asyncio.sleep(0.001)
            slices += 1
            assert beat(harness, "a", 1, full=False).error is ErrorCode.NONE
        assert slices > 1
        assert len(consumer_group(harness).regexes.popitem()[1].topics) == 300

    run_scenario(scenario)


def test_expression_finds_no_topics_that_the_member_may_not_describe() -> None:
    named = ((AclResource.GROUP, GROUP), (AclResource.TOPIC, "t1"))
    acls = Acls([allows_everyone(*each, AclOperation.READ) for each in named])

    async def scenario(harness: CoordinatorHarness) -> None:
        harness.authorizer = Authorizer(lambda: acls, frozenset(), allows_without_acls=False)
        harness.topics.create("t1", 1)
        harness.topics.create("t2", 1)
        beat(harness, "a", 0, owned=frozenset(), topics=None, regex="t[0-9]")
        await asyncio.sleep(0.1)
        got = beat(harness, "a", 1, owned=frozenset(), regex="t[0-9]")
        assert partitions_of(harness, got.response) == {("t1", 0)}
        assert consumer_group(harness).regexes["t[0-9]"].topics == {"t1"}

    run_scenario(scenario)


def test_topic_is_looked_at_again_if_the_change_could_not_be_stored() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 1)
        epoch = join(harness, "a")
        harness.topics.create("t1", 2)
        harness.coordinator.topics_changed(["t1"])
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        failed = beat(harness, "a", epoch, owned=all_of(1), topics=T1)
        assert failed.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.log.error = ErrorCode.NONE
        answer = beat(harness, "a", epoch, owned=all_of(1), topics=T1)
        assert partitions_of(harness, answer.response) == all_of(2)

    run_scenario(scenario)


def test_topic_that_was_deleted_is_found_when_it_is_created_again() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        def heartbeat(epoch: int, owned: Owned) -> Owned | None:
            answer = beat(harness, "a", epoch, owned=owned, topics=None, regex="t[0-9]")
            assert answer.error is ErrorCode.NONE, answer.response
            return partitions_of(harness, answer.response)

        nothing: Owned = frozenset()
        harness.topics.create("t1", 1)
        harness.coordinator.topics_changed(["t1"])
        heartbeat(0, nothing)
        await asyncio.sleep(0.1)
        assert heartbeat(1, nothing) == all_of(1)
        del harness.topics.topics["t1"]
        harness.coordinator.topics_changed(["t1"])
        await asyncio.sleep(30)
        heartbeat(2, nothing)
        await asyncio.sleep(30)
        harness.advanced_ms += 600_000
        assert heartbeat(3, nothing) == nothing
        await asyncio.sleep(0.1)
        assert not consumer_group(harness).regexes["t[0-9]"].topics
        harness.topics.create("t1", 1)
        harness.coordinator.topics_changed(["t1"])
        await asyncio.sleep(11)
        epoch = consumer_group(harness).current_of("a").epoch
        heartbeat(epoch, nothing)
        await asyncio.sleep(0.1)
        assert consumer_group(harness).regexes["t[0-9]"].topics == {"t1"}

    run_scenario(scenario)


def test_expression_is_looked_at_after_a_downgrade_that_is_not_stored() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.topics.create("t1", 1)
        join(harness, "b")
        classic = ModelClassic(["t1"])
        for _ in range(3):
            classic.act(harness)
        assert classic.member_id in consumer_group(harness).members
        beat(harness, "b", -1, full=False)
        beat(harness, "a", 0, owned=frozenset(), topics=None, regex="t[0-9]")
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        left = beat(harness, "a", -1, full=False)
        assert left.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.log.error = ErrorCode.NONE
        await asyncio.sleep(0.1)
        assert consumer_group(harness).regexes["t[0-9]"].topics == {"t1"}

    run_scenario(scenario, group_consumer_migration_policy="bidirectional")
