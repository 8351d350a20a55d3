"""CreateAcls, DeleteAcls and DescribeAcls: the ACLs that the authorizer decides by."""

from __future__ import annotations

from itertools import groupby

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.create_acls import (
    CREATE_ACLS_MESSAGES,
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from purgatory_broker._wire.protocol.delete_acls import (
    DELETE_ACLS_MESSAGES,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from purgatory_broker._wire.protocol.describe_acls import (
    DESCRIBE_ACLS_MESSAGES,
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from purgatory_broker.request_context import RequestContext

#: Kafka's message to clients that create or delete ACLs.
NO_AUTHORIZER = "No Authorizer is configured."


def _create_acls(
    broker: BrokerApi, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    if broker.authorizer is None:
        refused = AclCreationResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )
        return CreateAclsResponse(results=[refused] * len(request.creations))
    acls = [_acl(creation) for creation in request.creations]
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_message=None)
            if refusal is None
            else AclCreationResult(
                error_code=refusal.code, error_message=truncate_message(str(refusal))
            )
            for refusal in broker.controller.acl_changes.create(acls)
        ]
    )


def _acl(creation: AclCreation) -> Acl:
    try:
        return Acl(
            AclResource(creation.resource_type),
            creation.resource_name,
            AclPattern(creation.resource_pattern_type),
            creation.principal,
            creation.host,
            AclOperation(creation.operation),
            AclPermission(creation.permission_type),
        )
    except ValueError as error:
        # Kafka can't read such a request either.
        raise WireError(f"CreateAcls with an unknown element: {error}") from error


CREATE_ACLS = ServedApi(
    messages=CREATE_ACLS_MESSAGES,
    versions=(1, 3),
    requires={AclResource.CLUSTER: AclOperation.ALTER},
    needs_controller=True,
    answer=_create_acls,
)


def _delete_acls(
    broker: BrokerApi, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    if broker.authorizer is None:
        refused = DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
    matched = broker.controller.acl_changes.delete([_filter(given) for given in request.filters])
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_message=None,
                matching_acls=[
                    DeleteAclsMatchingAcl(
                        error_message=None,
                        resource_type=acl.resource,
                        resource_name=acl.name,
                        pattern_type=acl.pattern,
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for acls in matched
        ]
    )


def _filter(given: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    try:
        return AclFilter(
            AclResource(given.resource_type_filter),
            given.resource_name_filter,
            AclPattern(given.pattern_type_filter),
            given.principal_filter,
            given.host_filter,
            AclOperation(given.operation),
            AclPermission(given.permission_type),
        )
    except ValueError as error:
        raise WireError(f"a filter of ACLs with an unknown element: {error}") from error


DELETE_ACLS = ServedApi(
    messages=DELETE_ACLS_MESSAGES,
    versions=(1, 3),
    requires={AclResource.CLUSTER: AclOperation.ALTER},
    needs_controller=True,
    answer=_delete_acls,
)


def _describe_acls(
    broker: BrokerApi, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    if broker.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    wanted = _filter(request)
    matched = sorted(filter(wanted.matches, broker.metadata.acls))
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=resource,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (resource, name, pattern), acls in groupby(matched, lambda acl: acl[:3])
        ],
    )


DESCRIBE_ACLS = ServedApi(
    messages=DESCRIBE_ACLS_MESSAGES,
    versions=(1, 3),
    requires={AclResource.CLUSTER: AclOperation.DESCRIBE},
    answer=_describe_acls,
)
