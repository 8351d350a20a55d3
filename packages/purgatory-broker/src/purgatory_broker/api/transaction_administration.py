"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from itertools import groupby

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol import list_transactions as listing
from purgatory_broker._wire.protocol.describe_transactions import (
    DESCRIBE_TRANSACTIONS_MESSAGES,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from purgatory_broker._wire.protocol.list_transactions import (
    LIST_TRANSACTIONS_MESSAGES,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext
from purgatory_broker.transactions.transaction_messages import (
    TransactionFilter,
    TransactionListing,
)


def _describe_transactions(
    broker: BrokerApi, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            _described(broker, context, transactional_id)
            for transactional_id in request.transactional_ids
        ]
    )


def _may_describe(broker: BrokerApi, context: RequestContext, transactional_id: str) -> bool:
    resource = AclResource.TRANSACTIONAL_ID
    return is_allowed(broker, context, AclOperation.DESCRIBE, resource, transactional_id)


def _described(
    broker: BrokerApi, context: RequestContext, transactional_id: str
) -> TransactionState:
    if not _may_describe(broker, context, transactional_id):
        code = DENIED[AclResource.TRANSACTIONAL_ID]
        return TransactionState(error_code=code, transactional_id=transactional_id)
    described = broker.transactions.describe_transaction(transactional_id)
    state = TransactionState(
        error_code=described.error, transactional_id=described.transactional_id
    )
    value = described.value
    if value is not None:
        state.transaction_state = value.state.value
        state.transaction_timeout_ms = value.timeout_ms
        state.transaction_start_time_ms = value.start_ms
        state.producer_id = value.producer_id
        state.producer_epoch = value.producer_epoch
        names = [key.topic for key in value.partitions]
        allowed = allowed_topics(broker, context, AclOperation.DESCRIBE, names)
        state.topics = [
            TopicData(topic=topic, partitions=[key.partition for key in keys])
            for topic, keys in groupby(sorted(value.partitions), lambda key: key.topic)
            if topic in allowed
        ]
    return state


def _refuse_describe_transactions(
    request: DescribeTransactionsRequest, code: ErrorCode, version: int
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(error_code=code, transactional_id=transactional_id)
            for transactional_id in request.transactional_ids
        ]
    )


DESCRIBE_TRANSACTIONS = ServedApi(
    messages=DESCRIBE_TRANSACTIONS_MESSAGES,
    versions=(0, 0),
    answer=_describe_transactions,
    refuse=_refuse_describe_transactions,
)


def _list_transactions(
    broker: BrokerApi, context: RequestContext, request: ListTransactionsRequest
) -> None:
    def reply(listed: TransactionListing) -> None:
        context.reply(
            ListTransactionsResponse(
                error_code=listed.error,
                unknown_state_filters=list(listed.unknown_states),
                transaction_states=[
                    listing.TransactionState(
                        transactional_id=transactional_id,
                        producer_id=value.producer_id,
                        transaction_state=value.state.value,
                    )
                    for transactional_id, value in listed.transactions
                    if _may_describe(broker, context, transactional_id)
                ],
            )
        )

    broker.transactions.list_transactions(
        TransactionFilter(
            states=frozenset(request.state_filters),
            producer_ids=frozenset(request.producer_id_filters),
            duration_ms=request.duration_filter,
            pattern=request.transactional_id_pattern or None,
        ),
        reply,
    )


LIST_TRANSACTIONS = ServedApi(
    messages=LIST_TRANSACTIONS_MESSAGES, versions=(0, 2), handle=_list_transactions
)
