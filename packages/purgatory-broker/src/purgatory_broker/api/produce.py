"""Produce: append records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.produce import (
    PRODUCE_MESSAGES,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.log.batch import UNSET, in_transaction, producer_of
from purgatory_broker.log.verification import VerificationGuard
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_partitions import ProducedPartition
from purgatory_broker.replication.transaction_verifier import TransactionBegin
from purgatory_broker.request_context import RequestContext

#: The first versions with the current leader in the response (KIP-951), and with topic ids instead
#: of names (KIP-516).
CURRENT_LEADER_SINCE = 10
TOPIC_ID_SINCE = 13
#: The first versions whose clients know TRANSACTION_ABORTABLE, and of clients that leave it to the
#: broker to add partitions to their transactions (KIP-890).
ABORTABLE_SINCE = 11
ADDS_PARTITIONS_SINCE = 12

#: Errors of the coordinator that a producer does not expect of the leader of a partition.
_RETRIED_AS_PRODUCE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

_Records: TypeAlias = dict[TopicPartition, bytes | memoryview | None]


def _produce(broker: BrokerApi, context: RequestContext, request: ProduceRequest) -> None:
    if request.acks not in (-1, 0, 1):
        context.reply(PRODUCE_MESSAGES.error_response(request, ErrorCode.INVALID_REQUIRED_ACKS))
        return
    # As in Kafka, the last entry of a partition that is named twice counts.
    refused: dict[TopicPartition, ProducedPartition] = {}
    records: _Records = {}
    is_transactional = False
    size = 0
    by_id = context.version >= TOPIC_ID_SINCE
    topic_ids: dict[str, UUID | None] = {}
    names = [
        # The id of an unknown topic takes the place of its name. No name has a space.
        (broker.metadata.topic_name(topic.topic_id) or f"id {topic.topic_id}")
        if by_id
        else topic.name
        for topic in request.topic_data
    ]
    allowed = allowed_topics(broker, context, AclOperation.WRITE, names)
    for name, topic in zip(names, request.topic_data, strict=True):
        topic_ids[name] = topic.topic_id
        for partition in topic.partition_data:
            if partition.records is not None and in_transaction(partition.records):
                is_transactional = True
            key = TopicPartition(name, partition.index)
            error = _partition_error(broker, key, by_id=by_id)
            if name not in allowed and error is not ErrorCode.UNKNOWN_TOPIC_ID:
                error = DENIED[AclResource.TOPIC]
            if error is not None:
                refused[key] = ProducedPartition(key, error)
                continue
            size += 0 if partition.records is None else len(partition.records)
            records[key] = partition.records
    context.throttle_ms = broker.produce_throttle_ms(context.client, size)

    def reply(produced: list[ProducedPartition]) -> None:
        _reply(broker, context, request, topic_ids, [*produced, *refused.values()])

    if is_transactional:
        _append_transactional(broker, context, request, records, reply)
        return
    context.operation = broker.appends.append(
        request.acks, request.timeout_ms, list(records.items()), reply
    )


def _append_transactional(
    broker: BrokerApi,
    context: RequestContext,
    request: ProduceRequest,
    records: _Records,
    reply: Callable[[list[ProducedPartition]], None],
) -> None:
    """Append once the coordinator knows that the partitions belong to the transaction."""
    transactional_id = request.transactional_id
    if transactional_id is None or not is_allowed(
        broker, context, AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id
    ):
        _refuse_all(context, request, DENIED[AclResource.TRANSACTIONAL_ID])
        return
    begins: dict[TopicPartition, tuple[int, int, int]] = {}
    for key, batch in records.items():
        if batch is not None and in_transaction(batch):
            producer = producer_of(batch)
            if producer[0] > UNSET:
                begins[key] = producer
    producers = {producer[:2] for producer in begins.values()}
    if len(producers) > 1:
        _refuse_all(context, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return

    def verified(
        errors: dict[TopicPartition, ErrorCode],
        guards: Mapping[TopicPartition, VerificationGuard],
    ) -> None:
        refused = [_unverified(key, code, context.version) for key, code in errors.items()]
        try:
            context.operation = broker.appends.append(
                request.acks,
                request.timeout_ms,
                [(key, batch) for key, batch in records.items() if key not in errors],
                lambda produced: reply([*refused, *produced]),
                guards=guards,
            )
        except Exception:
            # Nobody else answers: the handler has returned.
            if not context.answered:
                _refuse_all(context, request, ErrorCode.UNKNOWN_SERVER_ERROR)
            raise

    if not producers:
        verified({}, {})
        return
    producer_id, producer_epoch = producers.pop()
    begin = TransactionBegin(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        sequences={key: producer[2] for key, producer in begins.items()},
        adds=context.version >= ADDS_PARTITIONS_SINCE,
    )
    broker.verifications.verify(begin, verified)


def _refuse_all(context: RequestContext, request: ProduceRequest, code: ErrorCode) -> None:
    if request.acks == 0:
        context.close_connection(f"a Produce request with acks=0 is refused with {code.name}")
    context.reply(_refuse_produce(request, code, context.version))


def _unverified(key: TopicPartition, code: ErrorCode, version: int) -> ProducedPartition:
    """Return the result of a partition that the coordinator has refused, in a version's terms."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ProducedPartition(key, ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    result = ProducedPartition(key, code)
    if code is ErrorCode.INVALID_TXN_STATE:
        result.message = "Partition was not added to the transaction"
    elif code in _RETRIED_AS_PRODUCE or (
        code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS_SINCE
    ):
        # Producers retry on this error alone without a look at the metadata.
        result.error = ErrorCode.NOT_ENOUGH_REPLICAS
        result.message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}"
        )
    return result


