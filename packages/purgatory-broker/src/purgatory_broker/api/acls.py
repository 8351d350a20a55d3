"""CreateAcls, DeleteAcls and DescribeAcls: the ACLs that the authorizer decides by."""

from __future__ import annotations

from itertools import groupby
from typing import TypeVar

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
from purgatory_broker.metadata.topics import ControllerError
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
    acl = Acl(
        _element(AclResource, creation.resource_type),
        creation.resource_name,
        _element(AclPattern, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _element(AclOperation, creation.operation),
        _element(AclPermission, creation.permission_type),
    )
    if (
        acl.resource is AclResource.ANY
        or acl.pattern in (AclPattern.ANY, AclPattern.MATCH)
        or acl.operation is AclOperation.ANY
        or acl.permission is AclPermission.ANY
    ):
        # In Kafka an error of the handler, for the request as a whole.
        raise ControllerError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"{acl} has an element that is for filters"
        )
    return acl


_Element = TypeVar("_Element", AclResource, AclPattern, AclOperation, AclPermission)


def _element(kind: type[_Element], code: int) -> _Element:
    if code == kind.UNKNOWN:
        # Kafka can't read such a request either.
        raise WireError(f"an ACL with the unknown {kind.__name__} {code}")
    try:
        return kind(code)
    except ValueError:
        return kind.UNKNOWN


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
    filters = [_filter(given) for given in request.filters]
    unknown = DeleteAclsFilterResult(
        error_code=ErrorCode.INVALID_REQUEST, error_message="The filter has an unknown element."
    )
    return DeleteAclsResponse(
        filter_results=[
            unknown
            if wanted.is_unknown
            else DeleteAclsFilterResult(
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
            for wanted, acls in zip(
                filters, broker.controller.acl_changes.delete(filters), strict=True
            )
        ]
    )


def _filter(given: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    return AclFilter(
        _element(AclResource, given.resource_type_filter),
        given.resource_name_filter,
        _element(AclPattern, given.pattern_type_filter),
        given.principal_filter,
        given.host_filter,
        _element(AclOperation, given.operation),
        _element(AclPermission, given.permission_type),
    )


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
