"""A stateful test of the coordinator with arbitrary clients, clock and log.

Hypothesis searches for a sequence of requests that breaks an invariant.
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

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.group import GroupState
from tests.broker.groups.captured_response import CapturedResponse
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.harness import CoordinatorHarness, coordinator_harness
from tests.support.profiles import examples
from tests.unit.aio.virtual import VirtualLoop

TIME_LIMIT = 600.0

PROTOCOLS = st.sampled_from(
    [
        (("range", b"r"), ("sticky", b"s")),
        (("sticky", b"s"), ("range", b"r")),
        (("range", b"new"), ("sticky", b"s")),
        (("range", b"r"),),
    ]
)
COMMON_PROTOCOLS = (("range", b"r"), ("sticky", b"s"))
VERSIONS = st.sampled_from([0, 3, 4, 5, 6, 9, 9, 9])
CLIENTS = st.integers(0, 5)
#: Instance ids by client. Two clients share one, as a process and its replacement do.
INSTANCES = {3: "x", 4: "y", 5: "y"}

JOIN_ERRORS = {
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
SYNC_ERRORS = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
HEARTBEAT_ERRORS = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
}


def owner(member_id: str) -> str:
    """Return the member's instance id, or `member_id` for a dynamic member."""
    instance = member_id.split("-")[0]
    return instance if instance in INSTANCES.values() else member_id


