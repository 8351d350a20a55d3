"""CreateAcls, DeleteAcls and DescribeAcls: refused, as by a Kafka without an authorizer."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.create_acls import (
    CREATE_ACLS_MESSAGES,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from purgatory_broker._wire.protocol.delete_acls import (
    DELETE_ACLS_MESSAGES,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from purgatory_broker._wire.protocol.describe_acls import (
    DESCRIBE_ACLS_MESSAGES,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.request_context import RequestContext

#: Kafka's message to clients that create or delete ACLs.
NO_AUTHORIZER = "No Authorizer is configured."


def _create_acls(
    broker: BrokerApi, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))


CREATE_ACLS = ServedApi(messages=CREATE_ACLS_MESSAGES, versions=(1, 3), answer=_create_acls)


def _delete_acls(
    broker: BrokerApi, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


DELETE_ACLS = ServedApi(messages=DELETE_ACLS_MESSAGES, versions=(1, 3), answer=_delete_acls)


def _describe_acls(
    broker: BrokerApi, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
    )


DESCRIBE_ACLS = ServedApi(messages=DESCRIBE_ACLS_MESSAGES, versions=(1, 3), answer=_describe_acls)
