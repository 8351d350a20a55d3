"""Functions of a test that see, answer, delay, change or drop requests and responses."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from types import TracebackType
from typing import Any, TypeAlias

from request_purgatory._native.failsafe import ErrorLog
from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.registry import decode
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext, RequestSubjects
from request_purgatory.broker.server.faults import FaultDescription, Faults, error_code
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)


class Unanswered(Enum):
    """What a function returns for a request that is to have no response."""

    #: The request has no response, and no later one of the connection is handled.
    DROP = "drop"
    #: The connection is closed.
    DISCONNECT = "disconnect"


#: Called with an InterceptedRequest. Returns a response, an `Unanswered`, or None; or an awaitable
#: of one of these.
InterceptFunction: TypeAlias = Callable[["InterceptedRequest"], Any]


class InterceptedRequest:
    """A request that a function intercepts before the broker handles it.

    Attributes:
        api: Kafka's name of the API.
        version: the version of the request.
        node: the number of the node that received it.
        client_id: the client's id.
        client_host: the client's address, as in "/127.0.0.1".
        request: the decoded request, with the fields of Kafka's message; the broker handles it with
            the function's changes.
    """

    def __init__(
        self,
        broker: BrokerApi,
        api: ServedApi[Any],
        context: RequestContext,
        request: Any,
        handle: Callable[[RequestContext, Any], None],
    ) -> None:
        self.api = api.name
        self.version = context.version
        self.node = broker.node_id
        self.client_id = context.client.client_id
        self.client_host = context.client.client_host
        self.request = request
        self._served_api = api
        self._context = context
        self._handle = handle
        self._broker = broker
        self._inner: RequestContext | None = None
        self._response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def subjects(self) -> RequestSubjects:
        """The `topics`, `partitions` and `groups` that the request names, with topic ids resolved.

        A fetch names the partitions of its session as well.
        """
        return self._served_api.subjects(self._broker, self._decode())

    @property
    def is_handled(self) -> bool:
        """Whether `handle` was called."""
        return self._inner is not None

    async def handle(self) -> Any:
        """Let the broker handle the request, as far as it has not yet.

        Returns:
            The response, with the fields of Kafka's message; None for a request without one
            (Produce with acks=0). The client gets it with the function's changes.
        """
        if self._inner is None:
            # The handler's own context, since the function may answer before the handler does.
            self._inner = replace(self._context, send=self._take_response, on_cancel=None)
            try:
                self._handle(self._inner, self.request)
            except WireError as error:
                self._context.close_connection(str(error))
        return await asyncio.shield(self._response)

    def error_response(self, error: str | int) -> Any:
        """Return a response that reports an error for every part of the request.

        Args:
            error: Kafka's name of the error, such as "NOT_ENOUGH_REPLICAS", or its number.

        Raises:
            InvalidArgumentError: the error is unknown.
            WireError: the function has broken the request.
        """
        return self._served_api.error_response(self._decode(), error_code(error))

    def _decode(self) -> Any:
        """Return what the broker's handler would get of the request in its present state."""
        return decode(self._served_api, self.request, self._context)

    def _take_response(self, _context: RequestContext, response: Any) -> None:
        if not self._response.done():
            self._response.set_result(response)

    def cancel(self) -> None:
        """Cancel what the request waits for in the broker, if anything."""
        if self._inner is not None and not self._inner.answered:
            self._inner.cancel()

    def finish(self, answer: Any) -> None:
        """Send the answer of a function, or do what it asks for instead.

        Args:
            answer: a response, or an `Unanswered`; None for a request without a response.
        """
        self.cancel()
        if answer is Unanswered.DISCONNECT:
            self._context.close_connection("an intercepted request is to be disconnected")
        elif answer is not Unanswered.DROP:
            if self._inner is not None:
                self._context.throttle_ms = self._inner.throttle_ms
            self._context.reply(answer)


