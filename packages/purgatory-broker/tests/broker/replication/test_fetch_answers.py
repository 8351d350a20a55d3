"""What fetches in sessions are answered: as if nothing were remembered of earlier reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker import InterceptedRequest
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.messages import Header, encode_response
from purgatory_broker._wire.protocol.fetch import (
    FETCH_MESSAGES,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from purgatory_broker.api.fetch import FETCH
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_fetch import FetchedPartition, FetchParams, FetchTarget
from purgatory_broker.replication.fetch_sessions import FetchSessions, changed_partitions
from purgatory_broker.replication.fetches import Fetches
from purgatory_broker.request_context import Client, RequestContext
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario
from tests.support.profiles import examples

TOPIC = "fetched"
PARTITIONS = 3
HEADER_BYTES = {False: 8, True: 9}


class Consumer:
    """Fetches in a session from the cluster, and computes what the answer has to be."""

    def __init__(self, harness: ClusterHarness, version: int) -> None:
        self.harness = harness
        self.version = version
        self.epoch = 0
        self.session_id = 0
        #: By partition, in the order of the session: the offset, and the two offsets last told.
        self.partitions: dict[int, tuple[int, tuple[int, int]]] = {}

    def topic(self) -> dict[str, Any]:
        if self.version < 13:
            return {"topic": TOPIC}
        return {"topic_id": self.harness.node(0).metadata.topic_id(TOPIC)}

    def send(
        self, listed: dict[int, int], forgotten: Sequence[int] = (), max_wait_ms: int = 0
    ) -> list[FetchResponse]:
        """Send a fetch; return a list that gets the response, decoded from what is sent."""
        parts = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=2**20)
            for number, offset in listed.items()
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=2**25,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(**self.topic(), partitions=parts)] if parts else [],
            forgotten_topics_data=(
                [ForgottenTopic(**self.topic(), partitions=list(forgotten))] if forgotten else []
            ),
        )
        for number, offset in listed.items():
            told = self.partitions.get(number, (0, (-1, -1)))[1]
            self.partitions[number] = offset, told
        for number in forgotten:
            self.partitions.pop(number, None)
        header = Header(FETCH, self.version, 1, "test", 0, is_supported=True)
        responses: list[FetchResponse] = []

        def take(_context: RequestContext, response: Any) -> None:
            frame = bytes(encode_response(header, response))
            skipped = HEADER_BYTES[FETCH_MESSAGES.is_flexible(self.version)]
            reader = FETCH_MESSAGES.reader(frame, skipped, self.version)
            responses.append(FETCH_MESSAGES.read_response(reader, self.version))

        context = RequestContext(header, Client("test", "/127.0.0.1"), take, lambda _: None)
        self.harness.node(0).requests.handle(context, request)
        return responses

    def expected(self) -> list[tuple[Any, ...]]:
        """Return the partitions that the answer has, by reads of their own."""
        params = FetchParams(-1, 0, 1, 2**25, leader_only=False)
        answer = []
        for number, (offset, told) in list(self.partitions.items()):
            target = FetchTarget(TopicPartition(TOPIC, number), offset, 2**20)
            (read,) = self.harness.node(0).fetches.read(params, [target])
            offsets = read.high_watermark, read.log_start_offset
            if offsets != told or read.records or read.error:
                answer.append((number, int(read.error), *offsets, read.records))
            self.partitions[number] = offset, ((-1, offsets[1]) if read.error else offsets)
            if read.records:
                self.partitions[number] = self.partitions.pop(number)
        return answer

    def fetch(self, listed: dict[int, int], forgotten: Sequence[int] = ()) -> None:
        (response,) = self.send(listed, forgotten)
        assert response.error_code == 0
        self.check(response)

    def check(self, response: FetchResponse) -> None:
        answered = [
            (
                part.partition_index,
                part.error_code,
                part.high_watermark,
                part.log_start_offset,
                part.records,
            )
            for topic in response.responses
            for part in topic.partitions
        ]
        assert answered == self.expected()
        identity = self.topic()
        assert all(
            getattr(topic, name) == value
            for topic in response.responses
            for name, value in identity.items()
        )
        if self.version >= 7:
            self.session_id = response.session_id
            self.epoch += 1
        else:
            self.partitions.clear()

    async def wait(self) -> FetchResponse:
        responses = self.send({}, max_wait_ms=500)
        assert not responses
        await asyncio.sleep(1)
        (response,) = responses
        return response


async def create_topic(harness: ClusterHarness) -> None:
    harness.cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
    await harness.settle()


def append(harness: ClusterHarness, partition: int) -> None:
    harness.produce(0, b"x", key=TopicPartition(TOPIC, partition))


NUMBERS = st.integers(0, PARTITIONS - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), NUMBERS),
        st.tuples(st.just("delete"), NUMBERS),
        st.tuples(
            st.just("fetch"),
            st.integers(0, 1),
            st.dictionaries(NUMBERS, st.integers(0, 3), max_size=2),
            st.sets(NUMBERS, max_size=1),
        ),
        st.tuples(st.just("fetch"), st.integers(0, 1), st.just({}), st.just(set())),
    ),
    max_size=20,
)


@given(st.lists(st.sampled_from([7, 11, 12, 13, 18]), min_size=2, max_size=2), STEPS)
@examples(25)
def test_answers_are_those_of_a_session_that_remembers_no_reads(
    versions: list[int], steps: list[tuple[Any, ...]]
) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create_topic(harness)
        consumers = [Consumer(harness, version) for version in versions]
        for consumer in consumers:
            consumer.fetch(dict.fromkeys(range(PARTITIONS), 0))
        for step in steps:
            if step[0] == "append":
                append(harness, step[1])
            elif step[0] == "delete":
                key = TopicPartition(TOPIC, step[1])
                harness.delete(0, harness.replica(0, key).high_watermark, key=key)
            else:
                _, number, listed, forgotten = step
                consumers[number].fetch(listed, sorted(forgotten))

    run_scenario(scenario, nodes=1)


def test_idle_session_reads_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[FetchTarget] = []
    read = Fetches._read

    def count(fetches: Fetches, params: Any, target: FetchTarget, *rest: Any, **named: Any) -> Any:
        reads.append(target)
        return read(fetches, params, target, *rest, **named)

    async def scenario(harness: ClusterHarness) -> None:
        await create_topic(harness)
        consumers = [Consumer(harness, 11) for _ in range(PARTITIONS)]
        for number, consumer in enumerate(consumers):
            consumer.fetch({number: 0})
            consumer.check(await consumer.wait())
        monkeypatch.setattr(Fetches, "_read", count)
        for response in await asyncio.gather(*(consumer.wait() for consumer in consumers)):
            assert response.responses == []
        assert reads == []

    run_scenario(scenario, nodes=1)


@pytest.mark.parametrize("version", [5, 7, 11, 12, 13, 18])
def test_one_append_answers_fetches_of_many_clients(version: int) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create_topic(harness)
        consumers = [Consumer(harness, each) for each in (version, version, 11, version)]
        waiting = []
        for consumer in consumers:
            consumer.fetch({0: 0})
            listed = {} if consumer.session_id else {0: 0}
            waiting.append(consumer.send(listed, max_wait_ms=60_000))
        assert not any(waiting)
        append(harness, 0)
        for consumer, (response,) in zip(consumers, waiting, strict=True):
            assert response.session_id == consumer.session_id
            assert response.responses[0].partitions[0].records
            consumer.check(response)
        sessions = {consumer.session_id for consumer in consumers}
        assert len(sessions) == (2 if version == 5 else len(consumers))

    run_scenario(scenario, nodes=1)


def test_records_are_answered_until_the_client_has_passed_them() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create_topic(harness)
        one, all_three = Consumer(harness, 11), Consumer(harness, 11)
        one.fetch({0: 0})
        all_three.fetch(dict.fromkeys(range(PARTITIONS), 0))
        append(harness, 0)
        for consumer in (one, one, all_three, all_three):
            consumer.fetch({})
        append(harness, 1)
        all_three.fetch({})
        assert list(all_three.partitions) == [2, 1, 0]

    run_scenario(scenario, nodes=1)


def test_partition_that_is_listed_again_is_told_again() -> None:
    targets = [FetchTarget(TopicPartition(TOPIC, number), 0, 1) for number in range(2)]
    sessions = FetchSessions()
    session = sessions.open(0, 0, targets, [], uses_topic_ids=False, now_ms=0)
    assert session is not None
    fetched = [FetchedPartition(target.key, ErrorCode.NONE, 0, 0, 0) for target in targets]
    assert changed_partitions(session, fetched) == fetched
    assert changed_partitions(session, fetched) == []
    # As of requests that are throttled, whose answers tell nothing.
    changes: list[tuple[list[FetchTarget], list[TopicPartition]]] = [
        ([], [targets[0].key]),
        (targets[:1], []),
    ]
    for listed, forgotten in changes:
        sessions.open(
            session.session_id, session.epoch, listed, forgotten, uses_topic_ids=False, now_ms=0
        )
    assert changed_partitions(session, fetched) == fetched[:1]


def test_fetches_that_differ_are_tried_by_themselves() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create_topic(harness)
        append(harness, 0)
        fetches = harness.node(0).fetches
        key = TopicPartition(TOPIC, 0)
        complete = [
            fetches.is_complete(
                FetchParams(-1, 60_000, min_bytes, 2**20), [FetchTarget(key, offset, 2**20)]
            )
            for offset, min_bytes in ((0, 1), (0, 10_000), (0, 1), (1, 1))
        ]
        assert complete == [True, False, True, False]

    run_scenario(scenario, nodes=1)


def test_function_that_changes_a_response_changes_no_other() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create_topic(harness)
        changed, other = Consumer(harness, 11), Consumer(harness, 11)
        for consumer in (changed, other):
            consumer.fetch({0: 0})

        async def change(request: InterceptedRequest) -> Any:
            response = await request.handle()
            response.responses[0].partitions[0].records = b"changed"
            return response

        with harness.cluster.intercept("Fetch", change):
            waiting = changed.send({}, max_wait_ms=60_000)
            await harness.settle()
        append(harness, 0)
        await harness.settle()
        assert waiting[0].responses[0].partitions[0].records == b"changed"
        (response,) = other.send({}, max_wait_ms=60_000)
        other.check(response)

    run_scenario(scenario, nodes=1)
