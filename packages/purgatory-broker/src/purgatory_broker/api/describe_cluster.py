"""DescribeCluster: list the brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from purgatory_broker.api.authorized_operations import ON_THE_CLUSTER
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode

_Broker = DescribeClusterResponse.DescribeClusterBroker

#: The first version with an endpoint type, and the types (KIP-919).
ENDPOINT_TYPE_SINCE = 1
_BROKER_ENDPOINTS, _CONTROLLER_ENDPOINTS = 1, 2
#: Error codes that only this API uses.
_MISMATCHED_ENDPOINT_TYPE, _UNSUPPORTED_ENDPOINT_TYPE = 114, 115


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for the cluster's nodes.

    Attributes:
        endpoint_type: Of which nodes; brokers in old versions.
        include_authorized_operations: Whether the response is to list the client's operations.
    """

    endpoint_type: int
    include_authorized_operations: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    has_type = context.version >= ENDPOINT_TYPE_SINCE
    return _Request(
        message.endpoint_type if has_type else _BROKER_ENDPOINTS,
        message.include_cluster_authorized_operations,
    )


def _describe_cluster(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    if request.endpoint_type != _BROKER_ENDPOINTS:
        # This listener is a broker's, not a controller's.
        is_known = request.endpoint_type == _CONTROLLER_ENDPOINTS
        name = ErrorCode.INVALID_REQUEST.name if is_known else ErrorCode.UNSUPPORTED_VERSION.name
        context.reply(
            DescribeClusterResponse(
                error_code=_MISMATCHED_ENDPOINT_TYPE if is_known else _UNSUPPORTED_ENDPOINT_TYPE,
                error_message=name,
                cluster_id="",
                brokers=[],
            )
        )
        return
    context.reply(
        DescribeClusterResponse(
            error_code=0,
            error_message=None,
            cluster_id=broker.controller.cluster_id,
            controller_id=broker.controller.controller_id,
            brokers=[
                _Broker(broker_id=node["node_id"], host=node["host"], port=node["port"], rack=None)
                for node in broker.endpoints(broker.metadata.alive(), context.client.listener)
            ],
            authorized_operations=(
                ON_THE_CLUSTER if request.include_authorized_operations else None
            ),
        )
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return DescribeClusterResponse(
        error_code=int(code), error_message=None, cluster_id="", brokers=[]
    )


API = ServedApi(
    key=60,
    name="DescribeCluster",
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    min_version=0,
    max_version=2,
    decode=_decode,
    handle=_describe_cluster,
    error_response=_error_response,
    subjects=no_subjects,
)
