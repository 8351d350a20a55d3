"""The handler of each API."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from request_purgatory.broker.api import (
    configs,
    fetch,
    groups,
    metadata,
    offsets,
    produce,
    topics,
)
from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.error_response import error_response
from request_purgatory.broker.wire.errors import WireError

logger = logging.getLogger(__name__)

#: Handles a request: the broker, the request's context and the request.
Handler: TypeAlias = Callable[[BrokerApi, RequestContext, Any], None]

HANDLERS: dict[int, Handler] = {
    apis.PRODUCE.key: produce.produce,
    apis.INIT_PRODUCER_ID.key: produce.init_producer_id,
    apis.FETCH.key: fetch.fetch,
    apis.LIST_OFFSETS.key: offsets.list_offsets,
    apis.DELETE_RECORDS.key: offsets.delete_records,
    apis.METADATA.key: metadata.metadata,
    apis.API_VERSIONS.key: metadata.api_versions,
    apis.DESCRIBE_CLUSTER.key: metadata.describe_cluster,
    apis.FIND_COORDINATOR.key: groups.find_coordinator,
    apis.JOIN_GROUP.key: groups.join_group,
    apis.SYNC_GROUP.key: groups.sync_group,
    apis.HEARTBEAT.key: groups.heartbeat,
    apis.LEAVE_GROUP.key: groups.leave_group,
    apis.OFFSET_COMMIT.key: groups.offset_commit,
    apis.OFFSET_FETCH.key: groups.offset_fetch,
    apis.LIST_GROUPS.key: groups.list_groups,
    apis.DESCRIBE_GROUPS.key: groups.describe_groups,
    apis.DELETE_GROUPS.key: groups.delete_groups,
    apis.CREATE_TOPICS.key: topics.create_topics,
    apis.DELETE_TOPICS.key: topics.delete_topics,
    apis.CREATE_PARTITIONS.key: topics.create_partitions,
    apis.DESCRIBE_CONFIGS.key: configs.describe_configs,
    apis.INCREMENTAL_ALTER_CONFIGS.key: configs.incremental_alter_configs,
    apis.ALTER_CONFIGS.key: configs.alter_configs,
    apis.OFFSET_FOR_LEADER_EPOCH.key: offsets.offset_for_leader_epoch,
    apis.OFFSET_DELETE.key: groups.offset_delete,
}


def handle(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a request, now or later.

    If the handler fails, the error is logged, and the response is UNKNOWN_SERVER_ERROR.

    Args:
        node: The broker.
        context: The request's context, which takes the response.
        request: The decoded request; None for an unsupported version of ApiVersions.

    Raises:
        WireError: The request exceeds a limit, or no error response can be built.
        Exception: The handler failed after it had sent the response.
    """
    api = context.header.api
    try:
        HANDLERS[api.key](node, context, request)
    except WireError:
        raise
    except Exception as error:
        if context.answered:
            raise
        logger.exception("node %d can't handle a %s request: %r", node.node_id, api.name, request)
        try:
            response = error_response(api, request, ErrorCode.UNKNOWN_SERVER_ERROR)
        except Exception:
            raise WireError(
                f"the {api.name} request failed and has no error response: {error!r}"
            ) from error
        context.reply(response)
