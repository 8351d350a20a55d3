"""A cluster on its own thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, Unpack

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.cluster.cluster_client import ClusterClient
from request_purgatory.broker.cluster.errors import ClusterError
from request_purgatory.broker.cluster.interception import InterceptFunction, Interception
from request_purgatory.broker.cluster.run_command import command_timeout, run_command
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.settings import ClusterOptions, settings_from

#: Seconds for the start, for the stop, and for each command beside its own timeout.
_TIMEOUT = 60.0


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
        self._record = None if record is None else Path(record)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster: AsyncCluster | None = None
        self._stopping: asyncio.Event | None = None
        self._bootstrap_servers = ""
        #: The commands that run, and whether any may begin, which the lock guards.
        self._calls: dict[Future[Any], Coroutine[Any, Any, Any]] = {}
        self._is_running = False
        self._calls_lock = threading.Lock()

    # -- start and stop

    def start(self) -> Cluster:
        """Start the cluster, as entering the `with` block does.

        Returns:
            The cluster itself.

        Raises:
            InvalidArgumentError: another running cluster uses the data directory.
            OSError: a port is in use.
            RuntimeError: the cluster was started before.
        """
        if self._thread is not None:
            raise RuntimeError("a cluster can be started once only; create another one")
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="purgatory-cluster", daemon=True
        )
        self._thread.start()
        try:
            started.result(_TIMEOUT)
        except BaseException:
            self._thread.join(_TIMEOUT)
            raise
        return self

    def close(self) -> None:
        """Stop all nodes and the thread. Further calls do nothing."""
        if self._thread is None or not self._thread.is_alive():
            return
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_TIMEOUT)

    def _run(self, started: Future[None]) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._main(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            with self._calls_lock:
                self._is_running = False
                calls, self._calls = self._calls, {}
            for future, command in calls.items():
                # A command that the loop has not begun would leave its caller waiting.
                future.cancel()
                command.close()

    async def _main(self, started: Future[None]) -> None:
        recorder = None if self._record is None else Recorder(self._record)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            async with AsyncCluster(self.settings, recorder=recorder) as self._cluster:
                self._bootstrap_servers = self._cluster.bootstrap_servers
                self._is_running = True
                started.set_result(None)
                await self._stopping.wait()
        finally:
            if recorder is not None:
                recorder.close()

    # -- commands

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, "host:port,host:port", for clients' `bootstrap_servers`."""
        return self._bootstrap_servers

    def call(self, command: str, /, **arguments: Any) -> Any:
        """Run a command by its name, as in `COMMANDS`.

        Returns:
            The command's result.

        Raises:
            ClusterError: the cluster is not running, or refused the command.
        """
        limit = _TIMEOUT + command_timeout(arguments)
        return self._submit(
            command, lambda cluster: run_command(cluster, command, arguments), limit
        )

    def intercept(self, api: str | None, function: InterceptFunction) -> Interception:
        """Call a function with each request of an API; see `ClusterCommands.intercept`.

        Args:
            api: Kafka's name of the API, such as "Produce"; None is every API.
            function: called on the cluster's thread, with an `InterceptedRequest`. It must not
                block, nor wait for a client: the cluster stands still while it runs.

        Returns:
            The interception, with its hits; `remove()` or the end of its `with` block ends it.

        Raises:
            ClusterError: the cluster is not running.
            InvalidArgumentError: no API has this name, or the function is not callable.
        """

        async def intercept(cluster: AsyncCluster) -> Interception:
            return cluster.intercept(api, function)

        found: Interception = self._submit("intercept", intercept, _TIMEOUT)
        return found

    def _submit(
        self,
        command: str,
        start: Callable[[AsyncCluster], Coroutine[Any, Any, Any]],
        limit: float,
    ) -> Any:
        """Run a coroutine on the cluster's loop.

        Args:
            command: its name, for errors.
            start: returns the coroutine.
            limit: seconds.

        Returns:
            Its result.

        Raises:
            ClusterError: the cluster is not running.
        """
        # A forked child has no thread, and maybe a lock that nobody releases.
        if self._thread is None or not self._thread.is_alive():
            raise ClusterError(f"{command}: the cluster is not running")
        with self._calls_lock:
            if not self._is_running or self._cluster is None or self._loop is None:
                raise ClusterError(f"{command}: the cluster is not running")
            running = start(self._cluster)
            try:
                future = asyncio.run_coroutine_threadsafe(running, self._loop)
            except RuntimeError:  # the loop was closed just now
                running.close()
                raise ClusterError(f"{command}: the cluster has stopped") from None
            self._calls[future] = running
        try:
            return future.result(limit)
        except CancelledError:
            raise ClusterError(f"{command}: the cluster has stopped") from None
        finally:
            with self._calls_lock:
                self._calls.pop(future, None)