@dataclass
class Process:
    """A client process: what it knows of its membership, and its pending requests."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    members: list[str] = field(default_factory=list)
    joins: list[tuple[int, CapturedResponse]] = field(default_factory=list)
    syncs: list[tuple[int, str, int, CapturedResponse]] = field(default_factory=list)


class CoordinatorMachine(RuleBasedStateMachine):
    """Clients that send requests in any order."""

    @initialize(delay_ms=st.sampled_from([0, 3_000]), max_size=st.sampled_from([2, 100, 100]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.loop = VirtualLoop()
        self.stack = AsyncExitStack()
        self.clients = [Process(INSTANCES.get(number)) for number in range(6)]
        #: The number of coordinators that were replaced. A new one continues with the stored
        #: generation, so a generation is unique for one coordinator only.
        self.coordinators = 0
        self.leaders_and_protocols: dict[tuple[int, int], tuple[str, str]] = {}
        options = {"group_initial_rebalance_delay_ms": delay_ms, "group_max_size": max_size}
        self.harness: CoordinatorHarness = self.run(
            lambda: self.stack.enter_async_context(coordinator_harness(**options))
        )

    def run(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loop.run_until_complete(main())

    def act(self, action: Callable[[], Any]) -> Any:
        """Run an action on the coordinator's event loop."""

        async def main() -> Any:
            return action()

        return self.run(main)

    @rule(
        number=CLIENTS,
        protocols=PROTOCOLS,
        version=VERSIONS,
        session_ms=st.sampled_from([6_000, 30_000]),
    )
    def join(
        self, number: int, protocols: tuple[tuple[str, bytes], ...], version: int, session_ms: int
    ) -> None:
        client = self.clients[number]
        version = max(version, 5) if client.instance_id else version
        options: dict[str, Any] = {
            "instance_id": client.instance_id,
            "protocols": protocols,
            "session_ms": session_ms,
        }
        captured = self.act(
            lambda: self.harness.join(
                client.member_id, version=version, rebalance_ms=20_000, **options
            )
        )
        client.joins.append((self.coordinators, captured))

    @rule(number=CLIENTS, stale=st.booleans())
    def sync(self, number: int, stale: bool) -> None:
        client = self.clients[number]
        generation = client.generation - stale
        parts = {each: f"{generation} {owner(each)}".encode() for each in client.members}
        options: dict[str, Any] = {"instance_id": client.instance_id, "version": 4}
        captured = self.act(
            lambda: self.harness.sync(client.member_id, generation, parts, **options)
        )
        client.syncs.append((self.coordinators, client.member_id, generation, captured))

    @rule(numbers=st.lists(CLIENTS, min_size=1, max_size=4, unique=True))
    def cooperate(self, numbers: list[int]) -> None:
        """Let some clients form a stable group, unless other clients interfere."""
        for _ in range(3):
            for number in numbers:
                if not self.clients[number].joins:
                    self.join(number, COMMON_PROTOCOLS, 9, 30_000)
                    self.check_state()
        for number in numbers:
            self.sync(number, stale=False)
        self.check_state()

    @rule(number=CLIENTS)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        options = {"instance_id": client.instance_id}
        error = self.act(
            lambda: self.harness.heartbeat(client.member_id, client.generation, **options)
        )
        assert error in HEARTBEAT_ERRORS, error
        if error is ErrorCode.NONE:
            assert client.member_id in self.harness.group.members
            assert client.generation == self.harness.group.generation

    @rule(number=CLIENTS, by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        client = self.clients[number]
        member_id = "" if by_instance and client.instance_id else client.member_id
        self.act(lambda: self.harness.leave((member_id, client.instance_id)))

    @rule(number=CLIENTS)
    def restart_client(self, number: int) -> None:
        self.clients[number] = Process(INSTANCES.get(number))

    @rule(number=CLIENTS, offset=st.integers(0, 1_000))
    def commit(self, number: int, offset: int) -> None:
        client = self.clients[number]
        options = {"instance_id": client.instance_id, "generation": client.generation}
        captured = self.act(
            lambda: self.harness.commit({("t", 0): offset}, member_id=client.member_id, **options)
        )
        if captured.is_done and captured.response.topics[0].partitions[0].error_code == 0:
            assert self.act(self.harness.committed) == {("t", 0): offset}

    @rule(time_ms=st.sampled_from([1, 100, 1_500, 3_000, 5_999, 7_000, 20_001, 31_000]))
    def wait(self, time_ms: int) -> None:
        self.run(lambda: asyncio.sleep(time_ms / 1000))

    @rule(
        is_held=st.booleans(),
        error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]),
    )
    def change_log(self, is_held: bool, error: ErrorCode) -> None:
        self.harness.log.is_held, self.harness.log.error = is_held, error

    @precondition(lambda self: self.harness.log.held_appends)
    @rule(count=st.integers(1, 3))
    def release(self, count: int) -> None:
        self.act(lambda: self.harness.log.release(count))

    @rule()
    def replace_coordinator(self) -> None:
        self.act(self.harness.restart)
        self.coordinators += 1

    @invariant()
    def check_state(self) -> None:
        if hasattr(self, "harness"):
            self.harness.coordinator.check()
            for client in self.clients:
                self.receive_responses(client)

    def receive_responses(self, client: Process) -> None:
        """Pass a client its responses and check that they are allowed."""
        for coordinator, captured in [each for each in client.joins if each[1].is_done]:
            client.joins.remove((coordinator, captured))
            response = captured.response
            assert captured.error in JOIN_ERRORS, response
            if captured.error is ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = response.member_id
            elif captured.error is ErrorCode.UNKNOWN_MEMBER_ID:
                client.member_id, client.generation, client.members = "", -1, []
            elif captured.error is ErrorCode.NONE:
                client.member_id, client.generation = response.member_id, response.generation_id
                client.members = [each.member_id for each in response.members]
                if client.members:
                    assert response.leader == response.member_id
                    assert response.member_id in client.members
                # All members get the same leader and protocol for a generation.
                expected = (owner(response.leader), response.protocol_name)
                found = self.leaders_and_protocols.setdefault(
                    (coordinator, response.generation_id), expected
                )
                assert found == expected
        for coordinator, member_id, generation, captured in [
            each for each in client.syncs if each[3].is_done
        ]:
            client.syncs.remove((coordinator, member_id, generation, captured))
            assert captured.error in SYNC_ERRORS, captured.response
            if captured.error is ErrorCode.NONE:
                assert captured.response.assignment == f"{generation} {owner(member_id)}".encode()

    def teardown(self) -> None:
        """Stop all clients; check that every request is answered and every member removed."""
        if not hasattr(self, "harness"):
            return
        try:
            self.harness.log.is_held, self.harness.log.error = False, ErrorCode.NONE
            self.act(self.harness.log.release)
            self.wait(1_000_000)
            self.check_state()
            assert all(each.is_done for each in self.harness.responses), (
                "a request was not answered"
            )
            assert self.harness.num_pending == (0, 0, 0)
            for group in self.harness.coordinator.groups:
                assert (group.group_id, group.state, group.members) == (GROUP, GroupState.EMPTY, {})
        finally:
            self.run(self.stack.aclose)
            self.loop.close()


@pytest.mark.explore
def test_no_sequence_of_requests_breaks_an_invariant() -> None:
    run_state_machine_as_test(CoordinatorMachine, settings=examples(150, stateful_step_count=40))
