"""Functions of a test that see, answer, delay, change or drop requests and responses."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any, TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.cluster.cluster_errors import ClusterError, UnseenErrors, raise_first
from purgatory_broker.cluster.function_tasks import FunctionCall, FunctionTasks, tasks_of
from purgatory_broker.cluster.intercepted_request import InterceptedRequest, Unanswered
from purgatory_broker.request_context import RequestContext
from purgatory_broker.server.faults import Fault, FaultDescription, FaultFilter, Faults
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)

#: Seconds for functions to end that the stop of the cluster has cancelled.
_CANCEL_TIMEOUT = 5.0

#: Called with an InterceptedRequest. Returns a response, an `Unanswered`, or None; or an awaitable
#: of one of these.
InterceptFunction: TypeAlias = Callable[[InterceptedRequest], Any]


class Interception:
    """A function that intercepts requests, until `remove` or the end of its `with` block.

    The block and `remove` raise the first exception that the function has raised, of whatever kind,
    so that `pytest.fail()` in the function fails the test. An exception that leaves the block
    becomes its context. What nobody has seen until then, such as an exception after the block's
    end, is raised when the cluster stops.

    A coroutine function is cancelled when its client goes, or when the cluster stops or is reset.
    What it would have checked is not checked then, which is a ClusterError, raised in the same
    way. It is none while the function awaits `handle()`, whose response does not come, nor with
    `may_be_cancelled`. A function that catches the CancelledError and returns was not cancelled.

    Attributes:
        id: as in `faults`.
        hits: the number of requests that the function was called with.
    """

    def __init__(
        self,
        number: int,
        api: ServedApi[Any, Any] | None,
        function: InterceptFunction,
        on_error: Callable[[UnseenErrors], None],
        *,
        may_be_cancelled: bool,
    ) -> None:
        if not callable(function):
            raise InvalidArgumentError("function", "callable", function)
        if not isinstance(may_be_cancelled, bool):
            raise InvalidArgumentError("may_be_cancelled", "True or False", may_be_cancelled)
        self.id = number
        self.hits = 0
        self._errors: list[BaseException] = []
        self._unseen = UnseenErrors()
        self._num_cancelled = 0
        self._unseen_cancelled = UnseenErrors()
        self._may_be_cancelled = may_be_cancelled
        self._on_error = on_error
        self._error_log = ErrorLog(logger)
        self._api = api
        #: None from the end on: a shared cluster's list of interceptions keeps no function.
        self._function: InterceptFunction | None = function

    @property
    def is_removed(self) -> bool:
        return self._function is None

    @property
    def errors(self) -> list[BaseException]:
        """What the function has raised, which then counts as seen and is not raised again.

        A request whose function fails gets UNKNOWN_SERVER_ERROR.
        """
        list(self._unseen.take())
        return list(self._errors)

    @property
    def cancelled(self) -> int:
        """How many times the function was cancelled half way, which then counts as seen."""
        list(self._unseen_cancelled.take())
        return self._num_cancelled

    def remove(self) -> None:
        """Intercept no further request. Any thread may call this.

        Raises:
            BaseException: the first that the function has raised, and nobody has seen.
            ClusterError: the function was cancelled half way.
        """
        self.end()
        raise_first(self._take_unseen())

    def _take_unseen(self) -> list[BaseException]:
        return [*self._unseen.take(), *self._unseen_cancelled.take()]

    def end(self) -> None:
        """Intercept no further request; what the function has raised stays unseen."""
        self._function = None

    def __enter__(self) -> Interception:
        if self.is_removed:
            raise ClusterError("the interception was removed; call intercept for another one")
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.end()
        raise_first(self._take_unseen(), error)

    def matches(self, api: ServedApi[Any, Any]) -> bool:
        """Return whether requests of an API are intercepted."""
        return not self.is_removed and self._api in (None, api)

    async def answer(self, request: InterceptedRequest) -> Any:
        """Call the function.

        Returns:
            Its answer; None if it was removed. If it fails, the error response, or DISCONNECT if it
            has changed the request so that there is none.

        Raises:
            CancelledError: the client has gone, or the cluster stops.
            KeyboardInterrupt: the user has pressed Ctrl-C, which ends the loop of an AsyncCluster.
        """
        task = asyncio.current_task()
        assert task is not None
        function = self._function
        if function is None:  # It was removed just now.
            return None
        call = FunctionCall(
            lambda: request.is_waiting_for_response, partial(self._note_cancelled_task, request)
        )
        try:
            with tasks_of(call):
                answer = function(request)
                return await answer if inspect.isawaitable(answer) else answer
        except asyncio.CancelledError as error:
            if request.is_cancelled:
                if request.is_cancelled_half_way:
                    who = f"the function that intercepts {request.api}"
                    self._note_half_way(
                        who, "its client has gone or the cluster has stopped", error
                    )
                raise
            failure = ClusterError(f"the function that intercepts {request.api} was cancelled")
            failure.__cause__ = error
            return self._failed(request, failure)
        except KeyboardInterrupt as error:
            if threading.current_thread() is threading.main_thread():
                raise
            return self._failed(request, error)
        except BaseException as error:
            if isinstance(error, GeneratorExit) and _task_that_runs() is not task:
                raise  # The task is dropped, without a step.
            return self._failed(request, error)

    def _note_cancelled_task(self, request: InterceptedRequest) -> None:
        """Note that a task which the function has started was cancelled half way."""
        who = f"a task of the function that intercepts {request.api}"
        self._note_half_way(who, "the cluster has stopped, or ended its functions", None)

    def _note_half_way(self, who: str, why: str, cancelled: BaseException | None) -> None:
        self._num_cancelled += 1
        if not self._may_be_cancelled:
            error = ClusterError(
                f"{who} was cancelled half way, as {why}; intercept(..., may_be_cancelled=True) "
                "allows that"
            )
            error.__cause__ = cancelled  # whose traceback says where
            self._unseen_cancelled.add(error)
            self._on_error(self._unseen_cancelled)

    def _failed(self, request: InterceptedRequest, error: BaseException) -> Any:
        self.fail(request.api, error)
        try:
            return request.error_response(ErrorCode.UNKNOWN_SERVER_ERROR)
        except Exception as no_response:
            self._error_log.log(no_response, "the request has no error response")
            return Unanswered.DISCONNECT

    def fail(self, api: str, error: BaseException) -> None:
        """Keep what the function has raised, or what its answer has caused."""
        self._error_log.log(error, "the function that intercepts %s requests failed", api)
        self._errors.append(error)
        self._unseen.add(error)
        self._on_error(self._unseen)

    def describe(self) -> FaultDescription:
        """Return the interception as the command `faults` reports it."""
        return Fault(
            id=self.id,
            api=self._api,
            kind="intercept",
            times=0 if self.is_removed else None,
            hits=self.hits,
            filter=FaultFilter(),
        ).describe()


def _task_that_runs() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # There is no running loop.
        return None


class Interceptions:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        faults.on_error = self.add_error_of_task
        self._all: list[Interception] = []
        #: Those that were removed, without what they refer to.
        self._over: list[FaultDescription] = []
        #: The functions that run, with their requests.
        self._tasks: dict[asyncio.Task[None], InterceptedRequest] = {}
        #: Of functions that have failed since the last `take_unseen`, also of removed ones.
        self._unseen: deque[UnseenErrors] = deque()
        #: What tasks and callbacks of functions have raised, as far as the event loop has noted it.
        self._of_tasks = UnseenErrors()
        #: The tasks of functions, if the event loop is the cluster's own.
        self.function_tasks = FunctionTasks()

    def add(
        self,
        api: ServedApi[Any, Any] | None,
        function: InterceptFunction,
        *,
        may_be_cancelled: bool = False,
    ) -> Interception:
        made = Interception(
            next(self._faults.ids),
            api,
            function,
            self._unseen.append,
            may_be_cancelled=may_be_cancelled,
        )
        kept = []
        for interception in self._all:
            if interception.is_removed:
                self._over.append(interception.describe())
            else:
                kept.append(interception)
        self._all = [*kept, made]
        return made

    def clear(self) -> None:
        """Remove all interceptions; what their functions have raised stays unseen."""
        for interception in self._all:
            interception.end()
        self._all.clear()
        self._over.clear()

    @property
    def is_calling(self) -> bool:
        """Whether the caller is a function that intercepts a request."""
        return _task_that_runs() in self._tasks

    def cancel(self) -> None:
        """End the functions that are running, since the cluster stops."""
        for task, request in self._tasks.items():
            request.cancel_function(task)

    async def wait_cancelled(self) -> None:
        """Wait until the cancelled functions have ended, then cancel the tasks that they leave."""
        if self._tasks:
            _, running = await asyncio.wait(self._tasks, timeout=_CANCEL_TIMEOUT)
            for task in running:
                logger.warning("a function given to intercept did not end: %s", task)
        await self.function_tasks.cancel(_CANCEL_TIMEOUT)

    def add_error_of_task(self, error: BaseException) -> None:
        """Keep what a task, a callback or a predicate has raised. Any thread may call this."""
        self._of_tasks.add(error)
        self._unseen.append(self._of_tasks)

    def take_unseen(self) -> list[BaseException]:
        """Return what functions have raised and nobody has seen. Any thread may call this."""
        errors: list[BaseException] = []
        while self._unseen:
            try:
                errors += self._unseen.popleft().take()
            except IndexError:  # Another thread has taken the last one.
                break
        errors += self.function_tasks.take_errors(lambda: not self._tasks)
        return errors

    def describe(self) -> list[FaultDescription]:
        return [*self._over, *(interception.describe() for interception in self._all)]

    def matching(self, api: ServedApi[Any, Any]) -> list[Interception]:
        return [interception for interception in self._all if interception.matches(api)]

    def run(
        self,
        interceptions: list[Interception],
        context: RequestContext,
        request: InterceptedRequest,
    ) -> None:
        task = asyncio.get_running_loop().create_task(
            self._answer(interceptions, request), context=Context()
        )
        self._tasks[task] = request
        task.add_done_callback(self._tasks.pop)

        def cancel() -> None:
            request.cancel_function(task)
            request.cancel()

        context.on_cancel = cancel

    async def _answer(self, interceptions: list[Interception], request: InterceptedRequest) -> None:
        answer = None
        called = interceptions[0]
        try:
            for called in interceptions:
                if called.is_removed:  # Such as by one that has seen the request first.
                    continue
                called.hits += 1
                self._faults.on_hit(called.id)
                answer = await called.answer(request)
                if answer is not None or request.is_handled:
                    break
            if answer is None:
                answer = await request.handle()
            if request.failure is not None:
                called.fail(request.api, request.failure)
            request.finish(answer)
        except Exception as error:
            # The broker can't handle what the function has made of the request, or of its answer.
            called.fail(request.api, error)
            request.finish(Unanswered.DISCONNECT)
