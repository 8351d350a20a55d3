"""Consumers of a group of both protocols in any order: nobody reads what another one reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group import Group
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from tests.broker.groups.captured_response import CapturedResponse
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.consumers import ModelClassic, ModelConsumer, beat
from tests.broker.groups.harness import CoordinatorHarness, coordinator_harness
from tests.support.profiles import examples
from tests.unit.aio.virtual import VirtualLoop

NUMBERS = st.integers(0, 5)
TOPICS = ["t1", "t2", "t3"]
#: What each consumer subscribes to: topics and regular expressions.
SUBSCRIPTIONS = st.sampled_from([(["t1"], ""), (["t1", "t2"], ""), ([], "t[12]"), ([], "t.*")])
ERRORS = {
    ErrorCode.NONE,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Clients that do what they should, with answers that are lost and a coordinator that moves."""

    @initialize(
        policy=st.sampled_from(["bidirectional", "bidirectional", "upgrade", "disabled"]),
        assignors=st.sampled_from(["uniform", "range"]),
    )
    def begin(self, policy: str, assignors: str) -> None:
        self.loop = VirtualLoop()
        self.stack = AsyncExitStack()
        options = {
            "group_consumer_migration_policy": policy,
            "group_consumer_assignors": assignors,
            "group_initial_rebalance_delay_ms": 0,
        }
        self.harness: CoordinatorHarness = self.run(
            lambda: self.stack.enter_async_context(coordinator_harness(**options))
        )
        for name, partitions in (("t1", 4), ("t2", 3)):
            self.harness.topics.create(name, partitions)
        self.num_consumers = 0
        self.consumers: dict[int, ModelConsumer] = {}
        self.classics: dict[int, ModelClassic] = {}
        self.pending: list[tuple[ModelConsumer, CapturedResponse]] = []

    def run(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loop.run_until_complete(main())

    def act(self, action: Callable[[], Any]) -> Any:
        """Run an action on the coordinator's event loop."""

        async def main() -> Any:
            return action()

        return self.run(main)

    # -- consumers

    @rule(number=NUMBERS, subscribed=SUBSCRIPTIONS, slow=st.booleans())
    def start(self, number: int, subscribed: tuple[list[str], str], slow: bool) -> None:
        """Start a process in a place; one that was there before is dead."""
        self.num_consumers += 1
        self.classics.pop(number, None)
        instance_id = f"i{number}" if number >= 4 else None
        self.consumers[number] = ModelConsumer(
            f"m{self.num_consumers}", *subscribed, instance_id=instance_id, slow=slow
        )
        self.heartbeat(number, is_lost=False)

    @rule(number=NUMBERS, is_lost=st.booleans())
    def heartbeat(self, number: int, is_lost: bool) -> None:
        consumer = self.consumers.get(number)
        if consumer is None or any(each is consumer for each, _ in self.pending):
            return
        answer = self.act(lambda: consumer.heartbeat(self.harness))
        if is_lost:  # The connection was cut: the request is repeated with the next heartbeat.
            return
        self.pending.append((consumer, answer))
        self.take_answers()

    @rule(
        numbers=st.lists(NUMBERS, min_size=2, max_size=4, unique=True),
        slow=st.booleans(),
        is_lost=st.booleans(),
    )
    def cooperate(self, numbers: list[int], slow: bool, is_lost: bool) -> None:
        """Let some consumers come to their assignments, and then another one come or go."""
        *numbers, late = numbers
        for number in numbers:
            if number not in self.consumers:
                self.start(number, (["t1"], ""), slow=False)
            self.consumers[number].topics, self.consumers[number].regex = ["t1"], ""
        for _ in range(3):
            for number in numbers:
                self.consumers[number].slow = False
                self.heartbeat(number, is_lost=False)
                self.no_partition_has_two_readers()
        for number in numbers:
            self.consumers[number].slow = slow
        if late in self.consumers:
            self.leave(late, returns=False, is_lost=is_lost)
        else:
            self.start(late, (["t1"], ""), slow=False)
        for lost in (is_lost, False, False):
            self.heartbeat_all(lost)

    @rule(is_lost=st.booleans())
    def heartbeat_all(self, is_lost: bool) -> None:
        for number in self.consumers:
            self.heartbeat(number, is_lost)
            self.no_partition_has_two_readers()

    @rule(number=NUMBERS)
    def revoke(self, number: int) -> None:
        if number in self.consumers:
            self.consumers[number].revoke()

    @rule(number=NUMBERS, subscribed=SUBSCRIPTIONS)
    def subscribe(self, number: int, subscribed: tuple[list[str], str]) -> None:
        if number in self.consumers:
            self.consumers[number].topics, self.consumers[number].regex = subscribed

    @rule(number=NUMBERS, returns=st.booleans(), is_lost=st.booleans())
    def leave(self, number: int, returns: bool, is_lost: bool) -> None:
        consumer = self.consumers.pop(number, None)
        if consumer is None:
            return
        self.pending = [each for each in self.pending if each[0] is not consumer]
        epoch = -2 if returns and consumer.instance_id is not None else -1
        answer = self.act(
            lambda: beat(
                self.harness,
                consumer.member_id,
                epoch,
                instance_id=consumer.instance_id,
                full=False,
            )
        )
        if answer.is_done and answer.error is ErrorCode.NONE and not is_lost:
            assert answer.response.member_epoch == epoch

    # -- classic consumers

    @rule(number=NUMBERS)
    def start_classic(self, number: int) -> None:
        self.consumers.pop(number, None)
        self.classics[number] = ModelClassic(["t1"])
        self.act(lambda: self.classics[number].act(self.harness))

    @rule(number=NUMBERS)
    def act_classic(self, number: int) -> None:
        if number in self.classics:
            self.act(lambda: self.classics[number].act(self.harness))

    @rule(number=NUMBERS)
    def leave_classic(self, number: int) -> None:
        classic = self.classics.pop(number, None)
        if classic is not None:
            self.act(lambda: self.harness.leave((classic.member_id, None)))

    # -- the cluster

    @rule(time_ms=st.sampled_from([100, 3_000, 11_000, 31_000, 46_000]))
    def wait(self, time_ms: int) -> None:
        self.run(lambda: asyncio.sleep(time_ms / 1000))

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 6))
    def change_topic(self, name: str, partitions: int) -> None:
        self.harness.topics.create(name, partitions)
        self.act(lambda: self.harness.coordinator.topics_changed([name]))

    @rule(
        is_held=st.booleans(),
        error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]),
    )
    def change_log(self, is_held: bool, error: ErrorCode) -> None:
        # Records that are refused are refused at once.
        self.harness.log.is_held = is_held and error is ErrorCode.NONE
        self.harness.log.error = error

    @precondition(lambda self: self.harness.log.held_appends)
    @rule(count=st.integers(1, 3))
    def release(self, count: int) -> None:
        self.act(lambda: self.harness.log.release(count))

    @rule()
    def replace_coordinator(self) -> None:
        self.act(self.harness.restart)

    # -- what has to hold

    def take_answers(self) -> None:
        for consumer, answer in [each for each in self.pending if each[1].is_done]:
            self.pending.remove((consumer, answer))
            assert answer.error in ERRORS, answer.response
            consumer.receive(self.harness, answer)

    def group(self) -> Any:
        return next(
            (each for each in self.harness.coordinator.groups if each.group_id == GROUP), None
        )

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        if not hasattr(self, "harness"):
            return
        self.take_answers()
        self.harness.coordinator.check()
        group = self.group()
        if not isinstance(group, ConsumerGroup):
            return
        readers: dict[tuple[str, int], str] = {}
        for consumer in self.consumers.values():
            # A member that was removed does not know it yet.
            if consumer.member_id not in group.members or consumer.epoch == 0:
                continue
            for partition in consumer.owned:
                assert partition not in readers, (partition, readers, vars(group))
                readers[partition] = consumer.member_id

    def is_quiet(self) -> bool:
        group = self.group()
        if group is None or group.state_name not in ("Stable", "Empty"):
            return False
        wanted: set[tuple[str, int]] = set()
        topics = self.harness.topics.topics
        for consumer in self.consumers.values():
            names = set(consumer.topics or ())
            if consumer.regex:
                names |= {name for name in topics if consumer.regex == "t.*" or name in "t1t2"}
            wanted |= {
                (name, index) for name in names for index in range(len(topics[name].partitions))
            }
        for classic in self.classics.values():
            wanted |= {
                (name, index)
                for name in classic.topics
                for index in range(len(topics[name].partitions))
            }
        owned = [
            partition
            for client in (*self.consumers.values(), *self.classics.values())
            for partition in client.owned
        ]
        return sorted(owned) == sorted(wanted)

    def settle(self) -> None:
        self.harness.log.is_held, self.harness.log.error = False, ErrorCode.NONE
        self.act(self.harness.log.release)
        for number in list(self.consumers):
            if isinstance(self.group(), Group) and self.classics:
                # Without upgrades they can't join the classic members.
                del self.consumers[number]
        for _ in range(60):
            for number in list(self.consumers):
                self.consumers[number].slow = False
                self.heartbeat(number, is_lost=False)
                self.no_partition_has_two_readers()
            for number in list(self.classics):
                self.act_classic(number)
            if self.is_quiet():
                return
            self.wait(1_500)
        raise AssertionError((self.consumers, self.classics, vars(self.group())))

    def teardown(self) -> None:
        """All partitions have a reader when all is quiet, and in the end nobody is left."""
        if not hasattr(self, "harness"):
            return
        try:
            if self.consumers or self.classics:
                self.settle()
            self.wait(1_000_000)
            self.harness.coordinator.check()
            assert all(each.is_done for each in self.harness.responses)
            assert self.harness.num_pending == (0, 0, 0)
            assert all(group.is_empty for group in self.harness.coordinator.groups)
        finally:
            self.run(self.stack.aclose)
            self.loop.close()


@pytest.mark.explore
def test_no_sequence_of_requests_gives_a_partition_to_two() -> None:
    run_state_machine_as_test(ConsumerGroupMachine, settings=examples(40, stateful_step_count=30))
