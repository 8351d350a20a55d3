"""A group coordinator in virtual time, and its clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.messages import Header
from purgatory_broker.api.registry import APIS, handle
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.coordinator import GroupCoordinator, ShareGroupParts
from purgatory_broker.groups.group import Group
from purgatory_broker.groups.rebalancer import GroupPurgatories
from purgatory_broker.groups.shards import StoredMarker, StoredRecord
from purgatory_broker.metadata.authorizer import Authorizer
from purgatory_broker.request_context import Client, RequestContext
from purgatory_broker.settings import ClusterSettings
from request_purgatory.aio import Purgatory
from tests.broker.groups.administration_requests import AdministrationRequests
from tests.broker.groups.captured_response import CapturedResponse
from tests.broker.groups.classic_requests import GROUP, ClassicRequests
from tests.broker.groups.harness_topics import HarnessTopics
from tests.broker.groups.offset_requests import OffsetRequests
from tests.broker.groups.offsets_log import PARTITIONS, OffsetsLog
from tests.broker.groups.share_offsets import HarnessShareOffsets
from tests.broker.wire.schemas import read_body
from tests.unit.aio.virtual import run

CLIENT = Client("app", "/127.0.0.1")


class HarnessBroker:
    """What handlers of group requests need of a broker: every partition exists."""

    node_id = 1

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer | None) -> None:
        self.groups = groups
        self.authorizer = authorizer
        self.metadata = self

    def partition_exists(self, key: object) -> bool:
        return True


class CoordinatorHarness(ClassicRequests, OffsetRequests, AdministrationRequests):
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

    def end_transaction(self, producer_id: int = 7, *, commit: bool = True) -> None:
        """Write a producer's marker to every partition, as its coordinator does."""
        for partition, records in self.log.records.items():
            records.append(StoredMarker(producer_id, commit))
            self.coordinator.offsets.end_transaction(partition, producer_id, commit)

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
