"""Compacts the logs of one node. Source: Kafka's `LogCleaner` and `LogCleanerManager`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from operator import itemgetter

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.log.cleanable import Cleanable, cleanable
from purgatory_broker.log.compaction import Compaction, CompactionAbortedError
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.replication.replica import Replica
from purgatory_broker.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)


class LogCleaner:
    """Compacts one log after the other, that with the largest new part first, in short slices.

    Followers compact their own logs. A log whose compaction has failed is left alone until the node
    starts again.
    """

    def __init__(
        self, replicas: ReplicaManager, actions: ActionQueue, wall_ms: Callable[[], int]
    ) -> None:
        self._replicas = replicas
        self._actions = actions
        self._wall_ms = wall_ms
        #: The compactions in progress.
        self._running: dict[Replica, Generator[None, None, None]] = {}
        self._next_slice: asyncio.Handle | None = None
        self._uncleanable: set[Replica] = set()

    def start(self) -> None:
        """Compact what is dirty enough; no-op while that goes on."""
        if self._next_slice is None and not self._replicas.is_closed:
            self._start_dirtiest()

    def _start_dirtiest(self) -> None:
        self._next_slice = None
        replica = self._dirtiest()
        if replica is not None:
            self._running[replica] = self._compact(replica)
            self._schedule_slice(replica)

    def _schedule_slice(self, replica: Replica) -> None:
        self._next_slice = asyncio.get_running_loop().call_soon(self._do_slice, replica)

    def _do_slice(self, replica: Replica) -> None:
        try:
            next(self._running[replica])
        except StopIteration:
            pass
        except CompactionAbortedError:
            pass  # It is tried again at the next look for dirty logs.
        except Exception as error:
            # Whatever it is: the other logs are compacted.
            self._uncleanable.add(replica)
            logger.error(
                "node %d: can't compact %s, which is left as it is: %s",
                self._replicas.node_id,
                replica.key,
                error,
                exc_info=None if isinstance(error, RecordError) else error,
            )
        else:
            self._schedule_slice(replica)
            return
        del self._running[replica]
        self._start_dirtiest()

    def _dirtiest(self) -> Replica | None:
        """Return the replica to compact next, None if there is none that needs it."""
        self._uncleanable.intersection_update(self._replicas.replicas.values())
        due: list[tuple[float, Replica]] = []
        for replica in self._replicas.replicas.values():
            settings = replica.log.settings
            if not settings.compacted or replica in self._uncleanable or replica in self._running:
                continue
            found = self._cleanable(replica)
            if found.is_due(settings):
                due.append((found.dirty_ratio, replica))
        return max(due, key=itemgetter(0))[1] if due else None

    def _cleanable(self, replica: Replica) -> Cleanable:
        log = replica.log
        return cleanable(log, log.settings, self._wall_ms(), replica.last_stable_offset)

    def _compact(self, replica: Replica) -> Generator[None, None, None]:
        limit_offset = self._cleanable(replica).limit_offset
        is_partial = True
        while is_partial:
            log = replica.log
            compaction = Compaction(log, log.settings, self._wall_ms(), limit_offset)
            yield from compaction.run()
            self._note_pass(replica, compaction)
            is_partial = compaction.is_partial

    def _note_pass(self, replica: Replica, compaction: Compaction) -> None:
        key, node_id = replica.key, self._replicas.node_id
        stats = compaction.stats
        logger.info(
            "node %d: compacted %s, where offsets %d to %d were new: %d of %d records and %d of %d "
            "bytes are left",
            node_id,
            key,
            compaction.start_offset,
            compaction.end_offset,
            stats.records_written,
            stats.records_read,
            stats.bytes_written,
            stats.bytes_read,
        )
        if stats.keyless_records:
            logger.warning(
                "node %d: compaction of %s has removed %d records without a key",
                node_id,
                key,
                stats.keyless_records,
            )
        with self._actions:
            self._replicas.notify_partition(key)

    async def compact(self, replica: Replica) -> None:
        """Compact a log now, however little of it is new, with what the active segment has so far.

        Raises:
            RecordError: A batch is damaged, or the disk has failed.
        """
        is_compacted = False
        while not is_compacted and self._replicas.find(replica.key) is replica:
            if replica in self._running:
                await asyncio.sleep(0)
                continue
            replica.log.roll()
            slices = self._running[replica] = self._compact(replica)
            try:
                for _ in slices:
                    await asyncio.sleep(0)
                is_compacted = True
            except CompactionAbortedError:
                pass
            finally:
                slices.close()
                self._running.pop(replica, None)

    def close(self) -> None:
        """Stop at once; the logs stay as they are."""
        if self._next_slice is not None:
            self._next_slice.cancel()
        for slices in self._running.values():
            slices.close()
        self._running.clear()
