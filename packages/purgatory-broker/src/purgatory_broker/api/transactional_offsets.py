"""TxnOffsetCommit: the offsets of a consumer, committed in a producer's transaction."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.txn_offset_commit import (
    TXN_OFFSET_COMMIT_MESSAGES,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.committed_offsets import requested_offsets, results_by_topic
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.group_messages import Producer, TransactionalCommit
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext

#: The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS.
LOAD_IN_PROGRESS_SINCE = 2
#: The first version whose clients know TRANSACTION_ABORTABLE.
ABORTABLE_SINCE = 4
#: The first version that adds the group's partition to the transaction.
ADDS_PARTITION_SINCE = 5


def _txn_offset_commit(
    broker: BrokerApi, context: RequestContext, request: TxnOffsetCommitRequest
) -> None:
    topics, offsets = requested_offsets(broker, context, request.topics)

    def reply(errors: tuple[ErrorCode, ...]) -> None:
        results = results_by_topic(topics, (_error(context, error) for error in errors))
        context.reply(
            TxnOffsetCommitResponse(
                topics=[
                    TxnOffsetCommitResponseTopic(
                        name=name,
                        partitions=[
                            TxnOffsetCommitResponsePartition(
                                partition_index=index, error_code=error
                            )
                            for index, error in partitions
                        ],
                    )
                    for name, partitions in results
                ]
            )
        )

    if not offsets:
        reply(())
        return
    commit = TransactionalCommit(
        group_id=request.group_id,
        transactional_id=request.transactional_id,
        producer=Producer(request.producer_id, request.producer_epoch),
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        adds_partition=context.version >= ADDS_PARTITION_SINCE,
        offsets=tuple(offsets),
    )
    broker.groups.offsets.commit_transactional(commit, reply)


def _error(context: RequestContext, error: ErrorCode) -> ErrorCode:
    """Return an error that the client's version knows."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.version < LOAD_IN_PROGRESS_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is ErrorCode.TRANSACTION_ABORTABLE and context.version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return error


TXN_OFFSET_COMMIT = ServedApi(
    messages=TXN_OFFSET_COMMIT_MESSAGES,
    versions=(0, 5),
    requires={
        AclResource.TRANSACTIONAL_ID: AclOperation.WRITE,
        AclResource.GROUP: AclOperation.READ,
    },
    handle=_txn_offset_commit,
)
