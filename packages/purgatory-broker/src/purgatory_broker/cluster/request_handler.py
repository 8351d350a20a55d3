"""A client's request at a node: recorded, met by faults, intercepted or handled by its API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.partial_errors import split_errors
from purgatory_broker.api.registry import APIS, handle
from purgatory_broker.api.served_api import Q, ServedApi
from purgatory_broker.cluster.intercepted_request import InterceptedRequest
from purgatory_broker.cluster.interception import Interceptions
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.replication.recorder import Recorder
from purgatory_broker.request_context import RequestContext
from purgatory_broker.server.faults import FaultFilter, Faults


@dataclass(slots=True, kw_only=True, eq=False)
class RequestHandler:
    broker: BrokerApi
    actions: ActionQueue
    faults: Faults
    interceptions: Interceptions
    recorder: Recorder | None
    is_stopped: Callable[[], bool]

    def handle(self, context: RequestContext, request: Any) -> None:
        api = APIS[context.header.api.key]
        if context.header.is_supported:
            if self.recorder is not None and api.recorded_timeout_ms is not None:
                timeout_ms = api.recorded_timeout_ms(request)
                self.recorder.request(self.broker.node_id, context, timeout_ms)
            if self.faults.needs_subjects(api):
                context.subjects = api.subjects(self.broker, request)
            if self.faults.needs_request(api):
                context.request = request
            interceptions = self.interceptions.matching(api)
            if interceptions:
                intercepted = InterceptedRequest(
                    self.broker, api, context, request, self._handle_intercepted
                )
                self.interceptions.run(interceptions, context, intercepted)
                return
        self._handle(api, context, request)

    def refuse(self, context: RequestContext, request: Any, code: ErrorCode) -> None:
        api = APIS[context.header.api.key]
        context.reply(api.error_response(request, code, context.version))

    def _handle_intercepted(self, context: RequestContext, request: Any) -> None:
        # A function may take so long that the node has stopped in the meantime.
        if not self.is_stopped():
            self._handle(APIS[context.header.api.key], context, request)

    def _handle(self, api: ServedApi[Q, Any], context: RequestContext, request: Q) -> None:
        if (
            self.faults.has_request_errors
            and context.header.is_supported
            and api.tells_errors(request, context.version)
        ):
            subjects = partial(api.subjects, self.broker, request)
            found = self.faults.take_request_error(self.broker.node_id, context, subjects, request)
            if found is not None:
                rest = self._fail(api, context, request, *found)
                if rest is None:
                    return
                request = rest
        with self.actions:
            handle(self.broker, api, context, request)

    def _fail(
        self,
        api: ServedApi[Q, Any],
        context: RequestContext,
        request: Q,
        code: ErrorCode,
        only: FaultFilter,
    ) -> Q | None:
        """Answer with an error; or return what is to be handled, if some partitions fail only."""
        parts = None
        if only.topic is not None:
            parts = split_errors(
                self.broker, api, request, context.version, code, only.names_partition
            )
        if parts is None:
            context.reply(api.error_response(request, code, context.version))
            return None
        rest: Q = parts[0]
        merge, send = parts[1], context.send
        context.changes_response = True
        context.send = lambda context, response: send(context, merge(response))
        return rest
