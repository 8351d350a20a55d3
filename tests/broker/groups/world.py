"""A coordinator in virtual time, with a log that does what the test says, and clients that count their answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
)

from request_purgatory.aio import Purgatory
from request_purgatory.broker.groups import Group, GroupCoordinator, GroupPurgatories
from request_purgatory.broker.server.request_context import Client
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.unit.aio.virtual import run

GROUP = "orders"
CLIENT = Client("app", "/127.0.0.1")
RANGE = (("range", b"r"),)
PARTITIONS = 4


def over_the_wire(message: Any, version: int) -> Any:
    """A message as the other side reads it."""
    return type(message).decode(memoryview(message.encode(version=version)), version=version)


class Answer:
    """What a request is answered with. The world counts: one answer, no less and no more."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.responses: list[Any] = []

    def __call__(self, response: Any) -> None:
        self.responses.append(over_the_wire(response, self.version))

    @property
    def is_here(self) -> bool:
        return bool(self.responses)

    @property
    def got(self) -> Any:
        """The response, which must be here."""
        (response,) = self.responses
        return response

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.got.error_code)


class Log:
    """The offsets topic: replicates at once, or, if `is_held`, when the test says so.

    Answers with `error` if there is one.
    """

    def __init__(self) -> None:
        self.records: dict[int, list[tuple[bytes, bytes | None]]] = {
            each: [] for each in range(PARTITIONS)
        }
        self.error = ErrorCode.NONE
        self.is_held = False
        self.held: deque[Callable[[], None]] = deque()
        self.failure: Exception | None = None

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
    ) -> None:
        if self.failure is not None:
            raise self.failure
        error = self.error
        if error is ErrorCode.NONE:
            self.records[partition] += records
        if self.is_held:
            self.held.append(lambda: done(error))
        else:
            done(error)

    def release(self, count: int | None = None) -> None:
        """The oldest ones that are held are done."""
        for _ in range(len(self.held) if count is None else min(count, len(self.held))):
            self.held.popleft()()


