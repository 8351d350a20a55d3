"""Transactions in a partition: batches, markers, and what is read of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.broker.parity.batches import CONTROL, TRANSACTIONAL, batch, changed
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, fetch_fields, produce_fields
from tests.broker.parity.raw import RawClient

_RETRIED = (14, 15, 16, 51)
_COMMIT, _ABORT = True, False
_READ_COMMITTED = 1


def _transactional(*values: bytes, producer: tuple[int, int, int]) -> bytes:
    return changed(batch(*values, producer=producer), attributes=TRANSACTIONAL)


def _marker(
    producer: int,
    epoch: int,
    topics: dict[str, list[int]],
    *,
    commits: bool = _COMMIT,
    coordinator_epoch: int = 0,
) -> dict[str, Any]:
    return {
        "producer_id": producer,
        "producer_epoch": epoch,
        "transaction_result": commits,
        "topics": [
            {"name": name, "partition_indexes": indexes} for name, indexes in topics.items()
        ],
        "coordinator_epoch": coordinator_epoch,
    }


def _topic(harness: CaseHarness) -> str:
    """Create a topic whose markers, which are of now, are in the segment of older records."""
    return harness.topic(configs={"segment.ms": "1000000000000"})


def _write(client: RawClient, *markers: dict[str, Any]) -> Any:
    return client.call("WriteTxnMarkers", 1, markers=list(markers))


def _producers(client: RawClient, topic: str) -> Any:
    wanted = [{"name": topic, "partition_indexes": [0]}]
    return client.call("DescribeProducers", 0, topics=wanted).topics[0].partitions[0]


def _latest(client: RawClient, topic: str, isolation_level: int, timestamp: int = -1) -> Any:
    wanted = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": topic, "partitions": [wanted]}]
    return (
        client.call(
            "ListOffsets",
            7,
            replica_id=-1,
            isolation_level=isolation_level,
            timeout_ms=5_000,
            topics=topics,
        )
        .topics[0]
        .partitions[0]
    )


def _fetched(harness: CaseHarness, client: RawClient, topic: str, offset: int = 0) -> Any:
    """Return what consumers of both isolation levels read, and whether a list is null."""
    seen = {}
    for name, level in (("uncommitted", 0), ("committed", _READ_COMMITTED)):
        answer = harness.fetch(client, topic, offsets=offset, isolation_level=level)
        seen[name] = {"answer": answer, "is null": answer.aborted_transactions is None}
    return seen


@dataclass
class _Transactions:
    """A transactional producer, and the connection to its coordinator."""

    client: RawClient
    transactional_id: str
    producer: int
    epoch: int

    @classmethod
    def begin(cls, harness: CaseHarness, *, version: int = 4) -> _Transactions:
        """Return a new producer."""
        transactional_id = harness.name("transaction")

        def found() -> RawClient | None:
            answer = harness.node_0.call("FindCoordinator", 2, key=transactional_id, key_type=1)
            return None if answer.error_code else harness.connect(f"{answer.host}:{answer.port}")

        client = harness.until(found)

        def given() -> Any:
            answer = client.call(
                "InitProducerId",
                version,
                transactional_id=transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            return None if answer.error_code in _RETRIED else answer

        answer = harness.until(given)
        assert answer.error_code == 0, answer
        return cls(client, transactional_id, answer.producer_id, answer.producer_epoch)

    def add(self, harness: CaseHarness, *topics: str) -> None:
        """Add the first partitions of topics, as clients do that know no better."""

        def added() -> bool:
            answer = self.client.call(
                "AddPartitionsToTxn",
                3,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[{"name": topic, "partitions": [0]} for topic in topics],
            )
            codes = {
                partition.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
            }
            assert codes <= {0, *_RETRIED}, answer
            return codes == {0}

        harness.until(added)

    def end(
        self,
        harness: CaseHarness,
        leader: RawClient,
        topic: str,
        *,
        commits: bool,
        version: int = 3,
    ) -> None:
        """End the transaction, and wait until the topic's first partition has its marker."""

        def ended() -> Any:
            answer = self.client.call(
                "EndTxn",
                version,
                transactional_id=self.transactional_id,
                producer_id=self.producer,
                producer_epoch=self.epoch,
                committed=commits,
            )
            assert answer.error_code in (0, *_RETRIED), answer
            return None if answer.error_code else answer

        before = _latest(leader, topic, 0).offset
        answer = harness.until(ended)
        if version >= 5:
            self.epoch = answer.producer_epoch
        harness.until(lambda: _latest(leader, topic, 0).offset > before)

    def produce(
        self,
        harness: CaseHarness,
        leader: RawClient,
        topic: str,
        sequence: int,
        *values: bytes,
        version: int = 9,
        epoch: int | None = None,
    ) -> Any:
        """Send a batch of the transaction, and again while the coordinator asks for it."""
        records = _transactional(
            *values or (b"value",),
            producer=(self.producer, self.epoch if epoch is None else epoch, sequence),
        )
        fields = produce_fields(topic, [records])
        fields["transactional_id"] = self.transactional_id
        if version >= 13:
            fields["topic_data"][0]["topic_id"] = harness.topic_id(topic)

        def answered() -> Any:
            answer = leader.call("Produce", version, **fields).responses[0].partition_responses[0]
            return None if answer.error_code in (19, *_RETRIED) else answer

        return harness.until(answered)