class Interception:
    """A function that intercepts requests, until `remove` or the end of its `with` block.

    The block raises the first exception that the function has raised, unless it fails itself.

    Attributes:
        id: as in `faults`.
        hits: the number of requests that the function was called with.
        errors: what the function has raised; such a request gets UNKNOWN_SERVER_ERROR.
    """

    def __init__(
        self, number: int, api: ServedApi[Any] | None, function: InterceptFunction
    ) -> None:
        if not callable(function):
            raise InvalidArgumentError("function", "callable", function)
        self.id = number
        self.hits = 0
        self.errors: list[Exception] = []
        self.is_removed = False
        self._error_log = ErrorLog(logger)
        self._api = api
        self._function = function

    def remove(self) -> None:
        """Intercept no further request. Any thread may call this."""
        self.is_removed = True

    def __enter__(self) -> Interception:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()
        if error is None and self.errors:
            raise self.errors[0]

    def matches(self, api: ServedApi[Any]) -> bool:
        """Return whether requests of an API are intercepted."""
        return not self.is_removed and self._api in (None, api)

    async def answer(self, request: InterceptedRequest) -> Any:
        """Call the function.

        Returns:
            Its answer. If it fails, the error response, or DISCONNECT if it has changed the request
            so that there is none.
        """
        try:
            answer = self._function(request)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            self._error_log.log(
                error, "the function that intercepts %s requests failed", request.api
            )
            self.errors.append(error)
            try:
                return request.error_response(ErrorCode.UNKNOWN_SERVER_ERROR)
            except Exception as no_response:
                self._error_log.log(no_response, "the request has no error response")
                return Unanswered.DISCONNECT

    def describe(self) -> FaultDescription:
        """Return the interception as the command `faults` reports it."""
        return {
            "id": self.id,
            "api": None if self._api is None else self._api.name,
            "kind": "intercept",
            "error": None,
            "times": 0 if self.is_removed else -1,
            "hits": self.hits,
            "node": None,
            "topic": None,
            "partition": None,
            "group": None,
            "client_id": None,
        }


class Interceptions:
    """The interceptions of a cluster, in the order in which they were added."""

    def __init__(self, faults: Faults) -> None:
        """Create an empty collection.

        Args:
            faults: gives the ids, and is notified of each hit.
        """
        self._faults = faults
        self._all: list[Interception] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, api: ServedApi[Any] | None, function: InterceptFunction) -> Interception:
        """Intercept the requests of an API; None is every API.

        Returns:
            The interception.

        Raises:
            InvalidArgumentError: the function is not callable.
        """
        made = Interception(next(self._faults.ids), api, function)
        self._all.append(made)
        return made

    def clear(self) -> None:
        """Remove all interceptions."""
        for each in self._all:
            each.remove()
        self._all.clear()

    def cancel(self) -> None:
        """End the functions that are running, since the cluster stops."""
        for task in self._tasks:
            task.cancel()

    def describe(self) -> list[FaultDescription]:
        """Return all interceptions with their hits."""
        return [each.describe() for each in self._all]

    def matching(self, api: ServedApi[Any]) -> list[Interception]:
        """Return the interceptions of an API's requests."""
        return [each for each in self._all if each.matches(api)] if self._all else []

    def run(
        self,
        interceptions: list[Interception],
        context: RequestContext,
        request: InterceptedRequest,
    ) -> None:
        """Let functions answer a request, one after the other until one of them does.

        Args:
            interceptions: the interceptions with the functions.
            context: of the request.
            request: the request.
        """
        task = asyncio.get_running_loop().create_task(self._answer(interceptions, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            request.cancel()
            task.cancel()

        context.on_cancel = cancel

    async def _answer(self, interceptions: list[Interception], request: InterceptedRequest) -> None:
        answer = None
        for each in interceptions:
            each.hits += 1
            self._faults.on_hit(each.id)
            answer = await each.answer(request)
            if answer is not None or request.is_handled:
                break
        if answer is None:
            answer = await request.handle()
        request.finish(answer)