class World:
    """The coordinator, its purgatories and its log."""

    def __init__(self, purgatories: GroupPurgatories, **settings: Any) -> None:
        self.settings = ClusterSettings(offsets_topic_num_partitions=PARTITIONS, **settings)
        self.purgatories = purgatories
        self.log = Log()
        self.coordinator = self.another()
        self.answers: list[Answer] = []

    def answer(self, version: int) -> Answer:
        """For one more request."""
        self.answers.append(Answer(version))
        return self.answers[-1]

    def another(self) -> GroupCoordinator:
        """One that has every partition, and found in the log what was written so far."""
        coordinator = GroupCoordinator(
            1,
            self.settings,
            purgatories=self.purgatories,
            store=self.log,
            now_ms=lambda: int(asyncio.get_running_loop().time() * 1000),
        )
        for partition in range(PARTITIONS):
            coordinator.load(partition, list(self.log.records[partition]))
        return coordinator

    def restart(self) -> None:
        """The coordinator's node has failed, and another one takes over."""
        self.coordinator.close()
        self.coordinator = self.another()

    @property
    def group(self) -> Group:
        """The one group."""
        return next(each for each in self.coordinator.groups if each.group_id == GROUP)

    @property
    def waiting(self) -> tuple[int, int, int]:
        """How many operations are pending, of each kind."""
        return (
            self.purgatories.join.num_delayed,
            self.purgatories.sync.num_delayed,
            self.purgatories.heartbeat.num_delayed,
        )

    # -- requests, over the wire

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        group_id: str = GROUP,
        version: int = 9,
    ) -> Answer:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=raw)
                for name, raw in protocols
            ],
            reason="test",
        )
        answer = self.answer(version)
        self.coordinator.join_group(over_the_wire(request, version), CLIENT, answer, version)
        return answer

    def join_with_id(self, **options: Any) -> Answer:
        """A dynamic member's two steps; the answer to the second one."""
        first = self.join(**options)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.got.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group_id: str = GROUP,
        version: int = 5,
    ) -> Answer:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=each, assignment=raw)
                for each, raw in (assignments or {}).items()
            ],
        )
        answer = self.answer(version)
        self.coordinator.sync_group(over_the_wire(request, version), answer)
        return answer

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        instance_id: str | None = None,
        group_id: str = GROUP,
        version: int = 4,
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        response = self.coordinator.heartbeat(over_the_wire(request, version))
        assert isinstance(response, HeartbeatResponse)
        return ErrorCode(over_the_wire(response, version).error_code)

    def leave(
        self, *members: tuple[str, str | None], group_id: str = GROUP, version: int = 5
    ) -> Any:
        request = LeaveGroupRequest(
            group_id=group_id,
            member_id=members[0][0],
            members=[
                LeaveGroupRequest.MemberIdentity(member_id=each, group_instance_id=instance)
                for each, instance in members
            ],
        )
        response = self.coordinator.leave_group(over_the_wire(request, version))
        assert isinstance(response, LeaveGroupResponse)
        return over_the_wire(response, version)

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "note",
        leader_epoch: int = 3,
        retention_ms: int = -1,
        group_id: str = GROUP,
        version: int = 9,
    ) -> Answer:
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (name, index), offset in offsets.items()
            ],
        )
        answer = self.answer(version)
        self.coordinator.commit_offsets(over_the_wire(request, version), answer)
        if answer.is_here:
            assert isinstance(answer.got, OffsetCommitResponse)
        return answer

    def fetch(
        self, topics: dict[str, list[int]] | None, *, group_id: str = GROUP, version: int = 9
    ) -> Any:
        """The response: a group's part of it from version 8 on."""
        request = OffsetFetchRequest
        if version < 8:
            kind = request.OffsetFetchRequestTopic
            asked = (
                None
                if topics is None
                else [kind(name=name, partition_indexes=each) for name, each in topics.items()]
            )
            message = request(group_id=group_id, topics=asked)
        else:
            kind = request.OffsetFetchRequestGroup.OffsetFetchRequestTopics
            asked = (
                None
                if topics is None
                else [kind(name=name, partition_indexes=each) for name, each in topics.items()]
            )
            message = request(
                groups=[request.OffsetFetchRequestGroup(group_id=group_id, topics=asked)]
            )
        response = self.coordinator.fetch_offsets(over_the_wire(message, version))
        assert isinstance(response, OffsetFetchResponse)
        response = over_the_wire(response, version)
        return response if version < 8 else response.groups[0]

    def committed(self, *, group_id: str = GROUP, version: int = 9) -> dict[tuple[str, int], int]:
        """All that the group has committed."""
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in self.fetch(None, group_id=group_id, version=version).topics
            for each in topic.partitions
        }

    def delete_offsets(self, topic: str, *partitions: int, group_id: str = GROUP) -> Answer:
        kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
        parts = [kind.OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
        request = OffsetDeleteRequest(
            group_id=group_id, topics=[kind(name=topic, partitions=parts)]
        )
        answer = self.answer(0)
        self.coordinator.delete_offsets(over_the_wire(request, 0), answer)
        if answer.is_here:
            assert isinstance(answer.got, OffsetDeleteResponse)
        return answer

    def list(
        self, states: tuple[str, ...] = (), types: tuple[str, ...] = (), *, version: int = 5
    ) -> Any:
        request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
        response = self.coordinator.list_groups(over_the_wire(request, version))
        assert isinstance(response, ListGroupsResponse)
        return over_the_wire(response, version)

    def describe(self, *group_ids: str, operations: bool = False, version: int = 6) -> Any:
        request = DescribeGroupsRequest(
            groups=[*group_ids], include_authorized_operations=operations
        )
        response = self.coordinator.describe_groups(over_the_wire(request, version))
        assert isinstance(response, DescribeGroupsResponse)
        return over_the_wire(response, version).groups

    def delete(self, *group_ids: str, version: int = 2) -> Answer:
        answer = self.answer(version)
        self.coordinator.delete_groups(
            over_the_wire(DeleteGroupsRequest(groups_names=[*group_ids]), version), answer
        )
        if answer.is_here:
            assert isinstance(answer.got, DeleteGroupsResponse)
        return answer

    # -- scenes

    def stable(self, count: int = 2, **options: Any) -> list[str]:
        """A stable group of so many dynamic members, of which the first one leads; their ids."""
        joined = [self.join_with_id(**options)]
        for _ in range(count - 1):
            joined.append(self.join_with_id(**options))
            for answer in joined[:-1]:
                if answer.is_here and not joined[-1].is_here:
                    joined[joined.index(answer)] = self.join(answer.got.member_id, **options)
        ids = [answer.got.member_id for answer in joined]
        self.synced(ids, self.group.generation)
        return ids

    def synced(self, ids: list[str], generation: int) -> list[Answer]:
        """The members send SyncGroup, the first one with an assignment for each: its own id."""
        answers = [self.sync(each, generation) for each in ids[1:]]
        answers.append(self.sync(ids[0], generation, {each: each.encode() for each in ids}))
        return answers


@asynccontextmanager
async def world(**settings: Any) -> AsyncIterator[World]:
    """A world; whatever happened in it, nothing is left in its purgatories in the end."""
    async with (
        Purgatory("join") as join,
        Purgatory("sync") as sync,
        Purgatory("heartbeat") as heartbeat,
    ):
        scene = World(GroupPurgatories(join, sync, heartbeat), **settings)
        yield scene
        scene.coordinator.check()
        scene.coordinator.close()
        scene.log.release()
        assert [len(each.responses) for each in scene.answers] == [1] * len(scene.answers)
        assert scene.waiting == (0, 0, 0)
        for purgatory in scene.purgatories:
            assert purgatory.watched == 0, purgatory.name
            assert purgatory.metrics().callback_errors == 0
            purgatory.check()


def play(scenario: Callable[[World], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a scenario in a world of its own, in virtual time."""

    async def main() -> None:
        async with world(**settings) as scene:
            await scenario(scene)

    run(main)


async def ms(count: float) -> None:
    """Let time pass."""
    await asyncio.sleep(count / 1000)
