"""A cluster on its own thread of this process."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import nullcontext, suppress
from contextvars import Context
from pathlib import Path
from typing import Any, Unpack

from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.cluster.cluster_errors import ClusterError, raise_first
from purgatory_broker.cluster.function_tasks import tasks_of
from purgatory_broker.cluster.function_threads import FunctionThreads
from purgatory_broker.cluster.interception import InterceptFunction, Interception
from purgatory_broker.cluster.outcome import Outcome
from purgatory_broker.cluster.run_command import (
    checked_arguments,
    command_timeout,
    run_command,
    run_command_at_once,
)
from purgatory_broker.cluster_options import ClusterOptions, record_folder, settings_from
from purgatory_broker.replication.recorder import Recorder
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)

#: Seconds for the start, for the stop, and for each command beside its own timeout.
_TIMEOUT = 60.0
#: The clusters of this process that were started.
_started: weakref.WeakSet[Cluster] = weakref.WeakSet()


def started_clusters() -> list[Cluster]:
    """Return the clusters of this process that were started and are alive. Any thread may call it.

    One that runs is alive, even if nothing else refers to it.
    """
    while True:
        try:
            return list(_started)
        except RuntimeError:  # Another thread has started one meanwhile.
            pass


def raise_unseen_errors_of_all(during: BaseException | None) -> None:
    """Raise what functions of any of these clusters have raised, unless somebody has seen it.

    `during` is the test's own exception, which a skip does not replace.
    """
    errors = [error for cluster in started_clusters() for error in cluster.take_unseen_errors()]
    raise_first(errors, during)


class Cluster(ClusterClient):
    """A Kafka cluster for tests and development, on a thread of this process.

    `with Cluster(nodes=3) as cluster:` starts and stops it. Clients in the same process share the
    interpreter's lock with the cluster; `ClusterProcess` has its own interpreter.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        record: Path | str | None = None,
        **settings: Unpack[ClusterOptions],
    ) -> None:
        """Create a cluster; `start` or entering the `with` block starts it.

        Args:
            nodes: number of brokers, each on its own port of the loopback interface.
            record: a folder for a trace of the requests that wait, in the pipeline's schema.
            settings: fields of `ClusterSettings`: Kafka's names with underscores for dots.

        Raises:
            InvalidArgumentError: a setting's value is not allowed.
            TypeError: a setting is unknown.
        """
        self.settings = settings_from(nodes, settings)
        self._record = record_folder(record)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster: AsyncCluster | None = None
        self._stopping: asyncio.Event | None = None
        #: Whether the thread was asked to stop, maybe before it has a loop.
        self._is_stopping = False
        #: The commands that run, and whether any may begin. There is no lock, on which a signal
        #: handler's command would wait for the command that it has interrupted: each is entered
        #: before its caller looks whether the cluster runs, and the end takes out all after that.
        self._calls: dict[Outcome[Any], Coroutine[Any, Any, Any]] = {}
        self._is_running = False
        #: The end of the thread, and the process that it is of. `Thread.is_alive` and `join` take a
        #: thread for ended that runs on, if a signal handler raises in them (before Python 3.13).
        self._ended: Outcome[None] = Outcome()
        self._pid = 0
        #: What has ended the thread, until `close` raises it.
        self._failure: BaseException | None = None

    def _describe(self) -> str:
        if self._cluster is not None and self._is_running and self._has_thread:
            return self._cluster.describe()
        count = f"nodes={self.settings.nodes}"
        return f"{count}, {'not started' if self._thread is None else 'not running'}"

    # -- start and stop

    def start(self) -> Cluster:
        """Start the cluster, as entering the `with` block does.

        Returns:
            The cluster itself.

        Raises:
            InvalidArgumentError: another running cluster uses the data directory.
            OSError: a port is in use.
            RuntimeError: the cluster was started before.
            TimeoutError: the start takes more than a minute.
        """
        if self._thread is not None:
            raise RuntimeError("a cluster can be started once only; create another one")
        started: Outcome[None] = Outcome()
        self._pid = os.getpid()
        _started.add(self)
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="purgatory-cluster", daemon=True
        )
        try:
            self._thread.start()
            if not started.wait(_TIMEOUT):
                raise TimeoutError(f"the cluster did not start within {_TIMEOUT:g} s")
            started.take()
        except BaseException:  # The start has failed, or a signal handler has raised.
            self._ask_to_stop()
            if self._thread.ident is None:  # The system has no thread for it.
                self._ended.set(None)
            self._ended.wait(_TIMEOUT)
            raise
        return self

    def _ask_to_stop(self) -> None:
        self._is_stopping = True
        # Without a loop so far, the thread looks at the above when it has one.
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # the loop was closed just now
                self._loop.call_soon_threadsafe(self._stopping.set)

    def close(self) -> None:
        """Stop all nodes and the thread. Further calls do nothing.

        Raises:
            BaseException: a function given to `intercept` has raised it, and nobody has seen it.
            RecorderError: the trace of `record` could not be written.
            ClusterError: a function given to `intercept` called this, or blocks the thread.
        """
        if self._thread is None:
            return
        if self._is_own_thread:
            raise ClusterError("close: the cluster's own thread can't wait for its end")
        if self._has_thread:
            self._ask_to_stop()
            if not self._ended.wait(_TIMEOUT):
                raise ClusterError(f"close: the cluster's thread is busy for {_TIMEOUT:g} s")
            self._thread.join(_TIMEOUT)
        self._is_closed = True
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        # Of what has ended with the event loop.
        self.raise_unseen_errors()

    def end_functions(self) -> None:
        """Cancel the functions given to `intercept` that still run, as `close` does.

        No-op if the cluster is not running.

        Raises:
            ClusterError: a function given to `intercept` called this, or blocks the thread.
        """
        if self._is_own_thread:
            raise ClusterError("end_functions: a function given to intercept can't end itself")
        if self._is_running and self._has_thread:
            self._submit("end_functions", AsyncCluster.end_functions, _TIMEOUT)

    def raise_unseen_errors(self) -> None:
        raise_first(self.take_unseen_errors())

    def take_unseen_errors(self) -> list[BaseException]:
        """Return what `raise_unseen_errors` would raise, which then counts as seen."""
        return [] if self._cluster is None else self._cluster.take_unseen_errors()

    @property
    def _has_thread(self) -> bool:
        """Whether the thread runs in this process; a forked child has none."""
        return self._pid == os.getpid() and not self._ended.is_set

    @property
    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _run(self, started: Outcome[None]) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._main(started))
        except BaseException as error:
            if started.is_set:
                self._failure = error
                if not self._is_stopping:
                    _errors.log(error, "the cluster's thread has failed")
            else:
                started.fail(error)
        finally:
            self._is_running = False
            while self._calls:
                with suppress(KeyError):  # Its caller has taken out the last one.
                    self._end_call(*self._calls.popitem())
            # Nothing raises above: no signal handler is called on this thread.
            self._ended.set(None)

    async def _main(self, started: Outcome[None]) -> None:
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._note_error_of_task)
        self._loop.set_default_executor(FunctionThreads())
        if self._is_stopping:
            started.fail(CancelledError())
            return
        with nullcontext() if self._record is None else Recorder(self._record) as recorder:
            async with AsyncCluster(self.settings, recorder=recorder) as self._cluster:
                self._loop.set_task_factory(self._cluster.create_task)
                self._bootstrap_servers = self._cluster.bootstrap_servers
                self._is_running = True
                started.set(None)
                await self._stopping.wait()

    def _note_error_of_task(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what a task or a callback on this loop has raised, and nobody has seen.

        Errors of functions' tasks that somebody refers to come by `raise_unseen_errors`.
        """
        loop.default_exception_handler(context)
        error = context.get("exception")
        if not isinstance(error, BaseException) or self._cluster is None:
            return
        if "task" in context or "future" in context:
            note = "It was raised in a task of the cluster's event loop that nobody awaits."
        elif "handle" in context:
            note = "It was raised in a callback of the cluster's event loop."
        else:
            return
        error.add_note(note)
        self._cluster.add_error_of_task(error)

    # -- commands

    def call(self, command: str, /, **arguments: Any) -> Any:
        if self._is_own_thread:
            with tasks_of(None):
                return run_command_at_once(self._cluster_of_function(command), command, arguments)
        checked = checked_arguments(command, arguments)
        limit = _TIMEOUT + command_timeout(checked)
        return self._submit(command, lambda cluster: run_command(cluster, command, checked), limit)

    def intercept(
        self, api: str | None, function: InterceptFunction, *, may_be_cancelled: bool = False
    ) -> Interception:
        if self._is_own_thread:
            cluster = self._cluster_of_function("intercept")
            return cluster.intercept(api, function, may_be_cancelled=may_be_cancelled)

        async def intercept(cluster: AsyncCluster) -> Interception:
            return cluster.intercept(api, function, may_be_cancelled=may_be_cancelled)

        interception: Interception = self._submit("intercept", intercept, _TIMEOUT)
        return interception

    def _cluster_of_function(self, command: str) -> AsyncCluster:
        """Return the cluster, for a function given to `intercept`, on whose thread it runs."""
        if self._is_running and self._cluster is not None and self._cluster.is_calling_function:
            return self._cluster
        raise ClusterError(
            f"{command}: the cluster's own thread can't wait for the cluster; only a function "
            "given to intercept may run commands there"
        )

    def _submit(
        self, command: str, start: Callable[[AsyncCluster], Coroutine[Any, Any, Any]], limit: float
    ) -> Any:
        """Run a coroutine on the cluster's loop."""
        # A forked child has a copy of `_is_running`.
        if not self._is_running or not self._has_thread:
            raise self._not_running(command)
        assert self._cluster is not None
        assert self._loop is not None
        cluster, loop = self._cluster, self._loop
        running = start(cluster)
        outcome: Outcome[Any] = Outcome()
        tasks: list[asyncio.Task[Any]] = []

        def begin() -> None:
            if cluster.loop is None:  # The loop may end before the first step of a task.
                self._end_call(outcome, running)
            elif not outcome.is_set:
                tasks.append(loop.create_task(_set_outcome(running, outcome)))
                # One that is cancelled before its first step has not begun the command.
                tasks[0].add_done_callback(lambda _: running.close())

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        try:
            # Without the context variables of a function given to `intercept`.
            loop.call_soon_threadsafe(begin, context=Context())
        except RuntimeError:  # the loop was closed just now
            running.close()
            raise ClusterError(f"{command}: the cluster has stopped") from None
        try:
            self._calls[outcome] = running
            if not self._is_running and self._calls.pop(outcome, None) is not None:
                self._end_call(outcome, running)
            if outcome.wait(limit):
                return outcome.take()
        except CancelledError:
            raise ClusterError(f"{command}: the cluster has stopped") from None
        finally:
            self._calls.pop(outcome, None)
        with suppress(RuntimeError):  # the loop was closed just now
            loop.call_soon_threadsafe(cancel)
        raise ClusterError(
            f"{command}: no answer of the cluster for {limit:g} s; a function given to "
            "intercept that blocks its thread stops the cluster"
        )

    @staticmethod
    def _end_call(outcome: Outcome[Any], command: Coroutine[Any, Any, Any]) -> None:
        """End a command after the end of the cluster, which has maybe not begun it."""
        outcome.fail(CancelledError())
        command.close()

    def _not_running(self, command: str) -> ClusterError:
        failure = self._failure
        reason = "" if failure is None else f": it has failed with {failure!r}"
        return ClusterError(f"{command}: the cluster is not running{reason}")


async def _set_outcome(command: Coroutine[Any, Any, Any], outcome: Outcome[Any]) -> None:
    try:
        outcome.set(await command)
    except asyncio.CancelledError:
        outcome.fail(CancelledError())
        raise
    except BaseException as error:
        outcome.fail(error)
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