def _partition_error(broker: BrokerApi, key: TopicPartition, *, by_id: bool) -> ErrorCode | None:
    topic = broker.metadata.topics.get(key.topic)
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None or not 0 <= key.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return None


def _reply(
    broker: BrokerApi,
    context: RequestContext,
    request: ProduceRequest,
    topic_ids: dict[str, UUID | None],
    produced: list[ProducedPartition],
) -> None:
    if request.acks == 0:
        if any(result.error is not ErrorCode.NONE for result in produced):
            # As in Kafka: only a closed connection makes a client that expects no response look up
            # the leader again.
            context.close_connection("a Produce request with acks=0 failed")
        context.reply(None)
        return
    topics: dict[str, list[PartitionProduceResponse]] = {}
    leaders = set()
    for result in produced:
        is_appended = result.error is ErrorCode.NONE
        partition = PartitionProduceResponse(
            index=result.key.partition,
            error_code=result.error,
            base_offset=result.base_offset if is_appended else -1,
            log_append_time_ms=result.log_append_time_ms if is_appended else -1,
            log_start_offset=result.log_start_offset,
            error_message=result.message,
        )
        if result.record_errors:
            partition.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in result.record_errors
            ]
        if (
            not is_appended
            and result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
            and context.version >= CURRENT_LEADER_SINCE
        ):
            leader, epoch = broker.metadata.leader_of(result.key)
            partition.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
            leaders.add(leader)
        topics.setdefault(result.key.topic, []).append(partition)
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name, topic_id=topic_ids[name], partition_responses=partitions
            )
            for name, partitions in topics.items()
        ],
        throttle_time_ms=context.throttle_ms,
    )
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port)
            for node in broker.endpoints(leaders, context.client.listener)
        ]
    context.reply(response)


def _refuse_produce(
    request: ProduceRequest, code: ErrorCode, version: int
) -> ProduceResponse | None:
    """Return the response with an error for every partition; None for acks=0."""
    return None if request.acks == 0 else PRODUCE_MESSAGES.error_response(request, code)


PRODUCE = ServedApi(
    messages=PRODUCE_MESSAGES,
    versions=(3, 13),
    # librdkafka assumes that a broker that does not advertise the oldest versions of Produce
    # supports no compression. Kafka therefore advertises them, and refuses them (KAFKA-18659).
    min_advertised_version=0,
    max_request_bytes=None,
    handle=_produce,
    refuse=_refuse_produce,
)
