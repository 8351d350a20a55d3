"""The transaction coordinator: its requests, their errors, and what follows from them."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import TRANSACTIONAL, batch, changed
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, produce_fields
from tests.broker.parity.raw import RawClient

_RETRIABLE = (14, 15, 16)
_CONCURRENT = 51


class Producer:
    """A transactional producer that sends each request by itself."""

    def __init__(self, harness: CaseHarness, transactional_id: str) -> None:
        self.harness = harness
        self.id = transactional_id
        self.client = self._coordinator()
        self.producer_id = self.epoch = -1
        self.sequence = 0

    def _coordinator(self) -> RawClient:
        def found() -> RawClient | None:
            answer = self.harness.node_0.call("FindCoordinator", 3, key=self.id, key_type=1)
            if answer.error_code:
                assert answer.error_code in _RETRIABLE, answer
                return None
            client = self.harness.connect(f"{answer.host}:{answer.port}")
            described = client.call("DescribeTransactions", 0, transactional_ids=[self.id])
            (state,) = described.transaction_states
            return None if state.error_code in _RETRIABLE else client

        client: RawClient = self.harness.until(found)
        return client

    def ask_init(self, version: int = 4, **fields: Any) -> Any:
        """Return the response to InitProducerId."""
        wanted = {
            "transactional_id": self.id,
            "transaction_timeout_ms": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        } | fields
        if version < 3:
            del wanted["producer_id"], wanted["producer_epoch"]
        return self.client.call("InitProducerId", version, **wanted)

    def init(self, version: int = 4, **fields: Any) -> Any:
        """Return the response that is not to be retried, and take its id and epoch."""

        def answered() -> Any:
            answer = self.ask_init(version, **fields)
            return None if answer.error_code in (*_RETRIABLE, _CONCURRENT) else answer

        answer = self.harness.until(answered)
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        return answer

    def add(
        self, topic: str, *partitions: int, version: int = 3, until: bool = True, **fields: Any
    ) -> Any:
        """Return the response to AddPartitionsToTxn; by default, once no transition is pending."""
        wanted = {
            "v3_and_below_transactional_id": self.id,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [*partitions]}],
        } | fields

        def answered() -> Any:
            answer = self.client.call("AddPartitionsToTxn", version, **wanted)
            results = answer.results_by_topic_v3_and_below[0].results_by_partition
            pending = until and results[0].partition_error_code == _CONCURRENT
            return None if pending else answer

        return self.harness.until(answered)

    def verify(self, topic: str, *partitions: int, only: bool = True, **fields: Any) -> Any:
        """Return the response to AddPartitionsToTxn between brokers."""
        transaction = {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "verify_only": only,
            "topics": [{"name": topic, "partitions": [*partitions]}],
        } | fields
        return self.client.call("AddPartitionsToTxn", 5, transactions=[transaction])

    def end(self, version: int = 3, *, commit: bool = True, **fields: Any) -> Any:
        """Return the response to EndTxn."""
        wanted = {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "committed": commit,
        } | fields
        return self.client.call("EndTxn", version, **wanted)

    def described(self) -> Any:
        answer = self.client.call("DescribeTransactions", 0, transactional_ids=[self.id])
        state = answer.transaction_states[0]
        # Kafka keeps them in a hash set: the topic's name decides their order.
        state.topics.sort(key=lambda each: each.topic)
        for topic in state.topics:
            topic.partitions.sort()
        return state

    def await_state(self, *states: str) -> Any:
        """Return the description once the transaction is in a state."""

        def found() -> Any:
            state = self.described()
            return state if state.transaction_state in states else None

        return self.harness.until(found)

    def produce(self, client: RawClient, topic: str, value: bytes, *, version: int = 9) -> Any:
        """Return the response for partition 0."""
        data = changed(
            batch(value, producer=(self.producer_id, self.epoch, self.sequence)),
            attributes=TRANSACTIONAL,
        )
        fields = produce_fields(topic, [data]) | {"transactional_id": self.id}
        answer = client.call("Produce", version, **fields).responses[0].partition_responses[0]
        self.sequence += answer.error_code == 0
        return answer


def _producer(harness: CaseHarness, what: str = "id") -> Producer:
    producer = Producer(harness, harness.name(what))
    producer.init()
    return producer


@case
def init_producer_id_of_a_transactional_id(harness: CaseHarness) -> Any:
    producer = Producer(harness, harness.name("id"))
    first = producer.init(2)
    seen = {"first": first, "again": [producer.init(version) for version in range(5)]}
    expected = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    seen["with its id"] = producer.init(**expected)
    seen["the same once more"] = producer.ask_init(**expected)
    seen["two epochs ago"] = [
        producer.ask_init(version, **(expected | {"producer_epoch": 1})) for version in (3, 4)
    ]
    seen["another id"] = producer.ask_init(producer_id=7_000_000, producer_epoch=0)
    seen["without an epoch"] = producer.ask_init(producer_id=7)
    seen["without an id"] = producer.ask_init(producer_epoch=7)
    seen["empty"] = producer.ask_init(transactional_id="")
    for timeout_ms in (0, -1, 900_000, 900_001):
        seen[f"timeout {timeout_ms}"] = producer.ask_init(
            transactional_id=harness.name("other"), transaction_timeout_ms=timeout_ms
        )
    seen["new with an id"] = Producer(harness, harness.name("new")).init(
        producer_id=7_000_000, producer_epoch=3
    )
    return seen


@case
def init_producer_id_aborts_a_transaction(harness: CaseHarness) -> Any:
    topic = harness.topic()
    producer = _producer(harness)
    producer.add(topic, 0)
    seen: dict[str, Any] = {"at once": producer.ask_init()}
    seen["aborted"] = producer.await_state("CompleteAbort")
    old = {"producer_epoch": producer.epoch}
    seen["commit of the old"] = producer.end(5, **old)
    seen["abort of the old"] = producer.end(5, commit=False, **old)
    seen["commit of the old, version 3"] = producer.end(3, **old)
    seen["next"] = producer.init()
    seen["old adds"] = producer.add(
        topic, 0, v3_and_below_producer_epoch=old["producer_epoch"], until=False
    )
    seen["old ends"] = [producer.end(version, **old) for version in (1, 3, 5)]
    return seen


@case
def add_partitions_to_a_transaction(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=2)
    producer = _producer(harness)
    seen: dict[str, Any] = {
        version: producer.add(topic, 0, version=version) for version in range(4)
    }
    seen["ongoing"] = producer.described()
    seen["both"] = producer.add(topic, 1, 0)
    seen["none"] = producer.described()
    seen["unknown partition"] = producer.add(topic, 0, 9)
    seen["unknown topic"] = producer.add(harness.name("unknown"), 0)
    seen["other epoch"] = [
        producer.add(topic, 0, version=version, v3_and_below_producer_epoch=5)
        for version in (1, 2, 3)
    ]
    seen["other id"] = producer.add(topic, 0, v3_and_below_producer_id=7_000_000)
    seen["unknown transactional id"] = producer.add(
        topic, 0, v3_and_below_transactional_id=harness.name("unknown")
    )
    seen["empty transactional id"] = producer.add(topic, 0, v3_and_below_transactional_id="")
    return seen


@case
def add_partitions_between_brokers(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=2)
    producer = _producer(harness)
    seen: dict[str, Any] = {"not added": producer.verify(topic, 0)}
    seen["added"] = producer.verify(topic, 0, only=False)
    seen["verified"] = producer.verify(topic, 0, 1)
    seen["ongoing"] = producer.described()
    seen["other epoch"] = producer.verify(topic, 0, producer_epoch=5)
    seen["other id"] = producer.verify(topic, 0, producer_id=7_000_000)
    seen["unknown topic"] = producer.verify(harness.name("unknown"), 0)
    seen["unknown id"] = producer.verify(topic, 0, transactional_id=harness.name("unknown"))
    seen["empty id"] = producer.verify(topic, 0, transactional_id="")
    producer.end(5)
    producer.await_state("CompleteCommit")
    seen["late"] = producer.verify(topic, 0, only=False)
    return seen


@case
def end_a_transaction_of_an_old_client(harness: CaseHarness) -> Any:
    topic = harness.topic()
    producer = _producer(harness)
    seen: dict[str, Any] = {"without one": [producer.end(3, commit=each) for each in (True, False)]}
    for commit in (True, False):
        producer.add(topic, 0)
        seen[f"end {commit}"] = producer.end(3, commit=commit)
        seen[f"ended {commit}"] = producer.await_state("CompleteCommit", "CompleteAbort")
        seen[f"again {commit}"] = producer.end(3, commit=commit)
        seen[f"otherwise {commit}"] = producer.end(3, commit=not commit)
    seen["other epoch"] = [producer.end(version, producer_epoch=5) for version in range(5)]
    seen["other id"] = producer.end(producer_id=7_000_000)
    seen["unknown id"] = producer.end(transactional_id=harness.name("unknown"))
    seen["empty id"] = producer.end(transactional_id="")
    return seen


@case
def end_a_transaction_of_a_new_client(harness: CaseHarness) -> Any:
    topic = harness.topic()
    producer = _producer(harness)
    seen: dict[str, Any] = {"commit without one": producer.end(5)}
    seen["abort without one"] = producer.end(5, commit=False)
    producer.await_state("CompleteAbort")
    seen["the same again"] = producer.end(5, commit=False)
    producer.epoch += 1
    for commit in (True, False):
        producer.verify(topic, 0, only=False)
        producer.await_state("Ongoing")
        seen[f"end {commit}"] = producer.end(5, commit=commit)
        seen[f"ended {commit}"] = producer.await_state("CompleteCommit", "CompleteAbort")
        seen[f"again {commit}"] = producer.end(5, commit=commit)
        seen[f"otherwise {commit}"] = producer.end(5, commit=not commit)
        producer.epoch += 1
    seen["other epoch"] = [producer.end(5, producer_epoch=each) for each in (0, 9)]
    seen["other id"] = producer.end(5, producer_id=7_000_000)
    seen["unknown id"] = producer.end(5, transactional_id=harness.name("unknown"))
    return seen


@case
def produce_in_a_transaction(harness: CaseHarness) -> Any:
    # Otherwise a marker, which is of now, begins a segment after the older records.
    topic = harness.topic(configs={"segment.ms": "1000000000000"})
    client = harness.leader(topic)
    producer = _producer(harness)
    seen: dict[str, Any] = {
        f"not added, version {version}": producer.produce(client, topic, b"1", version=version)
        for version in (9, 11)
    }
    producer.add(topic, 0)
    seen["added"] = producer.produce(client, topic, b"2")
    seen["next"] = producer.produce(client, topic, b"3", version=11)
    producer.end(3)
    producer.await_state("CompleteCommit")
    seen["late"] = producer.produce(client, topic, b"4", version=11)
    seen["committed"] = harness.fetch(client, topic, isolation_level=1)
    return seen


@case
def produce_adds_the_partition(harness: CaseHarness) -> Any:
    # Otherwise a marker, which is of now, begins a segment after the older records.
    topic = harness.topic(configs={"segment.ms": "1000000000000"})
    client = harness.leader(topic)
    producer = _producer(harness)
    seen: dict[str, Any] = {"first": producer.produce(client, topic, b"1", version=12)}
    seen["ongoing"] = producer.described()
    seen["open"] = harness.fetch(client, topic, isolation_level=1)
    seen["end"] = producer.end(5, commit=False)
    producer.await_state("CompleteAbort")
    seen["late"] = producer.produce(client, topic, b"2", version=12)
    producer.epoch += 1
    producer.sequence = 0
    seen["next"] = producer.produce(client, topic, b"3", version=12)
    producer.end(5)
    producer.await_state("CompleteCommit")
    seen["fetched"] = harness.fetch(client, topic, isolation_level=1)
    return seen


@case
def describe_transactions(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=3)
    producer = _producer(harness)
    seen: dict[str, Any] = {"empty": producer.described()}
    producer.add(topic, 2, 0)
    ids = [producer.id, harness.name("unknown"), "", producer.id]
    described = producer.described()
    described.topics[0].partitions.sort()  # Kafka's order is that of a hash.
    seen["described"] = described
    seen["errors"] = sorted(
        state.error_code
        for state in producer.client.call(
            "DescribeTransactions", 0, transactional_ids=ids[:1] + ids[2:]
        ).transaction_states
    )
    return seen


@case
def list_transactions(harness: CaseHarness) -> Any:
    topic = harness.topic()
    producer = _producer(harness)
    producer.add(topic, 0)

    def listed(version: int, **fields: Any) -> Any:
        wanted = {"state_filters": [], "producer_id_filters": []} | fields
        answer = producer.client.call("ListTransactions", version, **wanted)
        found = [
            state for state in answer.transaction_states if state.transactional_id == producer.id
        ]
        return {
            "error": answer.error_code,
            "unknown": answer.unknown_state_filters,
            "found": found,
        }

    seen = {f"version {version}": listed(version) for version in range(3)}
    for states in (["Ongoing"], ["Empty"], ["Nope"], ["Nope", "Ongoing"], ["ongoing"]):
        seen[f"states {states}"] = listed(0, state_filters=states)
    seen["its producer"] = listed(0, producer_id_filters=[producer.producer_id, 7_000_000])
    seen["another producer"] = listed(0, producer_id_filters=[7_000_000])
    for duration in (-1, 0, 3_600_000):
        seen[f"duration {duration}"] = listed(1, duration_filter=duration)
    for pattern in (None, "", ".*", producer.id[:-1], producer.id[:-1] + ".", "nope", "("):
        name = None if pattern is None else pattern.replace(producer.id[:-1], "id")
        seen[f"pattern {name}"] = listed(2, duration_filter=-1, transactional_id_pattern=pattern)
    return seen


@case
def transactional_offsets(harness: CaseHarness) -> Any:
    topic = harness.topic()
    group = harness.name("group")
    client = harness.coordinator(group)
    producer = _producer(harness)

    def commit(offset: int, version: int = 3, **fields: Any) -> Any:
        wanted = {
            "transactional_id": producer.id,
            "group_id": group,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "note",
                        }
                    ],
                }
            ],
        } | fields
        if version < 3:
            for name in ("generation_id", "member_id", "group_instance_id"):
                del wanted[name]

        def answered() -> Any:
            answer = client.call("TxnOffsetCommit", version, **wanted)
            code = answer.topics[0].partitions[0].error_code
            return None if code in (*_RETRIABLE, _CONCURRENT) else answer

        return harness.until(answered)

    def fetched(*, stable: bool) -> Any:
        topics = [{"name": topic, "partition_indexes": [0]}]
        return client.call("OffsetFetch", 7, group_id=group, topics=topics, require_stable=stable)

    def add_offsets(**fields: Any) -> Any:
        wanted = {
            "transactional_id": producer.id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "group_id": group,
        } | fields

        def answered() -> Any:
            answer = producer.client.call("AddOffsetsToTxn", 3, **wanted)
            return None if answer.error_code in (*_RETRIABLE, _CONCURRENT) else answer

        return harness.until(answered)

    seen: dict[str, Any] = {
        f"not added, version {version}": commit(1, version) for version in range(5)
    }
    seen["added"] = add_offsets()
    for version in range(5):
        seen[f"version {version}"] = commit(2 + version, version)
    seen["pending"] = [fetched(stable=each) for each in (False, True)]
    seen["unknown topic"] = commit(
        9,
        topics=[
            {
                "name": harness.name("unknown"),
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": 1,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                ],
            }
        ],
    )
    seen["other epoch"] = commit(9, producer_epoch=5)
    seen["unknown member"] = commit(9, member_id="unknown", generation_id=1)
    seen["unknown group"] = commit(9, group_id="")
    producer.end(3)
    producer.await_state("CompleteCommit")
    seen["committed"] = fetched(stable=True)
    seen["version 5 adds the group"] = commit(20, 5)
    seen["ongoing"] = producer.await_state("Ongoing").transaction_state
    producer.end(5, commit=False)
    producer.await_state("CompleteAbort")
    seen["aborted"] = fetched(stable=True)
    seen["unknown id"] = add_offsets(transactional_id=harness.name("unknown"))
    seen["other epoch adds"] = add_offsets(producer_epoch=9)
    return seen


@case
def find_coordinators_of_transactions(harness: CaseHarness) -> Any:
    names = [harness.name("one"), harness.name("two")]
    for name in names:
        Producer(harness, name)
    return harness.node_0.call("FindCoordinator", 4, coordinator_keys=names, key_type=1)


@case
def api_versions_tell_the_transaction_version(harness: CaseHarness) -> Any:
    seen = {}
    for version in (3, 4):
        answer = harness.node_0.call(
            "ApiVersions", version, client_software_name="parity", client_software_version="1"
        )
        seen[version] = {
            "supported": [
                each for each in answer.supported_features if each.name == "transaction.version"
            ],
            "finalized": [
                each for each in answer.finalized_features if each.name == "transaction.version"
            ],
        }
    return seen
