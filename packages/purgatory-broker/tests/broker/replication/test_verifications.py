"""Produce requests with transactional batches, and the coordinator that confirms them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.registry import find_api
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext
from tests.broker.log.batches import batch
from tests.broker.log.transactions import transactional
from tests.broker.replication.cluster_harness import (
    KEY,
    ClusterHarness,
    Reply,
    handle_request,
    run_scenario,
)

#: The versions that verify, know TRANSACTION_ABORTABLE, and add.
VERIFIES, ABORTABLE, ADDS = 10, 11, 12
Answer = Callable[[dict[TopicPartition, ErrorCode]], None]


@dataclass
class Coordinator:
    """A transaction coordinator that a test answers for."""

    #: The answer to each question at once; None keeps the question.
    answers: list[ErrorCode | None] = field(default_factory=list)
    asked: list[tuple[str, int, int, list[TopicPartition], bool]] = field(default_factory=list)
    waiting: list[tuple[list[TopicPartition], Answer]] = field(default_factory=list)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        reply: Answer,
    ) -> None:
        """Take a question."""
        keys = list(partitions)
        self.asked.append((transactional_id, producer_id, producer_epoch, keys, add))
        code = self.answers.pop(0) if self.answers else None
        if code is None:
            self.waiting.append((keys, reply))
        else:
            reply(dict.fromkeys(keys, code))

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the oldest question that waits."""
        keys, reply = self.waiting.pop(0)
        reply(dict.fromkeys(keys, code) if code is not ErrorCode.NONE else {})


def coordinated(harness: ClusterHarness, *answers: ErrorCode | None, node: int = 0) -> Coordinator:
    """Give a node a coordinator."""
    coordinator = Coordinator(list(answers))
    harness.node(node).verifications._verifier = coordinator
    return coordinator


def produce(
    harness: ClusterHarness,
    version: int,
    *batches: bytes,
    transactional_id: str | None = "t",
    topics: Sequence[str] = (KEY.topic,),
    acks: int = -1,
    node: int = 0,
) -> tuple[Reply[Any], RequestContext]:
    """Send a Produce request with one batch to the first partition of each topic."""
    data = [
        {"name": topic, "partition_data": [{"index": 0, "records": records}]}
        for topic, records in zip(topics, batches, strict=True)
    ]
    return handle_request(
        harness,
        node,
        find_api("Produce"),
        version,
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5_000,
        topic_data=data,
    )


def codes(response: Any) -> list[ErrorCode]:
    """Return the errors of a response's partitions."""
    return [
        ErrorCode(partition.error_code)
        for topic in response.responses
        for partition in topic.partition_responses
    ]


@pytest.mark.parametrize(("version", "adds"), [(VERIFIES, False), (ABORTABLE, False), (ADDS, True)])
def test_first_batch_of_a_transaction_waits_for_the_coordinator(version: int, adds: bool) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        reply, _ = produce(harness, version, transactional(b"a"))
        assert (reply.done, harness.log(0).end_offset) == (False, 0)
        assert coordinator.asked == [("t", 7, 0, [KEY], adds)]
        coordinator.answer()
        assert codes(await reply.get()) == [ErrorCode.NONE]
        reply, _ = produce(harness, version, transactional(b"b", sequence=1))
        assert codes(await reply.get()) == [ErrorCode.NONE]
        assert len(coordinator.asked) == 1
        assert harness.values(0) == [b"a", b"b"]
        assert harness.replica(0).last_stable_offset == 0

    run_scenario(scenario)


