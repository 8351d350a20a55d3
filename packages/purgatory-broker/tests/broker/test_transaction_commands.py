"""What a test sees of transactions, and does to them."""

from __future__ import annotations

from typing import Any

import pytest

from purgatory_broker import Cluster, ClusterError, ClusterTimeoutError
from purgatory_broker._wire.error_code import ErrorCode
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.parity.raw import RawClient

ID = "payments"


class RawProducer:
    """A transactional producer that sends each request by itself, to the right node."""

    def __init__(self, cluster: Cluster, connect: Connect) -> None:
        self.cluster = cluster
        self._connect = connect
        found = self._node(0).call("FindCoordinator", 3, key=ID, key_type=1)
        while found.error_code:
            found = self._node(0).call("FindCoordinator", 3, key=ID, key_type=1)
        self.coordinator = self._node(found.node_id)
        self.producer_id = self.epoch = -1

    def _node(self, number: int) -> RawClient:
        return self._connect(self.cluster.bootstrap_servers.split(",")[number])

    def init(self, timeout_ms: int = 60_000) -> ErrorCode:
        answer = self.coordinator.call(
            "InitProducerId", 2, transactional_id=ID, transaction_timeout_ms=timeout_ms
        )
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def add(self, topic: str, *partitions: int) -> ErrorCode:
        answer = self.coordinator.call(
            "AddPartitionsToTxn",
            3,
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[{"name": topic, "partitions": [*partitions]}],
        )
        return ErrorCode(
            answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        )

    def end(self, *, commit: bool = True) -> ErrorCode:
        answer = self.coordinator.call(
            "EndTxn",
            3,
            transactional_id=ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        return ErrorCode(answer.error_code)


@pytest.fixture
def producer(cluster: Cluster, connect: Connect) -> RawProducer:
    cluster.create_topic("t", partitions=2)
    producer = RawProducer(cluster, connect)
    assert producer.init() is ErrorCode.NONE
    return producer


def test_transactions_are_shown(cluster: Cluster, producer: RawProducer) -> None:
    (snapshot,) = cluster.transactions().values()
    assert (snapshot.transactional_id, snapshot.state, snapshot.start_ms) == (ID, "Empty", None)
    producer.add("t", 1, 0)
    snapshot = cluster.transactions()[ID]
    assert (snapshot.state, snapshot.partitions) == ("Ongoing", {"t": [0, 1]})
    assert (snapshot.producer_id, snapshot.producer_epoch) == (producer.producer_id, 0)
    assert snapshot.timeout_ms == 60_000
    assert snapshot.start_ms is not None
    leader = cluster.describe_topic("__transaction_state")
    assert snapshot.coordinator in {partition["leader"] for partition in leader}
    producer.end()
    cluster.wait_for(transaction=(ID, "CompleteCommit"))
    assert cluster.transactions()[ID].partitions == {}


def test_wait_for_a_transaction_says_what_it_is_in(cluster: Cluster, producer: RawProducer) -> None:
    producer.add("t", 0)
    cluster.wait_for(transaction=(ID, "Ongoing"))
    with pytest.raises(ClusterTimeoutError, match="'payments' to be CompleteAbort, it is Ongoing"):
        cluster.wait_for(transaction=(ID, "CompleteAbort"), timeout=0.01)
    with pytest.raises(ClusterTimeoutError, match="to be Ongoing, there is no such id"):
        cluster.wait_for(transaction=("other", "Ongoing"), timeout=0.01)
    with pytest.raises(InvalidArgumentError, match="an id, and a state of Empty, Ongoing"):
        cluster.wait_for(transaction=(ID, "Committed"))


def test_advanced_time_aborts_a_transaction(cluster: Cluster, producer: RawProducer) -> None:
    producer.add("t", 0)
    cluster.advance_time(60_001)
    cluster.wait_for(transaction=(ID, "CompleteAbort"))
    assert producer.end() is not ErrorCode.NONE


def test_open_transaction_waits_in_its_purgatory(cluster: Cluster, producer: RawProducer) -> None:
    def waiting() -> float:
        metrics = cluster.metrics().values()
        return sum(node["TransactionTimeout"]["NumDelayedOperations"] for node in metrics)

    assert waiting() == 0
    producer.add("t", 0)
    assert waiting() == 1
    producer.end()
    assert waiting() == 0
    metrics = cluster.metrics().values()
    assert sum(node["TransactionalIdExpiration"]["PurgatorySize"] for node in metrics) == 1


def test_fenced_producer_loses_its_transaction(cluster: Cluster, producer: RawProducer) -> None:
    producer.add("t", 0)
    cluster.fence_producer(ID)
    snapshot = cluster.transactions()[ID]
    assert (snapshot.state, snapshot.producer_epoch, snapshot.timeout_ms) == ("Empty", 2, 60_000)
    assert producer.add("t", 0) is ErrorCode.PRODUCER_FENCED
    assert producer.end() is ErrorCode.PRODUCER_FENCED


def test_unknown_id_cannot_be_fenced(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="no producer has begun with 'nobody'"):
        cluster.fence_producer("nobody")


def test_producer_is_not_fenced_without_its_coordinator(
    cluster: Cluster, producer: RawProducer
) -> None:
    for node in range(len(cluster.bootstrap_servers.split(","))):
        cluster.kill(node)
    with pytest.raises(ClusterError, match=f"no producer has begun with '{ID}'"):
        cluster.fence_producer(ID)


def test_fault_is_limited_to_a_transactional_id(
    cluster: Cluster, producer: RawProducer, connect: Connect
) -> None:
    fault = cluster.inject_request_error(
        "EndTxn", "COORDINATOR_NOT_AVAILABLE", times=None, transactional_id="other"
    )
    producer.add("t", 0)
    assert producer.end() is ErrorCode.NONE
    cluster.clear_faults()
    fault = cluster.inject_request_error("EndTxn", "CONCURRENT_TRANSACTIONS", transactional_id=ID)
    assert producer.end() is ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.wait_for(fault=(fault, 1))
    assert cluster.faults()[0]["transactional_id"] == ID
    with pytest.raises(InvalidArgumentError, match="Fetch, whose requests name no transactional"):
        cluster.inject_request_error("Fetch", "NOT_COORDINATOR", transactional_id=ID)


def test_interception_sees_the_transactional_id(cluster: Cluster, producer: RawProducer) -> None:
    seen: list[Any] = []
    with cluster.intercept("EndTxn", lambda request: seen.append(request.subjects)):
        producer.add("t", 0)
        producer.end()
    assert [subjects.transactional_ids for subjects in seen] == [{ID}]


def test_reset_forgets_transactions(cluster: Cluster, producer: RawProducer) -> None:
    producer.add("t", 0)
    cluster.reset()
    assert cluster.transactions() == {}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_clients_learn_the_transaction_version(level: int, connect: Connect) -> None:
    with Cluster(transaction_version=level) as cluster:
        answer = connect(cluster.bootstrap_servers).call(
            "ApiVersions", 4, client_software_name="test", client_software_version="1"
        )
        assert answer.finalized_features_epoch == 0
        (supported,) = (
            feature
            for feature in answer.supported_features
            if feature.name == "transaction.version"
        )
        assert (supported.min_version, supported.max_version) == (0, 2)
        levels = [
            feature.max_version_level
            for feature in answer.finalized_features
            if feature.name == "transaction.version"
        ]
        assert levels == ([level] if level else [])


def test_coordinator_of_old_clients_keeps_their_records(connect: Connect) -> None:
    with Cluster(transaction_version=0) as cluster:
        cluster.create_topic("t")
        producer = RawProducer(cluster, connect)
        producer.init()
        producer.add("t", 0)
        producer.end()
        cluster.wait_for(transaction=(ID, "CompleteCommit"))
        values = [record.value for record in cluster.records("__transaction_state")]
        assert {value[:2] for value in values if value is not None} == {b"\0\0"}
