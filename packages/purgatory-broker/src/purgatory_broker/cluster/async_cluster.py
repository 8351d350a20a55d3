"""A cluster on the running event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from purgatory_broker.cluster._commands.cluster_commands import ClusterCommands
from purgatory_broker.cluster.cluster_errors import raise_first
from purgatory_broker.cluster.function_tasks import TaskCoroutine
from purgatory_broker.cluster.interception import Interceptions
from purgatory_broker.cluster.network import CONTROLLER, Network
from purgatory_broker.cluster.node import ClusterParts, Node, WallTime
from purgatory_broker.metadata.controller import Controller
from purgatory_broker.metadata.metadata_file import FILE_NAME
from purgatory_broker.metadata.topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    Partition,
    Topic,
)
from purgatory_broker.replication.log_manager import LogManager, partition_folders
from purgatory_broker.replication.recorder import Recorder
from purgatory_broker.server.copied_sockets import close_copied_sockets
from purgatory_broker.server.faults import Faults
from purgatory_broker.server.security import Security, warn_if_reachable
from purgatory_broker.settings import ClusterSettings
from request_purgatory.errors import InvalidArgumentError

#: The number of new objects after which the collector looks at them. CPython's 700 are the objects
#: of 50 requests; with thousands of them waiting, a fifth of the time goes to collections.
THRESHOLD = 10_000


@contextmanager
def collecting_less() -> Iterator[None]:
    """Collect less often, and no older objects: a cluster's process makes few cycles."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _with_present_counts(settings: ClusterSettings, topics: Mapping[str, Topic]) -> ClusterSettings:
    """Return the settings with the numbers of partitions that stored internal topics have.

    The partition of a group or a transactional id follows from it.
    """

    def count(topic: str, otherwise: int) -> int:
        return len(topics[topic].partitions) if topic in topics else otherwise

    return replace(
        settings,
        offsets_topic_num_partitions=count(OFFSETS_TOPIC, settings.offsets_topic_num_partitions),
        transaction_state_log_num_partitions=count(
            TRANSACTIONS_TOPIC, settings.transaction_state_log_num_partitions
        ),
        share_coordinator_state_topic_num_partitions=count(
            SHARE_STATE_TOPIC, settings.share_coordinator_state_topic_num_partitions
        ),
    )


_LOCK_FILE = "lock"


