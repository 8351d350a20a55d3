"""A group coordinator in virtual time, with a log that the test controls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.producer import TxnOffsetCommitRequest

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.messages import Header
from purgatory_broker.api.registry import APIS, handle
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.coordinator import GroupCoordinator, ShareGroupParts
from purgatory_broker.groups.group import Group
from purgatory_broker.groups.group_messages import Producer, TransactionalCommit
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.rebalancer import GroupPurgatories
from purgatory_broker.groups.shards import NO_PRODUCER_ID, StoredMarker, StoredRecord
from purgatory_broker.groups.share.messages import OffsetReply, ShareOffset
from purgatory_broker.log.verification import VerificationGuard
from purgatory_broker.metadata.authorizer import Authorizer
from purgatory_broker.metadata.topics import Partition, Topic
from purgatory_broker.request_context import Client, RequestContext
from purgatory_broker.settings import ClusterSettings
from request_purgatory.aio import Purgatory
from tests.broker.wire.schemas import read_body
from tests.unit.aio.virtual import run

GROUP = "orders"
CLIENT = Client("app", "/127.0.0.1")
RANGE = (("range", b"r"),)
PARTITIONS = 4


class CapturedResponse:
    """The response to one request; the harness checks that there is exactly one."""

    def __init__(self, api: Api, version: int) -> None:
        self.api = api
        self.version = version
        self.responses: list[Any] = []

    def __call__(self, response: Any) -> None:
        """Take a response as it arrives at the client."""
        messages, version = self.api.messages, self.version
        out = messages.writer(version)
        messages.write_response(out, response, version)
        reader = messages.reader(bytes(out), 0, version)
        self.responses.append(messages.read_response(reader, version))

    @property
    def is_done(self) -> bool:
        """True if the request has been answered."""
        return bool(self.responses)

    @property
    def response(self) -> Any:
        """The response, which must have arrived."""
        (response,) = self.responses
        return response

    @property
    def error(self) -> ErrorCode:
        """The error code of the response."""
        return ErrorCode(self.response.error_code)


class OffsetsLog:
    """The offsets topic. Appends complete immediately or, if `is_held`, when released.

    Attributes:
        error: The error with which appends complete.
        failure: Raised by every append; None to append.
    """

    def __init__(self) -> None:
        self.records: dict[int, list[StoredRecord | StoredMarker]] = {
            each: [] for each in range(PARTITIONS)
        }
        self.error = ErrorCode.NONE
        self.is_held = False
        self.held_appends: deque[Callable[[], None]] = deque()
        self.failure: Exception | None = None
        #: With which the coordinator of transactions answers.
        self.verification = ErrorCode.NONE
        #: The partitions and commits that were verified.
        self.verified: list[tuple[int, TransactionalCommit]] = []

    def verify(
        self,
        partition: int,
        commit: TransactionalCommit,
        reply: Callable[[ErrorCode, VerificationGuard | None], None],
    ) -> None:
        self.verified.append((partition, commit))
        reply(self.verification, VerificationGuard())

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
        producer: Producer | None,
    ) -> None:
        if self.failure is not None:
            raise self.failure
        error = self.error
        if error is ErrorCode.NONE:
            producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
            self.records[partition] += [
                StoredRecord(key, value, producer_id) for key, value in records
            ]
        if self.is_held:
            self.held_appends.append(lambda: done(error))
        else:
            done(error)

    def release(self, count: int | None = None) -> None:
        """Complete the `count` oldest appends that are held, or all."""
        num_held = len(self.held_appends)
        for _ in range(num_held if count is None else min(count, num_held)):
            self.held_appends.popleft()()


class HarnessTopics:
    """The topics of the cluster, as the coordinator's node knows them."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}

    def create(self, name: str, partitions: int) -> Topic:
        """Create a topic, or give it more partitions."""
        if name not in self.topics:
            self.topics[name] = Topic(name, uuid5(NAMESPACE_DNS, name))
        topic = self.topics[name]
        for index in range(len(topic.partitions), partitions):
            topic.partitions.append(Partition(name, index, [1], [1], 1))
        return topic

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """Return a topic's name; None if it does not exist."""
        for topic in self.topics.values():
            if topic.topic_id == topic_id:
                return topic.name
        return None


