"""A client's request at a node: recorded, met by faults, intercepted or handled by its API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.registry import APIS, decode, handle
from purgatory_broker.api.served_api import R, ServedApi
from purgatory_broker.cluster.intercepted_request import InterceptedRequest
from purgatory_broker.cluster.interception import Interceptions
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.replication.recorder import Recorder
from purgatory_broker.request_context import RequestContext
from purgatory_broker.server.faults import Faults
from purgatory_broker.wire.error_code import ErrorCode


class RequestHandler:
    def __init__(
        self,
        broker: BrokerApi,
        actions: ActionQueue,
        *,
        faults: Faults,
        interceptions: Interceptions,
        recorder: Recorder | None,
        is_stopped: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._actions = actions
        self._faults = faults
        self._interceptions = interceptions
        self._recorder = recorder
        self._is_stopped = is_stopped

    def handle(self, context: RequestContext, message: Any) -> None:
        api = APIS[context.header.api.key]
        request = decode(api, message, context)
        if context.header.is_supported:
            if self._recorder is not None and api.recorded_timeout_ms is not None:
                timeout_ms = api.recorded_timeout_ms(request)
                self._recorder.request(self._broker.node_id, context, timeout_ms)
            if self._faults.has_response_faults and self._faults.needs_subjects(api):
                context.subjects = api.subjects(self._broker, request)
            interceptions = self._interceptions.matching(api)
            if interceptions:
                intercepted = InterceptedRequest(
                    self._broker, api, context, message, self._handle_intercepted
                )
                self._interceptions.run(interceptions, context, intercepted)
                return
        self._handle(api, context, request)

    def refuse(self, context: RequestContext, message: Any, code: ErrorCode) -> None:
        api = APIS[context.header.api.key]
        context.reply(api.error_response(decode(api, message, context), code))

    def _handle_intercepted(self, context: RequestContext, message: Any) -> None:
        # A function may take so long that the node has stopped in the meantime.
        if not self._is_stopped():
            api = APIS[context.header.api.key]
            self._handle(api, context, decode(api, message, context))

    def _handle(self, api: ServedApi[R], context: RequestContext, request: R) -> None:
        if (
            self._faults.has_request_errors
            and context.header.is_supported
            and api.tells_errors(request, context.version)
        ):
            subjects = partial(api.subjects, self._broker, request)
            code = self._faults.take_request_error(self._broker.node_id, context, subjects)
            if code is not None:
                context.reply(api.error_response(request, code))
                return
        with self._actions:
            handle(self._broker, api, context, request)
