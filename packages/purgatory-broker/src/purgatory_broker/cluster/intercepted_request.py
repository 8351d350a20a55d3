"""A request as the function that intercepts it sees and answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any, TypeVar

from purgatory_broker._wire.messages import encode_response
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.cluster.function_tasks import tasks_of
from purgatory_broker.request_context import RequestContext, RequestSubjects
from purgatory_broker.server.faults import error_code
from request_purgatory.errors import InvalidArgumentError

T = TypeVar("T")


class Unanswered(Enum):
    """What a function returns for a request that is to have no response."""

    #: The request has no response, and no later one of the connection is handled.
    DROP = "drop"
    #: The connection is closed.
    DISCONNECT = "disconnect"


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
        api: ServedApi[Any, Any],
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
        #: Whether the function's task was cancelled from outside, and where the function was then.
        self.is_cancelled = False
        self.is_cancelled_half_way = False
        #: The calls of `handle` that wait for the broker's response.
        self._num_waiting = 0
        self._response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        #: What the handler has raised, which is the function's doing, and is logged.
        self.failure: Exception | None = None

    @property
    def subjects(self) -> RequestSubjects:
        """The `topics`, `partitions`, `groups` and `transactional_ids` that the request names.

        Topic ids are resolved.
        A fetch names the partitions of its session as well.
        """
        return self._unbroken(lambda: self._served_api.subjects(self._broker, self.request))

    @property
    def is_handled(self) -> bool:
        """Whether `handle` was called."""
        return self._inner is not None

    @property
    def is_waiting_for_response(self) -> bool:
        """Whether `handle` is awaited, and the broker has not responded."""
        return bool(self._num_waiting) and not self._response.done()

    async def handle(self) -> Any:
        """Let the broker handle the request, as far as it has not yet.

        Returns:
            The response, with the fields of Kafka's message; None for a request without one
            (Produce with acks=0). The client gets it with the function's changes.

        Raises:
            WireError: the function has broken the request.
        """
        if self._inner is None:
            # The handler's own context, since the function may answer before the handler does.
            self._inner = replace(
                self._context,
                send=self._take_response,
                changes_response=True,
                on_cancel=None,
                on_failure=self._note_failure,
            )
            try:
                with tasks_of(None):
                    self._handle(self._inner, self.request)
            except WireError as error:
                self._response.set_exception(error)  # For each call of this.
        self._num_waiting += 1
        try:
            return await asyncio.shield(self._response)
        finally:
            self._num_waiting -= 1

    def error_response(self, error: str | int) -> Any:
        """Return a response that reports an error for every part of the request.

        Args:
            error: Kafka's name of the error, such as "NOT_ENOUGH_REPLICAS", or its number.

        Raises:
            InvalidArgumentError: the error is unknown.
            WireError: the function has broken the request.
        """
        code = error_code(error)
        return self._unbroken(
            lambda: self._served_api.error_response(self.request, code, self.version)
        )

    def _unbroken(self, of_request: Callable[[], T]) -> T:
        try:
            return of_request()
        except Exception as error:  # It raises whatever the function's changes lead to.
            raise WireError(f"the {self.api} request has been broken: {error!r}") from error

    def _note_failure(self, error: Exception) -> None:
        self.failure = error

    def _take_response(self, _context: RequestContext, response: Any) -> None:
        if not self._response.done():
            self._response.set_result(response)

    def cancel_function(self, task: asyncio.Task[Any]) -> None:
        """Cancel the task of the function; further calls do nothing.

        They would interrupt what the function does when it is cancelled.
        """
        if not self.is_cancelled:
            self.is_cancelled = True
            # In `handle` it has seen all that there is: the broker has not responded.
            self.is_cancelled_half_way = not self.is_waiting_for_response
            task.cancel()

    def cancel(self) -> None:
        """Cancel what the request waits for in the broker, if anything."""
        if self._inner is not None and not self._inner.answered:
            self._inner.cancel()

    def finish(self, answer: Any) -> None:
        """Send the answer of a function, or do what it asks for instead.

        Args:
            answer: a response, or an `Unanswered`; None for a request without a response.

        Raises:
            InvalidArgumentError: the answer is none of these.
        """
        if not (answer is None or isinstance(answer, Unanswered)):
            self._check_response(answer)
        self.cancel()
        if answer is Unanswered.DISCONNECT:
            self._context.close_connection("an intercepted request is to be disconnected")
        elif answer is not Unanswered.DROP:
            if self._inner is not None:
                self._context.throttle_ms = self._inner.throttle_ms
            self._context.reply(answer)

    def _check_response(self, answer: Any) -> None:
        try:
            encode_response(self._context.header, answer)
        except Exception as error:  # It raises whatever the fields lead to.
            shown = "(hidden)" if self._served_api.secrets else answer
            raise InvalidArgumentError(
                "the answer of a function given to intercept",
                f"an Unanswered, None, or a response with the fields of Kafka's {self.api}Response",
                shown,
            ) from error
