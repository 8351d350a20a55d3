"""A cluster on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.cluster.cluster_client import RunningCluster
from request_purgatory.broker.cluster.commands import ClusterError, run_command
from request_purgatory.broker.replication.recorder import Recorder
from request_purgatory.broker.settings import ClusterSettings

#: A command that is not done by then never will be.
_TIME_LIMIT = 60.0


class Cluster(RunningCluster):
    """A Kafka cluster for tests and development, on a thread of this process: `with Cluster(nodes=3) as cluster:`.

    Clients in the same process that keep the interpreter busy share its lock with the cluster;
    `ClusterProcess` has an interpreter of its own.
    """

    def __init__(
        self, nodes: int = 1, *, record: Path | str | None = None, **settings: Any
    ) -> None:
        """A cluster that starts with its `with` block.

        Args:
            nodes: brokers, each on a port of its own of the loopback interface.
            record: a folder for a trace of what waits, in the pipeline's schema.
            settings: of `ClusterSettings`, by Kafka's names with underscores.

        Raises:
            InvalidArgumentError: a setting that no cluster can have. TypeError: one that there is
                not.
        """
        if isinstance(settings.get("data_dir"), str):
            settings["data_dir"] = Path(settings["data_dir"])
        self.settings = ClusterSettings(nodes=nodes, **settings)
        self._record = None if record is None else Path(record)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster: AsyncCluster | None = None
        self._end: asyncio.Event | None = None
        self._addresses = ""

    # -- beginning and end

    def start(self) -> Cluster:
        """Start; what `with` does."""
        if self._thread is not None:
            raise RuntimeError("a cluster is started once: make a new one")
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="purgatory-cluster", daemon=True
        )
        self._thread.start()
        try:
            started.result(_TIME_LIMIT)
        except BaseException:
            self._thread.join(_TIME_LIMIT)
            raise
        return self

    def close(self) -> None:
        """Stop all nodes and the thread; may be repeated."""
        if self._thread is None or not self._thread.is_alive():
            return
        assert self._loop is not None
        assert self._end is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_TIME_LIMIT)

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
        self._end = asyncio.Event()
        try:
            async with AsyncCluster(self.settings, recorder=recorder) as self._cluster:
                self._addresses = self._cluster.bootstrap
                started.set_result(None)
                await self._end.wait()
        finally:
            if recorder is not None:
                recorder.close()

    # -- commands

    @property
    def bootstrap(self) -> str:
        """What clients are given: the addresses of all nodes."""
        return self._addresses

    def call(self, command: str, /, **arguments: Any) -> Any:
        if (
            self._loop is None
            or self._cluster is None
            or self._thread is None
            or not self._thread.is_alive()
        ):
            raise ClusterError(f"{command}: the cluster does not run")
        future = asyncio.run_coroutine_threadsafe(
            run_command(self._cluster, command, arguments), self._loop
        )
        return future.result(_TIME_LIMIT)