# -- markers


@case
def markers_of_unknown_producers(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=2)
    client = harness.leader(topic)
    seen: dict[str, Any] = {
        "none": _write(client),
        "no topics": _write(client, _marker(7, 0, {})),
        "no partitions": _write(client, _marker(7, 0, {topic: []})),
        "commit": _write(client, _marker(7, 3, {topic: [0]}, coordinator_epoch=5)),
        "abort": _write(client, _marker(8, 0, {topic: [0]}, commits=_ABORT)),
        "no producer": _write(client, _marker(-1, -1, {topic: [0]})),
        "no epoch": _write(client, _marker(6, -1, {topic: [0]})),
        "unknown topic": _write(client, _marker(7, 3, {harness.name("none"): [0]})),
        "unknown partition": _write(client, _marker(7, 3, {topic: [9, -1]}, coordinator_epoch=5)),
        "several": _write(
            client,
            _marker(9, 0, {topic: [0], harness.name("none"): [3]}),
            _marker(9, 0, {topic: [0]}),
            _marker(7, 0, {topic: [0]}),
        ),
    }
    follower = harness.topic("followed", replicas=3)
    seen["not the leader"] = _write(harness.non_leader(follower), _marker(7, 0, {follower: [0]}))
    seen["replicated"] = _write(harness.leader(follower), _marker(7, 0, {follower: [0]}))
    return seen | {
        "producers": _producers(client, topic),
        "read": _fetched(harness, client, topic),
        "latest": [_latest(client, topic, level) for level in (0, 1)],
    }


@case
def marker_with_kafkas_bytes(harness: CaseHarness) -> Any:
    topic = _topic(harness)
    client = harness.leader(topic)
    _write(client, _marker(7, 3, {topic: [0]}, coordinator_epoch=5))
    _write(client, _marker(7, 3, {topic: [0]}, commits=_ABORT, coordinator_epoch=6))
    records = bytes(harness.fetch(client, topic).records)
    half = len(records) // 2
    # Without the checksum, which covers the time, and the time.
    return [
        [part[:17].hex(), part[21:27].hex(), part[43:].hex()]
        for part in (records[:half], records[half:])
    ]


@case
def markers_of_known_producers(harness: CaseHarness) -> Any:
    topic = _topic(harness)
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1", producer=(77, 3, 0)))

    def write(epoch: int, coordinator_epoch: int = 5, *, commits: bool = _COMMIT) -> Any:
        return _write(
            client,
            _marker(77, epoch, {topic: [0]}, commits=commits, coordinator_epoch=coordinator_epoch),
        )

    def produce(epoch: int, sequence: int) -> Any:
        return harness.produce(client, topic, batch(b"2", producer=(77, epoch, sequence)))

    return {
        "old epoch": write(2),
        "same epoch": write(3),
        "sequences go on": [produce(3, 2), produce(3, 1)],
        "old coordinator": write(3, 4),
        "same coordinator": write(3, 5, commits=_ABORT),
        "new epoch": write(4),
        "state": _producers(client, topic),
        "old batches": [produce(3, 1), produce(3, 2)],
        "new batches": [produce(4, 1), produce(4, 0), produce(4, 0), produce(4, 1)],
        "state at the end": _producers(client, topic),
        "read": _fetched(harness, client, topic),
    }


