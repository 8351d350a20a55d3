"""InitProducerId: the ids and epochs of idempotent and transactional producers."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.init_producer_id import (
    INIT_PRODUCER_ID_MESSAGES,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from purgatory_broker.api.access import is_allowed, is_allowed_some_topic
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.request_context import RequestContext
from purgatory_broker.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID
from purgatory_broker.transactions.transaction_messages import InitProducerId, ProducerIdResult

#: The first version whose clients know PRODUCER_FENCED.
PRODUCER_FENCED_SINCE = 4


def _init_producer_id(
    broker: BrokerApi, context: RequestContext, request: InitProducerIdRequest
) -> None:
    def reply(result: ProducerIdResult) -> None:
        error = result.error
        if error is ErrorCode.PRODUCER_FENCED and context.version < PRODUCER_FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        context.reply(
            InitProducerIdResponse(
                error_code=error,
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )
        )

    if (
        request.transactional_id is None
        and not is_allowed(broker, context, AclOperation.IDEMPOTENT_WRITE, AclResource.CLUSTER)
        and not is_allowed_some_topic(broker, context, AclOperation.WRITE)
    ):
        reply(ProducerIdResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    expected = request.producer_id, request.producer_epoch
    if (expected[0] == NO_PRODUCER_ID) != (expected[1] == NO_EPOCH):
        reply(ProducerIdResult(ErrorCode.INVALID_REQUEST))
    elif request.transactional_id is None:
        # As in Kafka: without a transactional id every request gets a new producer id.
        try:
            reply(ProducerIdResult(ErrorCode.NONE, broker.producer_ids.next_id(), 0))
        except ControllerError:
            # Kafka's error while a broker has no producer ids; clients retry.
            reply(ProducerIdResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    else:
        init = InitProducerId(
            transactional_id=request.transactional_id,
            timeout_ms=request.transaction_timeout_ms,
            expected=None if expected[0] == NO_PRODUCER_ID else expected,
        )
        broker.transactions.init_producer_id(init, reply)


INIT_PRODUCER_ID = ServedApi(
    # Kafka 4.1 has version 6, for commits in two phases, and does not advertise it.
    messages=INIT_PRODUCER_ID_MESSAGES,
    versions=(0, 5),
    requires={AclResource.TRANSACTIONAL_ID: AclOperation.WRITE},
    handle=_init_producer_id,
)