def _locked(folder: Path) -> IO[str]:
    """Lock a directory until the file is closed or the process has ended, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / _LOCK_FILE).open("a")
    _lock_files.add(file)
    try:
        try:
            _lock(file)
        except OSError:
            raise InvalidArgumentError(
                "data_dir", "a directory that no other running cluster uses", str(folder)
            ) from None
        _require_metadata(folder)
    except BaseException:
        file.close()
        raise
    return file


#: Those of directories that this process has locked, and maybe released.
_lock_files: weakref.WeakSet[IO[str]] = weakref.WeakSet()


def _require_metadata(folder: Path) -> None:
    """Refuse logs whose metadata is lost: the nodes would delete them as those of no topic."""
    if (folder / FILE_NAME).exists():
        return
    for node in sorted(folder.glob("node-*")):
        logs = sorted(partition_folders(node)) if node.is_dir() else []
        if logs:
            raise InvalidArgumentError(
                "data_dir",
                f"a directory with the {FILE_NAME} of its logs, or without logs such as "
                f"{logs[0].relative_to(folder).as_posix()}",
                str(folder),
            )


def _lock(file: IO[str]) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


#: The clusters of this process that have sockets.
_listening: weakref.WeakSet[AsyncCluster] = weakref.WeakSet()


def _close_copies() -> None:
    """Close what a forked child has of its parent's clusters.

    As long as it has a copy of a socket or of a lock, the parent's own has not ended by its close.
    """
    for file in list(_lock_files):
        file.close()
    _lock_files.clear()
    addresses = {
        address
        for cluster in list(_listening)
        for node in cluster.nodes
        for address in node.server.addresses
    }
    _listening.clear()
    if addresses:
        close_copied_sockets(addresses)


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=_close_copies)


def _wall_clock_ms() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class AsyncCluster(ClusterCommands):
    """A Kafka cluster for tests and development, on the running event loop.

    Composes the nodes, the controller and the network between them, for one `async with` block.
    All nodes share the process and the event loop. Methods are called on that loop's thread.
    Elsewhere, before the block, and from its end on, commands but `bootstrap_servers` raise
    ClusterError. Nodes are named by their numbers, from 0.
    """

    def __init__(
        self,
        settings: ClusterSettings | None = None,
        *,
        recorder: Recorder | None = None,
        wall_ms: Callable[[], int] = _wall_clock_ms,
    ) -> None:
        """Create a cluster; entering the block starts it.

        Args:
            settings: the cluster's settings; None is the defaults.
            recorder: records the requests that wait; None records none.
            wall_ms: the time of day in milliseconds since 1970, for record timestamps, retention
                and groups.

        Raises:
            InvalidArgumentError: an argument has another type, another cluster uses the data
                directory, the directory has data of more nodes than `settings.nodes`, or its
                metadata is damaged, or is lost while there are logs.
            OSError: the data directory can't be read or written.
        """
        if settings is None:
            settings = ClusterSettings()
        if not isinstance(settings, ClusterSettings):
            raise InvalidArgumentError("settings", "a ClusterSettings or None", settings)
        if recorder is not None and not isinstance(recorder, Recorder):
            raise InvalidArgumentError("recorder", "a Recorder or None", recorder)
        if not callable(wall_ms):
            raise InvalidArgumentError("wall_ms", "callable", wall_ms)
        folder = settings.data_dir
        self._lock_file = None if folder is None else _locked(folder)
        try:
            controller = Controller(settings)
            settings = _with_present_counts(settings, controller.topics)
            security = Security.of(settings, controller.scram_credentials)
        except BaseException:
            if self._lock_file is not None:
                self._lock_file.close()
            raise
        faults = Faults()
        super().__init__(
            ClusterParts(
                settings,
                controller,
                Network(),
                faults,
                Interceptions(faults),
                recorder,
                WallTime(wall_ms),
                security,
            )
        )
        self._was_entered = False
        self.controller.notify(self._send_partitions, self._send_deletion)
        for node, listeners in enumerate(settings.node_listeners()):
            logs = LogManager(node, None if folder is None else folder / f"node-{node}")
            self.nodes.append(Node(self._parts, node, logs, listeners))

    async def __aenter__(self) -> AsyncCluster:
        if self._was_entered:
            raise RuntimeError("a cluster has one block only; make another one")
        self._was_entered = True
        warn_if_reachable(self.settings)
        _listening.add(self)
        try:
            await self.waits.purgatory.__aenter__()
            for node in self.nodes:
                await node.start()
        except BaseException:
            self._stop_all()
            _listening.discard(self)
            raise
        # All nodes register together. If the first registered alone, it would become the leader of
        # all its partitions, by unclean election too, where that is enabled.
        self.controller.register_broker(*range(len(self.nodes)))
        for node in self.nodes:
            node.connect_controller()
        self.loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, _kind: object, error: BaseException | None, _traceback: object
    ) -> None:
        self.loop = None
        try:
            self._stop_all()
            if self._schema_registry is not None:
                await self._schema_registry.stop()
            # A restart or reset under way, and those that wait for it, find the cluster stopped.
            async with self._start_lock:
                pass
            await self._interceptions.wait_cancelled()
            # Let the closed transports run their last callbacks.
            await asyncio.sleep(0)
        finally:
            _listening.discard(self)
            raise_first(self._interceptions.take_unseen(), error)

    def __repr__(self) -> str:
        return f"<AsyncCluster {self.describe()}>"

    def describe(self) -> str:
        """Return the number of nodes with their state, and the addresses while the cluster runs.

        Any thread may call this.
        """
        count = f"nodes={len(self.nodes)}"
        if self.loop is None:
            return f"{count}, {'not running' if self._was_entered else 'not started'}"
        stopped = [str(node.node_id) for node in self.nodes if node.is_stopped]
        without = f", without node {', '.join(stopped)}" if stopped else ""
        return f"{count} at {self.bootstrap_servers}{without}"

    @property
    def is_calling_function(self) -> bool:
        """Whether the caller is a function given to `intercept`."""
        return self._interceptions.is_calling

    async def end_functions(self) -> None:
        """Cancel the functions given to `intercept` that still run, as the end of the block does.

        Not for such a function itself.
        """
        self._interceptions.cancel()
        await self._interceptions.wait_cancelled()

    def create_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: TaskCoroutine, **options: Any
    ) -> asyncio.Task[Any]:
        """Create a task that may be a function's, as the task factory of a `Cluster`'s loop."""
        return self._interceptions.function_tasks.create(loop, coroutine, **options)

    def add_error_of_task(self, error: BaseException) -> None:
        """Keep what a task or a callback on the event loop has raised, until somebody has seen it.

        Any thread may call this. A `Cluster` does so; on an event loop of their own, users see to
        their tasks.
        """
        self._interceptions.add_error_of_task(error)

    def raise_unseen_errors(self) -> None:
        """Raise what functions given to `intercept` have raised, unless somebody has seen it.

        The end of the cluster's block does so, too. A cluster that serves several tests calls this
        after each, so that the right one fails. Any thread may call it.

        Raises:
            BaseException: the first of them, with notes on the others.
        """
        raise_first(self._interceptions.take_unseen())

    def take_unseen_errors(self) -> list[BaseException]:
        """Return what `raise_unseen_errors` would raise, which then counts as seen."""
        return self._interceptions.take_unseen()

    def _stop_all(self) -> None:
        self.waits.purgatory.close()
        for handle in self._fence_timers.values():
            handle.cancel()
        self._interceptions.cancel()
        for node in self.nodes:
            if not node.is_stopped:
                node.stop()
            node.server.release_ports()
        # A message on its way would change the metadata in a directory that others may use then.
        self.network.reset()
        if self._lock_file is not None:
            self._lock_file.close()

    def addresses(self) -> list[str]:
        """Return the nodes' addresses, "host:port", by node number."""
        return self.bootstrap_servers.split(",")

    # -- notifications of the controller to the nodes

    def _send_partitions(self, partitions: list[Partition]) -> None:
        # Copies: a later change is sent as a later message, and must not alter this one.
        sent = [
            (self.controller.topics[partition.topic].topic_id, partition.copy())
            for partition in partitions
        ]
        for node in self._live_nodes:
            deliver = partial(node.partitions.apply, sent)
            self.network.send(CONTROLLER, node.node_id, deliver)
        for partition in partitions:
            self.waits.partition_changed(partition.key)

    def _send_deletion(self, topic: Topic) -> None:
        for node in self._live_nodes:
            deliver = partial(node.partitions.delete_topic, topic)
            self.network.send(CONTROLLER, node.node_id, deliver)

    def create_offsets_topic(self) -> None:
        """Create `__consumer_offsets`, the topic of groups and offsets; no-op if it exists."""
        self.controller.topic_changes.create_offsets_topic()

    def check(self) -> None:
        """Assert every invariant of every replica."""
        for node in self._live_nodes:
            for replica in node.replicas.replicas.values():
                replica.check()
