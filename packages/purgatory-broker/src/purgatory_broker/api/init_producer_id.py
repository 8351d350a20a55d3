"""InitProducerId: assign a producer id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request for a producer id.

    Attributes:
        transactional_id: The id of a transactional producer; None for an idempotent one.
        producer_id: The id that the producer has; -1 for none.
        producer_epoch: The epoch of that id; -1 for none.
    """

    transactional_id: str | None
    producer_id: int
    producer_epoch: int


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        transactional_id=message.transactional_id,
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
    )


def _init_producer_id(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    if request.transactional_id is not None:
        # Transactions are not supported: there is no transaction coordinator.
        code = (
            ErrorCode.INVALID_REQUEST
            if request.transactional_id == ""
            else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        context.reply(_error_response(request, code))
        return
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        context.reply(_error_response(request, ErrorCode.INVALID_REQUEST))
        return
    # As in Kafka: without a transactional id every request gets a new producer id.
    try:
        producer_id = broker.controller.new_producer_id()
    except ControllerError:
        # Kafka's error while a broker has no producer ids; clients retry.
        context.reply(_error_response(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    context.reply(InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0))


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)


API = ServedApi(
    key=22,
    name="InitProducerId",
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    min_version=0,
    max_version=5,
    decode=_decode,
    handle=_init_producer_id,
    error_response=_error_response,
    subjects=no_subjects,
)
