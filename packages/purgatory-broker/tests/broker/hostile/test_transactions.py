"""Clients that send batches and markers of transactions that are not theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.registry import find_api
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.metadata.topics import TopicPartition
from tests.broker import apis
from tests.broker.hostile.client import Client, check_clients_are_served
from tests.broker.hostile.conftest import RunScenario, play
from tests.broker.hostile.sample_requests import TOPIC
from tests.broker.log.batches import batch, with_fields
from tests.support.profiles import examples

_KEY = TopicPartition(TOPIC, 0)
#: Without the flag, transactional, control, and both.
_ATTRIBUTES = st.sampled_from([0, 0x10, 0x10, 0x20, 0x30, 0x50])
_IDS = st.sampled_from([-1, 0, 5, 6, 2**63 - 1])
_EPOCHS = st.sampled_from([-1, 0, 1, 2**15 - 1])
_SEQUENCES = st.sampled_from([-1, 0, 1, 2, 2**31 - 1])
_BATCHES = st.builds(
    lambda attributes, producer_id, epoch, sequence: with_fields(
        batch(b"v"),
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    ),
    _ATTRIBUTES,
    _IDS,
    _EPOCHS,
    _SEQUENCES,
)
_TORN = st.builds(lambda data, size: data[:size], _BATCHES, st.integers(0, 80))
_PRODUCES = st.tuples(
    st.one_of(_BATCHES, _BATCHES, _TORN), st.sampled_from([None, "", "t"]), st.integers(9, 12)
)
_MARKERS = st.tuples(_IDS, _EPOCHS, st.booleans(), st.sampled_from([-1, 0, 1, 2**31 - 1]))

#: What Kafka answers to such requests; everything else is a failure of the broker.
_EXPECTED = {
    ErrorCode.NONE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}


class Credulous:
    """A transaction coordinator that confirms everything."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        reply: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Confirm."""
        reply({})


async def produce(
    client: Client, records: bytes, transactional_id: str | None, version: int
) -> Any:
    """Send a Produce request, and return its error."""
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}]
    answer = await client.call(
        apis.PRODUCE,
        version,
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1_000,
        topic_data=data,
    )
    return answer.responses[0].partition_responses[0].error_code


async def mark(client: Client, marker: tuple[int, int, bool, int]) -> Any:
    """Send a marker, and return its error."""
    producer_id, epoch, commits, coordinator_epoch = marker
    wanted = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": commits,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
        "coordinator_epoch": coordinator_epoch,
    }
    answer = await client.call(find_api("WriteTxnMarkers"), 1, markers=[wanted])
    error = answer.markers[0].topics[0].partitions[0].error_code
    assert (error == ErrorCode.UNKNOWN_SERVER_ERROR) == (-1 in (producer_id, epoch)), marker
    return ErrorCode.NONE if -1 in (producer_id, epoch) else error


@examples(40)
@given(st.lists(st.one_of(_PRODUCES, _MARKERS), min_size=1, max_size=25))
def test_foreign_batches_and_markers_do_no_harm(requests: list[Any]) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        leader = cluster.controller.topics[TOPIC].partitions[0].leader
        node = cluster.nodes[leader]
        node.verifications._verifier = Credulous()
        client = await Client.to(cluster, leader)
        for request in requests:
            sent = mark(client, request) if len(request) == 4 else produce(client, *request)
            assert await asyncio.wait_for(sent, 10) in _EXPECTED, request
        replica = node.replicas.replicas[_KEY]
        for producer_id, producer in list(replica.log.producers.items()):
            if producer.transaction_start is not None:
                assert await mark(client, (producer_id, producer.epoch, False, 2**31 - 1)) == 0
        assert replica.last_stable_offset == replica.high_watermark
        await check_clients_are_served(cluster)

    play(scenario)


@pytest.mark.parametrize("attributes", [0x20, 0x30])
def test_control_batch_of_a_client_is_refused(run_scenario: RunScenario, attributes: int) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        leader = cluster.controller.topics[TOPIC].partitions[0].leader
        cluster.nodes[leader].verifications._verifier = Credulous()
        client = await Client.to(cluster, leader)
        marker = batch(b"\0" * 6, key=b"\0\0\0\1", producer=(5, 0, 0))
        marker = with_fields(marker, attributes=attributes)
        assert await produce(client, marker, "t", 9) == ErrorCode.INVALID_RECORD
        assert cluster.nodes[leader].replicas.replicas[_KEY].log.end_offset == 0

    run_scenario(scenario)