# -- transactions


@case
def open_and_aborted_transaction(harness: CaseHarness) -> Any:
    topic = _topic(harness)
    leader = harness.leader(topic)
    transactions = _Transactions.begin(harness)
    harness.produce(leader, topic, batch(b"before"))
    transactions.add(harness, topic)
    seen: dict[str, Any] = {
        "first": transactions.produce(harness, leader, topic, 0, b"1", b"2"),
        "second": transactions.produce(harness, leader, topic, 2, b"3"),
    }
    harness.produce(leader, topic, batch(b"between"))
    outside = batch(b"4", producer=(transactions.producer, transactions.epoch, 3))
    seen |= {
        "outside": harness.produce(leader, topic, outside),
        "open": _producers(leader, topic),
        "read while open": _fetched(harness, leader, topic),
        "read inside": _fetched(harness, leader, topic, 2),
        "latest while open": [_latest(leader, topic, level) for level in (0, 1)],
        "by time while open": [
            _latest(leader, topic, level, 1_700_000_000_500) for level in (0, 1)
        ],
    }
    transactions.end(harness, leader, topic, commits=_ABORT)
    seen |= {
        "ended": _producers(leader, topic),
        "read": _fetched(harness, leader, topic),
        "read at the second": _fetched(harness, leader, topic, 3),
        "read at the marker": _fetched(harness, leader, topic, 5),
        "read at the end": _fetched(harness, leader, topic, 6),
        "latest": [_latest(leader, topic, level) for level in (0, 1)],
        "by time": [_latest(leader, topic, level, 1_700_000_000_500) for level in (0, 1)],
        "max time": _latest(leader, topic, 1, -3),
    }
    transactions.add(harness, topic)
    seen["next transaction"] = transactions.produce(harness, leader, topic, 3, b"5")
    transactions.end(harness, leader, topic, commits=_COMMIT)
    return seen | {
        "read of both": _fetched(harness, leader, topic),
        "read of the second": _fetched(harness, leader, topic, 6),
        "out of range": _fetched(harness, leader, topic, 99),
    }


@case
def late_batches_of_ended_transactions(harness: CaseHarness) -> Any:
    topic = _topic(harness)
    leader = harness.leader(topic)
    transactions = _Transactions.begin(harness)
    transactions.add(harness, topic)
    seen: dict[str, Any] = {"in time": transactions.produce(harness, leader, topic, 0)}
    transactions.end(harness, leader, topic, commits=_COMMIT)
    return seen | {
        "again": transactions.produce(harness, leader, topic, 0),
        "late in 9": transactions.produce(harness, leader, topic, 1),
        "late in 10": transactions.produce(harness, leader, topic, 1, version=10),
        "late in 11": transactions.produce(harness, leader, topic, 1, version=11),
        "read": _fetched(harness, leader, topic),
    }


@case
def transactions_with_new_epochs(harness: CaseHarness) -> Any:
    # The clients of Kafka 4 neither add partitions nor keep their epochs.
    topic = _topic(harness)
    leader = harness.leader(topic)
    transactions = _Transactions.begin(harness, version=5)
    first = transactions.epoch
    seen: dict[str, Any] = {
        "first": transactions.produce(harness, leader, topic, 0, version=12),
        "second": transactions.produce(harness, leader, topic, 1, version=12),
    }
    transactions.end(harness, leader, topic, commits=_ABORT, version=5)
    seen |= {
        "bumped by": transactions.epoch - first,
        "producers": _producers(leader, topic),
        "late": transactions.produce(harness, leader, topic, 2, version=12, epoch=first),
        "gap": transactions.produce(harness, leader, topic, 1, version=12),
        "next": transactions.produce(harness, leader, topic, 0, version=12),
    }
    transactions.end(harness, leader, topic, commits=_COMMIT, version=5)
    return seen | {
        "producers at the end": _producers(leader, topic),
        "read": _fetched(harness, leader, topic),
    }


