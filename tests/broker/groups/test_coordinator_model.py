"""The coordinator under whatever clients, the clock and the log do.

Hypothesis looks for a history in which it errs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
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

from request_purgatory.broker.groups import GroupState
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.groups.world import GROUP, Answer, World, world
from tests.support.profiles import examples
from tests.unit.aio.virtual import VirtualLoop

TIME_LIMIT = 600.0

WISHES = st.sampled_from(
    [
        (("range", b"r"), ("sticky", b"s")),
        (("sticky", b"s"), ("range", b"r")),
        (("range", b"new"), ("sticky", b"s")),
        (("range", b"r"),),
    ]
)
WISHES_OF_ALL = (("range", b"r"), ("sticky", b"s"))
VERSIONS = st.sampled_from([0, 3, 4, 5, 6, 9, 9, 9])
CLIENTS = st.integers(0, 5)
#: The clients that have one; two of them share one, as a process and the one that replaces it.
INSTANCES = {3: "x", 4: "y", 5: "y"}

ANSWERS_TO_JOIN = {
    ErrorCode.NONE,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
ANSWERS_TO_SYNC = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
ANSWERS_TO_HEARTBEAT = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
}


def owner(member_id: str) -> str:
    """Who goes by this id: a static member goes by several."""
    instance = member_id.split("-")[0]
    return instance if instance in INSTANCES.values() else member_id


@dataclass
class Process:
    """A client: what it knows of its membership, and what it waits for."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    members: list[str] = field(default_factory=list)
    joins: list[tuple[int, Answer]] = field(default_factory=list)
    syncs: list[tuple[int, str, int, Answer]] = field(default_factory=list)


