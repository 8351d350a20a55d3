"""A client's request at a node: recorded, met by faults, intercepted or handled by its API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.registry import APIS, decode, handle
from request_purgatory.broker.api.served_api import R, ServedApi
from request_purgatory.broker.cluster.intercepted_request import InterceptedRequest
from request_purgatory.broker.cluster.interception import Interceptions
from request_purgatory.broker.deferred_actions import ActionQueue
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.server.faults import Faults
from request_purgatory.broker.wire.error_code import ErrorCode


class RequestHandler:
    """Handles the requests of a node's clients."""

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
        """Create a handler.

        Args:
            broker: what the handlers of APIs need.
            actions: the node's deferred notifications.
            faults: the injected faults of the cluster.
            interceptions: the functions that intercept the cluster's requests.
            recorder: records the requests that wait; None records none.
            is_stopped: returns whether the node has stopped.
        """
        self._broker = broker
        self._actions = actions
        self._faults = faults
        self._interceptions = interceptions
        self._recorder = recorder
        self._is_stopped = is_stopped

    def handle(self, context: RequestContext, message: Any) -> None:
        """Handle a request, now or later, unless a fault or a function answers it.

        Args:
            context: the request's context, which takes the response.
            message: the request's message; None for an unsupported version of ApiVersions.

        Raises:
            WireError: the request exceeds a limit.
        """
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
        """Answer a request with an error."""
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
