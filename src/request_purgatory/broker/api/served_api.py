"""An API of the broker: what each API's file defines under the name `API`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.apis import Api
from request_purgatory.broker.wire.error_code import ErrorCode

#: Handles a request, now or later: the broker, the request's context, which takes the response, and
#: the decoded request. A handler does not change the request.
Handler: TypeAlias = Callable[[BrokerApi, RequestContext, Any], None]
#: Builds the response that reports an error for every part of a request, as `getErrorResponse` of
#: Kafka's request classes; None if the request gets no response.
ErrorResponse: TypeAlias = Callable[[Any, ErrorCode], Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedApi(Api):
    """An API with its handler.

    Attributes:
        handle: Handles a request of any version that is served.
        error_response: Builds the response to a request that is not handled, or whose handler
            fails.
        recorded_timeout_ms: Returns for how many milliseconds a request may wait for its response,
            for a recorded trace; None if such waits are not recorded.
    """

    handle: Handler
    error_response: ErrorResponse
    recorded_timeout_ms: Callable[[Any], int] | None = None
