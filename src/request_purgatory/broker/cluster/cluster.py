"""A cluster on its own thread of this process."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Unpack

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.cluster.cluster_client import ClusterClient
from request_purgatory.broker.cluster.interception import InterceptFunction, Interception
from request_purgatory.broker.cluster.run_command import ClusterError, run_command
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.settings import ClusterOptions, settings_from

#: Seconds for the start, for the stop and for each command.
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

    async def _main(self, started: Future[None]) -> None:
        recorder = None if self._record is None else Recorder(self._record)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            async with AsyncCluster(self.settings, recorder=recorder) as self._cluster:
                self._bootstrap_servers = self._cluster.bootstrap_servers
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
        cluster, loop = self._running(command)
        future = asyncio.run_coroutine_threadsafe(run_command(cluster, command, arguments), loop)
        return future.result(_TIMEOUT)

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
        cluster, loop = self._running("intercept")

        async def intercept() -> Interception:
            return cluster.intercept(api, function)

        return asyncio.run_coroutine_threadsafe(intercept(), loop).result(_TIMEOUT)

    def _running(self, command: str) -> tuple[AsyncCluster, asyncio.AbstractEventLoop]:
        """Return the cluster and its loop.

        Raises:
            ClusterError: the cluster is not running.
        """
        if (
            self._loop is None
            or self._cluster is None
            or self._thread is None
            or not self._thread.is_alive()
        ):
            raise ClusterError(f"{command}: the cluster is not running")
        return self._cluster, self._loop