@case
def committed_fetch_waits_for_the_marker(harness: CaseHarness) -> Any:
    topic = _topic(harness)
    leader = harness.leader(topic)
    transactions = _Transactions.begin(harness)
    transactions.add(harness, topic)
    transactions.produce(harness, leader, topic, 0)
    fields = fetch_fields(topic, 0, max_wait_ms=700, isolation_level=_READ_COMMITTED, min_bytes=1)
    consumer = harness.connect_like(leader)
    seen: dict[str, Any] = {"open": harness.timed(700, consumer.call, "Fetch", 12, **fields)}
    harness.produce(leader, topic, batch(b"outside"))
    beyond = fetch_fields(topic, 2, max_wait_ms=700, isolation_level=_READ_COMMITTED)
    seen["beyond"] = harness.timed(700, consumer.call, "Fetch", 12, **beyond)
    fields["max_wait_ms"] = 20_000
    consumer.start("Fetch", 12, **fields)
    harness.produce(leader, topic, batch(b"outside"))

    def end() -> Any:
        transactions.end(harness, leader, topic, commits=_COMMIT)
        return consumer.read()

    seen["ended"] = harness.timed(20_000, end)
    return seen


@case
def sessions_of_committed_fetches(harness: CaseHarness) -> Any:
    topic = _topic(harness)
    leader = harness.leader(topic)
    transactions = _Transactions.begin(harness)
    transactions.add(harness, topic)
    transactions.produce(harness, leader, topic, 0)
    consumer = harness.connect_like(leader)

    def fetch(session: int, epoch: int, offsets: dict[int, int]) -> Any:
        fields = fetch_fields(
            topic,
            offsets,
            isolation_level=_READ_COMMITTED,
            session_id=session,
            session_epoch=epoch,
        )
        return consumer.call("Fetch", 12, **fields)

    first = fetch(0, 0, {0: 0})
    session = first.session_id
    seen = {"open": first, "again": fetch(session, 1, {})}
    transactions.end(harness, leader, topic, commits=_ABORT)
    seen["ended"] = fetch(session, 2, {})
    seen["read"] = fetch(session, 3, {0: 2})
    return seen


# -- refused batches


@case
def transactional_batches_without_a_transaction(harness: CaseHarness) -> Any:
    topic = _topic(harness)
    client = harness.leader(topic)
    transactions = _Transactions.begin(harness)

    def produce(
        *records: bytes, transactional_id: str | None = "", version: int = 9, acks: int = -1
    ) -> Any:
        fields = produce_fields(topic, records, acks=acks)
        given = transactions.transactional_id if transactional_id == "" else transactional_id
        fields["transactional_id"] = given
        return harness.connect_like(client).call("Produce", version, **fields)

    own = (transactions.producer, transactions.epoch, 0)
    good = _transactional(b"1", producer=own)
    return {
        "no transactional id": produce(good, transactional_id=None),
        "one of two": produce(batch(b"1"), good, transactional_id=None),
        "missing partitions": produce(good, good, good, transactional_id=None),
        "two producers": produce(good, _transactional(b"1", producer=(own[0] + 1, 0, 0))),
        "two epochs": produce(good, _transactional(b"1", producer=(own[0], own[1] + 1, 0))),
        "without producer": produce(
            changed(batch(b"1"), attributes=TRANSACTIONAL), transactional_id=None
        ),
        "without producer, with id": produce(changed(batch(b"2"), attributes=TRANSACTIONAL)),
        "not transactional": produce(batch(b"3")),
        "control": produce(changed(batch(b"1"), attributes=CONTROL)),
        "not added in 9": produce(good),
        "not added in 11": produce(good, version=11),
        "another producer id": produce(_transactional(b"1", producer=(own[0] + 9_999, 0, 0))),
        "another epoch": produce(_transactional(b"1", producer=(own[0], own[1] + 1, 0))),
        "read": _fetched(harness, client, topic),
    }