def test_request_without_transactions_asks_nobody() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        for data in (batch(b"a"), batch(b"b", producer=(7, 0, 0))):
            reply, _ = produce(harness, VERIFIES, data)
            assert codes(await reply.get()) == [ErrorCode.NONE]
        reply, _ = produce(harness, VERIFIES, transactional(producer_id=-1, epoch=-1, sequence=-1))
        assert codes(await reply.get()) == [ErrorCode.NONE]
        assert coordinator.asked == []

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("answer", "version", "expected"),
    [
        (ErrorCode.INVALID_TXN_STATE, VERIFIES, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, VERIFIES, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, ADDS, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, ADDS, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ADDS, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.NOT_COORDINATOR, ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, VERIFIES, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, VERIFIES, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_refusals_of_the_coordinator_have_kafkas_errors(
    answer: ErrorCode, version: int, expected: ErrorCode
) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinated(harness, answer)
        reply, _ = produce(harness, version, transactional())
        response = await reply.get()
        assert codes(response) == [expected]
        partition = response.responses[0].partition_responses[0]
        assert (partition.base_offset, partition.log_start_offset) == (-1, -1)
        assert harness.log(0).end_offset == 0

    run_scenario(scenario)


def test_refused_partition_does_not_keep_the_others_from_being_appended_to() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("other", partitions=1, replication_factor=3)
        await harness.settle()
        other = TopicPartition("other", 0)
        harness.cluster.move_leader("other", 0, 0)
        harness.cluster.move_leader("orders", 0, 0)
        await harness.settle()
        coordinator = coordinated(harness)
        await harness.begin(0, b"a", key=other).get()
        reply, _ = produce(
            harness,
            ADDS,
            transactional(b"b"),
            transactional(b"c", sequence=1),
            topics=(KEY.topic, "other"),
        )
        assert coordinator.asked == [("t", 7, 0, [KEY], True)]
        coordinator.answer(ErrorCode.TRANSACTION_ABORTABLE)
        assert codes(await reply.get()) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
        assert (harness.values(0), harness.values(0, other)) == ([], [b"a", b"c"])

    run_scenario(scenario)


def test_partition_that_is_refused_here_does_not_end_the_verification() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("other", partitions=1, replication_factor=3)
        await harness.settle()
        harness.cluster.move_leader("other", 0, 1)
        harness.cluster.move_leader("orders", 0, 0)
        await harness.settle()
        coordinator = coordinated(harness)
        reply, _ = produce(
            harness, ADDS, transactional(), transactional(), topics=("other", KEY.topic)
        )
        assert coordinator.asked == [("t", 7, 0, [KEY], True)]
        coordinator.answer()
        assert codes(await reply.get()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]

    run_scenario(scenario)


def test_late_batch_of_a_transaction_that_has_ended_is_refused() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        reply, _ = produce(harness, VERIFIES, transactional())
        await harness.end(0, commit=False).get()
        coordinator.answer()
        assert codes(await reply.get()) == [ErrorCode.INVALID_TXN_STATE]
        assert harness.log(0).end_offset == 1
        assert harness.replica(0).last_stable_offset == 1

    run_scenario(scenario)


def test_batch_of_an_old_epoch_is_refused_before_the_coordinator_is_asked() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        await harness.begin(0, producer=(7, 1, 0)).get()
        reply, _ = produce(harness, ADDS, transactional(sequence=1))
        response = await reply.get()
        assert codes(response) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        # Kafka does not tell the start of a log that it has not appended to.
        assert response.responses[0].partition_responses[0].log_start_offset == -1
        reply, _ = produce(harness, ADDS, transactional(), node=1)
        assert codes(await reply.get()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert coordinator.asked == []

    run_scenario(scenario)


def test_leader_that_is_replaced_in_between_appends_nothing() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        reply, _ = produce(harness, ADDS, transactional())
        harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        coordinator.answer()
        assert codes(await reply.get()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert harness.log(0).end_offset == 0

    run_scenario(scenario)


def test_request_without_a_transactional_id_is_refused_as_a_whole() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        reply, _ = produce(
            harness,
            VERIFIES,
            batch(b"a"),
            transactional(),
            topics=(KEY.topic, "missing"),
            transactional_id=None,
        )
        assert codes(await reply.get()) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
        assert (coordinator.asked, harness.log(0).end_offset) == ([], 0)

    run_scenario(scenario)


def test_request_of_two_producers_is_refused_as_a_whole() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("other", partitions=1, replication_factor=3)
        await harness.settle()
        coordinator = coordinated(harness)
        for second in (transactional(producer_id=8), transactional(epoch=1)):
            reply, _ = produce(
                harness, VERIFIES, transactional(), second, topics=(KEY.topic, "other")
            )
            assert codes(await reply.get()) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        assert (coordinator.asked, harness.log(0).end_offset) == ([], 0)

    run_scenario(scenario)


def test_refused_request_without_acknowledgement_closes_the_connection() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        closed: list[str] = []
        coordinated(harness)
        _, context = produce(harness, ADDS, transactional(), acks=0)
        context.close_connection = closed.append
        assert not context.answered
        harness.node(0).verifications._verifier.waiting[0][1]({KEY: ErrorCode.INVALID_TXN_STATE})
        assert (context.answered, len(closed)) == (True, 1)

    run_scenario(scenario)


def test_transaction_that_is_still_ending_is_asked_about_again() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        coordinator = coordinated(harness, busy, busy, ErrorCode.NONE)
        reply, _ = produce(harness, ADDS, transactional())
        assert len(coordinator.asked) == 1
        await asyncio.sleep(0.0009)
        assert len(coordinator.asked) == 1
        await asyncio.sleep(0.0002)
        assert len(coordinator.asked) == 2
        assert codes(await reply.get()) == [ErrorCode.NONE]
        assert reply.waited_ms == 3

    run_scenario(scenario)


def test_transaction_that_does_not_end_is_refused_after_a_while() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 50)
        reply, _ = produce(harness, ADDS, transactional())
        assert codes(await reply.get()) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        # After 1, 2, 4, 8 and then 10 ms each.
        assert reply.waited_ms == 75
        assert len(coordinator.asked) == 11

    run_scenario(
        scenario,
        add_partitions_to_txn_retry_backoff_ms=10,
        add_partitions_to_txn_retry_backoff_max_ms=70,
    )


def test_many_verifications_of_a_producer_append_in_order() -> None:
    """Several batches of a new transaction are in flight when the answers arrive."""

    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        replies = [
            produce(harness, ADDS, transactional(b"%d" % sequence, sequence=sequence))[0]
            for sequence in range(5)
        ]
        assert len(coordinator.asked) == 5
        for _ in replies:
            coordinator.answer()
        assert [codes(await reply.get()) for reply in replies] == [[ErrorCode.NONE]] * 5
        assert harness.values(0) == [b"%d" % sequence for sequence in range(5)]

    run_scenario(scenario)


def test_failed_verification_lets_no_later_batch_go_first() -> None:
    """The producer would send the first batch again, and find it out of order for ever."""

    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        first, _ = produce(harness, VERIFIES, transactional(sequence=3))
        second, _ = produce(harness, VERIFIES, transactional(sequence=4))
        coordinator.answer(ErrorCode.NETWORK_EXCEPTION)
        coordinator.answer()
        assert codes(await first.get()) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert codes(await second.get()) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        again, _ = produce(harness, VERIFIES, transactional(sequence=3))
        coordinator.answer()
        assert codes(await again.get()) == [ErrorCode.NONE]

    run_scenario(scenario)


def test_append_that_fails_after_the_answer_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness)
        reply, _ = produce(harness, ADDS, transactional())
        monkeypatch.setattr(harness.log(0), "append_as_leader", None)
        with pytest.raises(TypeError):
            coordinator.answer()
        assert codes(await reply.get()) == [ErrorCode.UNKNOWN_SERVER_ERROR]

    run_scenario(scenario)


def test_answers_after_the_end_of_the_node_are_ignored() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        coordinator = coordinated(harness, ErrorCode.CONCURRENT_TRANSACTIONS)
        first, _ = produce(harness, ADDS, transactional())
        second, _ = produce(harness, ADDS, transactional())
        harness.cluster.kill(0)
        coordinator.answer()
        await asyncio.sleep(1)
        assert (first.done, second.done, len(coordinator.asked)) == (False, False, 2)

    run_scenario(scenario)