class CoordinatorMachine(RuleBasedStateMachine):
    """Clients that do as they please."""

    @initialize(delay_ms=st.sampled_from([0, 3_000]), max_size=st.sampled_from([2, 100, 100]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.loop = VirtualLoop()
        self.stack = AsyncExitStack()
        self.clients = [Process(INSTANCES.get(number)) for number in range(6)]
        #: A coordinator that takes over knows stored generations only, and goes on counting from
        #: there.
        self.coordinators = 0
        self.told: dict[tuple[int, int], tuple[str, str]] = {}
        options = {"group_initial_rebalance_delay_ms": delay_ms, "group_max_size": max_size}
        self.world: World = self.run(lambda: self.stack.enter_async_context(world(**options)))

    def run(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loop.run_until_complete(main())

    def act(self, action: Callable[[], Any]) -> Any:
        """Call the coordinator on its loop."""

        async def main() -> Any:
            return action()

        return self.run(main)

    @rule(
        number=CLIENTS, wishes=WISHES, version=VERSIONS, session_ms=st.sampled_from([6_000, 30_000])
    )
    def join(
        self, number: int, wishes: tuple[tuple[str, bytes], ...], version: int, session_ms: int
    ) -> None:
        client = self.clients[number]
        version = max(version, 5) if client.instance_id else version
        options: dict[str, Any] = {
            "instance_id": client.instance_id,
            "protocols": wishes,
            "session_ms": session_ms,
        }
        answer = self.act(
            lambda: self.world.join(
                client.member_id, version=version, rebalance_ms=20_000, **options
            )
        )
        client.joins.append((self.coordinators, answer))

    @rule(number=CLIENTS, stale=st.booleans())
    def sync(self, number: int, stale: bool) -> None:
        client = self.clients[number]
        generation = client.generation - stale
        parts = {each: f"{generation} {owner(each)}".encode() for each in client.members}
        options: dict[str, Any] = {"instance_id": client.instance_id, "version": 4}
        answer = self.act(lambda: self.world.sync(client.member_id, generation, parts, **options))
        client.syncs.append((self.coordinators, client.member_id, generation, answer))

    @rule(numbers=st.lists(CLIENTS, min_size=1, max_size=4, unique=True))
    def cooperate(self, numbers: list[int]) -> None:
        """Some clients do what it takes to be a stable group, if the others let them."""
        for _ in range(3):
            for number in numbers:
                if not self.clients[number].joins:
                    self.join(number, WISHES_OF_ALL, 9, 30_000)
                    self.state_is_whole()
        for number in numbers:
            self.sync(number, stale=False)
        self.state_is_whole()

    @rule(number=CLIENTS)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        options = {"instance_id": client.instance_id}
        error = self.act(
            lambda: self.world.heartbeat(client.member_id, client.generation, **options)
        )
        assert error in ANSWERS_TO_HEARTBEAT, error
        if error is ErrorCode.NONE:
            assert client.member_id in self.world.group.members
            assert client.generation == self.world.group.generation

    @rule(number=CLIENTS, by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        client = self.clients[number]
        member_id = "" if by_instance and client.instance_id else client.member_id
        self.act(lambda: self.world.leave((member_id, client.instance_id)))

    @rule(number=CLIENTS)
    def start_again(self, number: int) -> None:
        self.clients[number] = Process(INSTANCES.get(number))

    @rule(number=CLIENTS, offset=st.integers(0, 1_000))
    def commit(self, number: int, offset: int) -> None:
        client = self.clients[number]
        options = {"instance_id": client.instance_id, "generation": client.generation}
        answer = self.act(
            lambda: self.world.commit({("t", 0): offset}, member_id=client.member_id, **options)
        )
        if answer.is_here and answer.got.topics[0].partitions[0].error_code == 0:
            assert self.act(self.world.committed) == {("t", 0): offset}

    @rule(time_ms=st.sampled_from([1, 100, 1_500, 3_000, 5_999, 7_000, 20_001, 31_000]))
    def wait(self, time_ms: int) -> None:
        self.run(lambda: asyncio.sleep(time_ms / 1000))

    @rule(
        is_held=st.booleans(),
        error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]),
    )
    def change_log(self, is_held: bool, error: ErrorCode) -> None:
        self.world.log.is_held, self.world.log.error = is_held, error

    @precondition(lambda self: self.world.log.held)
    @rule(count=st.integers(1, 3))
    def release(self, count: int) -> None:
        self.act(lambda: self.world.log.release(count))

    @rule()
    def take_over(self) -> None:
        self.act(self.world.restart)
        self.coordinators += 1

    @invariant()
    def state_is_whole(self) -> None:
        if hasattr(self, "world"):
            self.world.coordinator.check()
            for client in self.clients:
                self.hear(client)

    def hear(self, client: Process) -> None:
        """Let a client hear what it was answered, and look whether it can be."""
        for asked, answer in [each for each in client.joins if each[1].is_here]:
            client.joins.remove((asked, answer))
            got = answer.got
            assert answer.error in ANSWERS_TO_JOIN, got
            if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = got.member_id
            elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
                client.member_id, client.generation, client.members = "", -1, []
            elif answer.error is ErrorCode.NONE:
                client.member_id, client.generation = got.member_id, got.generation_id
                client.members = [each.member_id for each in got.members]
                if client.members:
                    assert got.leader == got.member_id
                    assert got.member_id in client.members
                # All who are told of a generation are told of the same leader and protocol.
                told = (owner(got.leader), got.protocol_name)
                assert self.told.setdefault((asked, got.generation_id), told) == told
        for asked, member_id, generation, answer in [
            each for each in client.syncs if each[3].is_here
        ]:
            client.syncs.remove((asked, member_id, generation, answer))
            assert answer.error in ANSWERS_TO_SYNC, answer.got
            if answer.error is ErrorCode.NONE:
                assert answer.got.assignment == f"{generation} {owner(member_id)}".encode()

    def teardown(self) -> None:
        """Clients fall silent, and their groups must not.

        Everybody is answered, and removed in the end.
        """
        if not hasattr(self, "world"):
            return
        try:
            self.world.log.is_held, self.world.log.error = False, ErrorCode.NONE
            self.act(self.world.log.release)
            self.wait(1_000_000)
            self.state_is_whole()
            assert all(each.is_here for each in self.world.answers), "somebody waits for ever"
            assert self.world.waiting == (0, 0, 0)
            for group in self.world.coordinator.groups:
                assert (group.group_id, group.state, group.members) == (GROUP, GroupState.EMPTY, {})
        finally:
            self.run(self.stack.aclose)
            self.loop.close()


@pytest.mark.explore
def test_no_history_is_found_in_which_it_errs() -> None:
    """Every request is answered once, a generation has one leader and one protocol, and no group is stuck."""
    run_state_machine_as_test(CoordinatorMachine, settings=examples(150, stateful_step_count=40))
