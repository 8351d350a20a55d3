"""AlterClientQuotas and DescribeClientQuotas: the quotas of users, client ids and IP addresses."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol import alter_client_quotas
from purgatory_broker._wire.protocol.alter_client_quotas import (
    ALTER_CLIENT_QUOTAS_MESSAGES,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from purgatory_broker._wire.protocol.describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS_MESSAGES,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.client_quotas import (
    CLIENT_ID,
    IP,
    USER,
    QuotaAlteration,
    QuotaFilter,
    quota_entity,
)
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.request_context import RequestContext


def _alter_client_quotas(
    broker: BrokerApi, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    alterations = tuple(
        QuotaAlteration(
            quota_entity(
                {component.entity_type: component.entity_name for component in entry.entity}
            ),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in request.entries
    )
    results = broker.controller.quotas.alter(alterations, validate_only=request.validate_only)
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=ErrorCode.NONE if refusal is None else ErrorCode.INVALID_REQUEST,
                error_message=truncate_message(refusal),
                entity=[
                    alter_client_quotas.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
            )
            for entity, refusal in results.items()
        ]
    )


ALTER_CLIENT_QUOTAS = ServedApi(
    messages=ALTER_CLIENT_QUOTAS_MESSAGES,
    versions=(0, 1),
    requires={AclResource.CLUSTER: AclOperation.ALTER_CONFIGS},
    needs_controller=True,
    answer=_alter_client_quotas,
)


#: How a component of the request selects entities: by name, by the default, or by the type alone.
_EXACT, _DEFAULT, _SPECIFIED = range(3)


def _filter(request: DescribeClientQuotasRequest) -> QuotaFilter:
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for component in request.components:
        kind, how, match = component.entity_type, component.match_type, component.match
        error = None
        if not kind:
            error = "Invalid empty entity type."
        elif kind in exact or kind in types:
            error = f"Entity type {kind} cannot appear more than once in the filter."
        elif kind not in (USER, CLIENT_ID, IP):
            raise ControllerError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        elif how not in (_EXACT, _DEFAULT, _SPECIFIED):
            error = f"Unknown match type {how}"
        elif (match is None) == (how == _EXACT):
            error = f"Match type {how} does not go with match {match!r}."
        if error is not None:
            raise ControllerError(ErrorCode.INVALID_REQUEST, error)
        if how == _SPECIFIED:
            types.add(kind)
        else:
            exact[kind] = match
    if IP in (types | exact.keys()) and len(types) + len(exact) > 1:
        raise ControllerError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return QuotaFilter(exact, frozenset(types), request.strict)


def _describe_client_quotas(
    broker: BrokerApi, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        wanted = _filter(request)
    except ControllerError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=truncate_message(str(error)), entries=None
        )
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in broker.metadata.client_quotas.items()
            if wanted.matches(entity)
        ]
    )


DESCRIBE_CLIENT_QUOTAS = ServedApi(
    messages=DESCRIBE_CLIENT_QUOTAS_MESSAGES,
    versions=(0, 1),
    requires={AclResource.CLUSTER: AclOperation.DESCRIBE_CONFIGS},
    answer=_describe_client_quotas,
)