class HarnessShareOffsets:
    """The start offsets of share partitions; tests may hold the answers."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, TopicIdPartition], tuple[int, int]] = {}

    def initialize(
        self,
        group_id: str,
        partition: TopicIdPartition,
        state_epoch: int,
        start_offset: int,
        reply: OffsetReply,
    ) -> None:
        """Store a start offset."""
        self.stored[group_id, partition] = state_epoch, start_offset
        reply(ShareOffset())

    def read(self, group_id: str, partition: TopicIdPartition, reply: OffsetReply) -> None:
        """Answer with a start offset."""
        _, start_offset = self.stored.get((group_id, partition), (0, -1))
        reply(ShareOffset(start_offset=start_offset))

    def delete(self, group_id: str, partition: TopicIdPartition, reply: OffsetReply) -> None:
        """Delete a start offset."""
        self.stored.pop((group_id, partition), None)
        reply(ShareOffset())


class HarnessBroker:
    """What handlers of group requests need of a broker: every partition exists."""

    node_id = 1

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer | None) -> None:
        self.groups = groups
        self.authorizer = authorizer
        self.metadata = self

    def partition_exists(self, key: object) -> bool:
        return True


class CoordinatorHarness:
    """A coordinator, its purgatories and its log.

    Requests and responses are encoded and decoded, in the given version, and pass through the
    handlers of their APIs.
    """

    def __init__(self, purgatories: GroupPurgatories, **settings: Any) -> None:
        self.settings = ClusterSettings(offsets_topic_num_partitions=PARTITIONS, **settings)
        self.purgatories = purgatories
        self.log = OffsetsLog()
        self.topics = HarnessTopics()
        self.share_offsets = HarnessShareOffsets()
        #: The dynamic settings of every group.
        self.group_configs: dict[str, int] = {}
        #: How far the time of day is ahead of the loop's time.
        self.advanced_ms = 0
        #: None allows everything.
        self.authorizer: Authorizer | None = None
        self.coordinator = self.new_coordinator()
        self.responses: list[CapturedResponse] = []

    def capture(self, api: Api, version: int) -> CapturedResponse:
        """Return the capture for a new request."""
        self.responses.append(CapturedResponse(api, version))
        return self.responses[-1]

    def send(self, request: Any, version: int) -> CapturedResponse:
        """Let the handler of a request's API handle it."""
        api = APIS[request.API_KEY]
        captured = self.capture(api, version)
        context = RequestContext(
            Header(api, version, 1, CLIENT.client_id, 0, is_supported=True),
            CLIENT,
            lambda _context, response: captured(response),
            lambda _reason: None,
        )
        decoded = read_body(api, version, bytes(request.encode(version=version)))
        handle(HarnessBroker(self.coordinator, self.authorizer), api, context, decoded)
        return captured

    def new_coordinator(self) -> GroupCoordinator:
        """Return a coordinator that has loaded every partition from the log."""
        coordinator = GroupCoordinator(
            1,
            self.settings,
            actions=ActionQueue(),
            purgatories=self.purgatories,
            store=self.log,
            now_ms=lambda: round(asyncio.get_running_loop().time() * 1000) + self.advanced_ms,
            metadata=self.topics,
            share=ShareGroupParts(self.share_offsets, lambda _group: 45_000, lambda _group: 5_000),
            group_config=lambda _group_id, name: self.group_configs.get(name),
        )
        for partition in range(PARTITIONS):
            coordinator.load(partition, list(self.log.records[partition]))
        return coordinator

    def restart(self) -> None:
        """Replace the coordinator, as if its node had failed."""
        self.unload()
        self.coordinator = self.new_coordinator()

    def compact(self) -> None:
        """Keep the last record of each key, without tombstones."""
        for partition, entries in self.log.records.items():
            last = {each.key: each for each in entries if isinstance(each, StoredRecord)}
            self.log.records[partition] = [
                each
                for each in entries
                if isinstance(each, StoredMarker)
                or (last[each.key] is each and each.value is not None)
            ]

    def unload(self) -> None:
        for partition in range(PARTITIONS):
            self.coordinator.unload(partition)

    @property
    def group(self) -> Group:
        """The group `GROUP`."""
        group = next(each for each in self.coordinator.groups if each.group_id == GROUP)
        assert isinstance(group, Group)
        return group

    @property
    def num_pending(self) -> tuple[int, int, int]:
        """The numbers of pending operations: join, sync, heartbeat."""
        return (
            self.purgatories.join.num_delayed,
            self.purgatories.sync.num_delayed,
            self.purgatories.heartbeat.num_delayed,
        )

    # -- requests

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
    ) -> CapturedResponse:
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
        return self.send(request, version)

    def join_with_id(self, **options: Any) -> CapturedResponse:
        """Join as a new dynamic member: request a member id and join with it."""
        first = self.join(**options)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.response.member_id, **options)

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
    ) -> CapturedResponse:
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
        return self.send(request, version)

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
        return self.send(request, version).error

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
        return self.send(request, version).response

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
    ) -> CapturedResponse:
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
        return self.send(request, version)

    def commit_in_transaction(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        producer: tuple[int, int] = (7, 0),
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        metadata: str = "note",
        group_id: str = GROUP,
        version: int = 5,
    ) -> CapturedResponse:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        request = TxnOffsetCommitRequest(
            transactional_id="producer",
            group_id=group_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=3,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (name, index), offset in offsets.items()
            ],
        )
        return self.send(request, version)

    def end_transaction(self, producer_id: int = 7, *, commit: bool = True) -> None:
        """Write a producer's marker to every partition, as its coordinator does."""
        for partition, records in self.log.records.items():
            records.append(StoredMarker(producer_id, commit))
            self.coordinator.offsets.end_transaction(partition, producer_id, commit)

    def fetch(
        self,
        topics: dict[str, list[int]] | None,
        *,
        group_id: str = GROUP,
        version: int = 9,
        stable: bool = False,
    ) -> Any:
        """Fetch committed offsets; return the group's part of the response since version 8."""
        request = OffsetFetchRequest
        if version < 8:
            kind = request.OffsetFetchRequestTopic
            requested = (
                None
                if topics is None
                else [kind(name=name, partition_indexes=each) for name, each in topics.items()]
            )
            message = request(group_id=group_id, topics=requested, require_stable=stable)
        else:
            kind = request.OffsetFetchRequestGroup.OffsetFetchRequestTopics
            requested = (
                None
                if topics is None
                else [kind(name=name, partition_indexes=each) for name, each in topics.items()]
            )
            message = request(
                groups=[request.OffsetFetchRequestGroup(group_id=group_id, topics=requested)],
                require_stable=stable,
            )
        response = self.send(message, version).response
        return response if version < 8 else response.groups[0]

    def committed(self, *, group_id: str = GROUP, version: int = 9) -> dict[tuple[str, int], int]:
        """Return all committed offsets of the group."""
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in self.fetch(None, group_id=group_id, version=version).topics
            for each in topic.partitions
        }

    def delete_offsets(
        self, topic: str, *partitions: int, group_id: str = GROUP
    ) -> CapturedResponse:
        kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
        parts = [kind.OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
        request = OffsetDeleteRequest(
            group_id=group_id, topics=[kind(name=topic, partitions=parts)]
        )
        return self.send(request, 0)

    def list_groups(
        self, states: tuple[str, ...] = (), types: tuple[str, ...] = (), *, version: int = 5
    ) -> Any:
        request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
        return self.send(request, version).response

    def describe_groups(self, *group_ids: str, operations: bool = False, version: int = 6) -> Any:
        request = DescribeGroupsRequest(
            groups=[*group_ids], include_authorized_operations=operations
        )
        return self.send(request, version).response.groups

    def delete_groups(self, *group_ids: str, version: int = 2) -> CapturedResponse:
        return self.send(DeleteGroupsRequest(groups_names=[*group_ids]), version)

    # -- scenarios

    def stable_group(self, count: int = 2, **options: Any) -> list[str]:
        """Make a stable group of `count` dynamic members; return their ids, the leader's first."""
        joined = [self.join_with_id(**options)]
        for _ in range(count - 1):
            joined.append(self.join_with_id(**options))
            for index, captured in enumerate(joined[:-1]):
                if captured.is_done and not joined[-1].is_done:
                    joined[index] = self.join(captured.response.member_id, **options)
        ids = [captured.response.member_id for captured in joined]
        self.sync_all(ids, self.group.generation)
        return ids

    def sync_all(self, ids: list[str], generation: int) -> list[CapturedResponse]:
        """Send SyncGroup for all members.

        The first member is the leader and assigns its own id to each member.
        """
        captured = [self.sync(each, generation) for each in ids[1:]]
        captured.append(self.sync(ids[0], generation, {each: each.encode() for each in ids}))
        return captured


@asynccontextmanager
async def coordinator_harness(**settings: Any) -> AsyncIterator[CoordinatorHarness]:
    """Yield a harness, then check that every request was answered once and nothing is pending."""
    async with (
        Purgatory("join") as join,
        Purgatory("sync") as sync,
        Purgatory("heartbeat") as heartbeat,
    ):
        harness = CoordinatorHarness(GroupPurgatories(join, sync, heartbeat), **settings)
        yield harness
        harness.coordinator.check()
        harness.unload()
        harness.log.release()
        responses = harness.responses
        assert [len(each.responses) for each in responses] == [1] * len(responses)
        assert harness.num_pending == (0, 0, 0)
        for purgatory in harness.purgatories:
            assert purgatory.watched == 0, purgatory.name
            assert purgatory.metrics().callback_errors == 0


def run_scenario(
    scenario: Callable[[CoordinatorHarness], Coroutine[Any, Any, None]], **settings: Any
) -> None:
    """Run a scenario with a new harness, in virtual time."""

    async def main() -> None:
        async with coordinator_harness(**settings) as harness:
            await scenario(harness)

    run(main)


async def sleep_ms(delay_ms: float) -> None:
    """Sleep for `delay_ms` milliseconds."""
    await asyncio.sleep(delay_ms / 1000)
