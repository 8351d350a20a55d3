"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: the transactions of producers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.add_offsets_to_txn import (
    ADD_OFFSETS_TO_TXN_MESSAGES,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from purgatory_broker._wire.protocol.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN_MESSAGES,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from purgatory_broker._wire.protocol.end_txn import (
    END_TXN_MESSAGES,
    EndTxnRequest,
    EndTxnResponse,
)
from purgatory_broker.api.access import allowed_topics, require
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import INTERNAL_TOPICS, OFFSETS_TOPIC, TopicPartition
from purgatory_broker.request_context import RequestContext
from purgatory_broker.transactions.transaction import EPOCH_BUMP_SINCE
from purgatory_broker.transactions.transaction_messages import (
    AddPartitions,
    EndTransaction,
    ProducerIdResult,
    error_for_all,
)

#: The first version of each of these APIs whose clients know PRODUCER_FENCED.
PRODUCER_FENCED_SINCE = 2
#: The first version for several transactions at a time, which brokers send.
BATCHED_SINCE = 4
#: The first version whose response has the producer's next epoch.
NEXT_EPOCH_SINCE = 5


def _error(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and version < PRODUCER_FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _add_partitions(
    broker: BrokerApi, context: RequestContext, request: AddPartitionsToTxnRequest
) -> None:
    if context.version < BATCHED_SINCE:
        transactional_id = request.v3_and_below_transactional_id
        require(broker, context, AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id)
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    else:
        require(broker, context, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
        transactions = request.transactions
    results: dict[int, AddPartitionsToTxnResult] = {}

    def reply(number: int, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        results[number] = AddPartitionsToTxnResult(
            transactional_id=transactions[number].transactional_id,
            topic_results=_topic_results(errors, context.version),
        )
        respond()

    def respond() -> None:
        if len(results) < len(transactions):
            return
        in_order = [results[number] for number in sorted(results)]
        if context.version >= BATCHED_SINCE:
            context.reply(AddPartitionsToTxnResponse(results_by_transaction=in_order))
        else:
            (result,) = in_order
            context.reply(
                AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)
            )

    if not transactions:
        respond()
    for number, transaction in enumerate(transactions):
        _add_to_transaction(broker, context, transaction, partial(reply, number))


def _add_to_transaction(
    broker: BrokerApi,
    context: RequestContext,
    transaction: AddPartitionsToTxnTransaction,
    reply: Callable[[Mapping[TopicPartition, ErrorCode]], None],
) -> None:
    partitions = _partitions_of(transaction.topics)
    refused = _refused_partitions(broker, context, partitions)
    if refused:
        # One that is refused fails the transaction's request as a whole.
        not_attempted = error_for_all(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        reply({**not_attempted, **refused})
        return
    added = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=frozenset(partitions),
        client_version=EPOCH_BUMP_SINCE if context.version >= BATCHED_SINCE else 0,
    )
    if transaction.verify_only:
        broker.transactions.verify_partitions(
            added, lambda errors: reply({key: errors[key] for key in partitions})
        )
    else:
        broker.transactions.add_partitions(
            added, lambda error: reply(error_for_all(partitions, error))
        )


def _refused_partitions(
    broker: BrokerApi, context: RequestContext, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    is_client = context.version < BATCHED_SINCE
    allowed: Container[str] = ()
    if is_client:
        topics = (key.topic for key in partitions)
        allowed = allowed_topics(broker, context, AclOperation.WRITE, topics)
    refused = {}
    for key in partitions:
        # AddOffsetsToTxn adds the internal ones of a client.
        if is_client and (key.topic in INTERNAL_TOPICS or key.topic not in allowed):
            refused[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not broker.metadata.partition_exists(key):
            refused[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> dict[TopicPartition, None]:
    """Return each partition once, in the order of the request."""
    return {
        TopicPartition(topic.name, index): None for topic in topics for index in topic.partitions
    }


def _topic_results(
    errors: Mapping[TopicPartition, ErrorCode], version: int
) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for key, error in errors.items():
        topics.setdefault(key.topic, []).append(
            AddPartitionsToTxnPartitionResult(
                partition_index=key.partition, partition_error_code=_error(error, version)
            )
        )
    return [
        AddPartitionsToTxnTopicResult(name=name, results_by_partition=partitions)
        for name, partitions in topics.items()
    ]


def _refuse_add_partitions(
    request: AddPartitionsToTxnRequest, code: ErrorCode, version: int
) -> AddPartitionsToTxnResponse:
    """Return the response with an error for all; up to version 3 for each partition."""
    if version >= BATCHED_SINCE:
        return AddPartitionsToTxnResponse(error_code=code)
    partitions = _partitions_of(request.v3_and_below_topics)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_topic_results(error_for_all(partitions, code), version)
    )


ADD_PARTITIONS_TO_TXN = ServedApi(
    messages=ADD_PARTITIONS_TO_TXN_MESSAGES,
    versions=(0, 5),
    handle=_add_partitions,
    refuse=_refuse_add_partitions,
)


def _add_offsets(
    broker: BrokerApi, context: RequestContext, request: AddOffsetsToTxnRequest
) -> None:
    """Add the partition of a group's offsets, to which TxnOffsetCommit then writes."""
    key = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))
    added = AddPartitions(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        partitions=frozenset({key}),
    )

    def reply(error: ErrorCode) -> None:
        context.reply(AddOffsetsToTxnResponse(error_code=_error(error, context.version)))

    broker.transactions.add_partitions(added, reply)


ADD_OFFSETS_TO_TXN = ServedApi(
    messages=ADD_OFFSETS_TO_TXN_MESSAGES,
    versions=(0, 4),
    requires={
        AclResource.TRANSACTIONAL_ID: AclOperation.WRITE,
        AclResource.GROUP: AclOperation.READ,
    },
    handle=_add_offsets,
)


def _end_txn(broker: BrokerApi, context: RequestContext, request: EndTxnRequest) -> None:
    end = EndTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        is_commit=request.committed,
        client_version=EPOCH_BUMP_SINCE if context.version >= NEXT_EPOCH_SINCE else 0,
    )

    def reply(result: ProducerIdResult) -> None:
        context.reply(
            EndTxnResponse(
                error_code=_error(result.error, context.version),
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )
        )

    broker.transactions.end_transaction(end, reply)


END_TXN = ServedApi(
    messages=END_TXN_MESSAGES,
    versions=(0, 5),
    requires={AclResource.TRANSACTIONAL_ID: AclOperation.WRITE},
    handle=_end_txn,
)
