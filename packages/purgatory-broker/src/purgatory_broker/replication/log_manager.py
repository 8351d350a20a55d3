"""A node's log directory: the logs and high watermarks that survive a restart of the node."""

from __future__ import annotations

import ctypes
import json
import logging
import shutil
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from purgatory_broker.log.checkpoint import flush_folder
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_errors import RecordError, storage_errors
from purgatory_broker.log.log_folder import METADATA_FILE, delete_folder
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.store import OpenFiles
from purgatory_broker.metadata.topic_configs import topic_value
from purgatory_broker.metadata.topics import Topic, TopicPartition, topic_name_error
from purgatory_broker.settings import ClusterSettings

logger = logging.getLogger(__name__)

#: The size of a log after whose deletion freed memory is returned to the operating system: its
#: records, and the index of small records.
_LARGE_LOG_BYTES = 1_048_576
_CHECKPOINT_FILE = "high-watermarks.json"


class _DirectorySpace(NamedTuple):
    """A log directory's path, and the bytes of its volume; -1 if the logs are in memory."""

    path: str
    total_bytes: int
    usable_bytes: int


class LogManager:
    """The logs of one node, in files below a folder or in memory.

    Logs in memory survive a restart of the node, but not the end of the process. A log belongs to a
    topic id, not only to a topic name: the log of a deleted topic with the same name is deleted,
    and never opened.
    """

    def __init__(self, node_id: int, folder: Path | None) -> None:
        """Open a log directory, and read its high watermarks; None keeps the logs in memory."""
        self.node_id = node_id
        self.folder = folder
        self._files = OpenFiles()
        self._in_memory: dict[TopicPartition, tuple[uuid.UUID, PartitionLog]] = {}
        self._high_watermarks: dict[tuple[uuid.UUID, int], int] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._high_watermarks = self._read_high_watermarks()

    def space(self) -> _DirectorySpace:
        if self.folder is None:
            return _DirectorySpace("memory", -1, -1)
        usage = shutil.disk_usage(self.folder)
        return _DirectorySpace(str(self.folder.absolute()), usage.total, usage.free)

    # -- logs

    def open(self, key: TopicPartition, topic_id: uuid.UUID, settings: LogSettings) -> PartitionLog:
        """Open a partition's log, as the node left it; create an empty log if there is none."""
        if self.folder is None:
            stored = self._in_memory.get(key)
            if stored is None or stored[0] != topic_id:
                stored = self._in_memory[key] = (
                    topic_id,
                    PartitionLog.in_memory(str(key), settings),
                )
            return stored[1]
        folder = self.folder / str(key)
        with storage_errors(f"creating {folder}"):
            stored_id = _read_topic_id(folder)
            if stored_id not in (None, topic_id):
                logger.info(
                    "node %d deletes %s: it belongs to a deleted topic of the same name",
                    self.node_id,
                    folder,
                )
                delete_folder(folder)
            if stored_id != topic_id:
                _write_topic_id(folder, topic_id)
                if settings.flush_messages is not None:
                    # The log flushes its own folder. The folder's entry in its parent must be
                    # flushed here.
                    flush_folder(self.folder)
        return PartitionLog.open(str(key), folder, settings, files=self._files)

    def close(self, log: PartitionLog) -> None:
        """Flush and close a log, when the node stops in an orderly way."""
        if self.folder is None:
            return
        try:
            log.close(clean=True)
        except RecordError as error:
            logger.error("node %d can't flush %s: %s", self.node_id, log.name, error)

    def abandon(self, log: PartitionLog) -> None:
        """Close a log's files without a flush, when the node is killed."""
        if self.folder is not None:
            # A log with `flush_messages` flushes when it is closed.
            log.settings = replace(log.settings, flush_messages=None)
            log.close()

    def delete(self, log: PartitionLog, key: TopicPartition, topic_id: uuid.UUID) -> None:
        is_large = log.size_bytes >= _LARGE_LOG_BYTES
        if self._in_memory.get(key, (None,))[0] == topic_id:
            del self._in_memory[key]
        self._high_watermarks.pop((topic_id, key.partition), None)
        try:
            log.delete()
        except RecordError as error:
            # The files that are left have the deleted topic's id. They are deleted when the node
            # restarts, or when the name is used again.
            logger.error("node %d can't delete %s: %s", self.node_id, key, error)
        if is_large:
            _release_free_memory()

    def delete_unknown(self, known: Iterable[tuple[TopicPartition, uuid.UUID]]) -> None:
        """Delete the logs, none of them open, of partitions that were deleted meanwhile.

        Everything else in the folder is left alone.
        """
        ids = dict(known)
        for key in [
            key for key, (topic_id, _) in self._in_memory.items() if ids.get(key) != topic_id
        ]:
            del self._in_memory[key]
        topic_ids = set(ids.values())
        for entry in [entry for entry in self._high_watermarks if entry[0] not in topic_ids]:
            del self._high_watermarks[entry]
        if self.folder is None:
            return
        by_name = {str(key): topic_id for key, topic_id in ids.items()}
        for path in partition_folders(self.folder):
            if path.name not in by_name or _read_topic_id(path) not in (None, by_name[path.name]):
                logger.info(
                    "node %d deletes %s: the partition no longer exists", self.node_id, path.name
                )
                try:
                    delete_folder(path)
                except OSError as error:
                    logger.error("node %d can't delete %s: %s", self.node_id, path.name, error)

    # -- high watermarks

    def high_watermark(self, key: TopicPartition, topic_id: uuid.UUID) -> int:
        return self._high_watermarks.get((topic_id, key.partition), 0)

    def checkpoint_high_watermarks(self, offsets: dict[tuple[uuid.UUID, int], int]) -> None:
        self._high_watermarks.update(offsets)
        if self.folder is None:
            return
        rows = [
            [str(topic_id), partition, offset]
            for (topic_id, partition), offset in self._high_watermarks.items()
        ]
        partial = self.folder / f"{_CHECKPOINT_FILE}.partial"
        try:
            partial.write_text(json.dumps(rows))
            partial.replace(self.folder / _CHECKPOINT_FILE)
        except OSError as error:
            # An older checkpoint is correct too: a leader learns its high watermark from its
            # followers.
            logger.error("node %d can't save its high watermarks: %s", self.node_id, error)

    def _read_high_watermarks(self) -> dict[tuple[uuid.UUID, int], int]:
        assert self.folder is not None
        try:
            rows = json.loads((self.folder / _CHECKPOINT_FILE).read_text())
            return {
                (uuid.UUID(topic_id), partition): int(offset)
                for topic_id, partition, offset in rows
            }
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError):
            # A leader learns its high watermark from its followers.
            logger.warning("node %d ignores the unreadable file %s", self.node_id, _CHECKPOINT_FILE)
            return {}


def log_settings(topic: Topic, settings: ClusterSettings) -> LogSettings:
    def value(name: str) -> str:
        return topic_value(name, topic.configs, settings)

    def limit(name: str) -> int | None:
        number = int(value(name))
        return None if number < 0 else number

    flush = int(value("flush.messages"))
    deletes = "delete" in value("cleanup.policy")
    compacts = "compact" in value("cleanup.policy")
    segment_ms = int(value("segment.ms"))
    max_lag_ms = int(value("max.compaction.lag.ms"))
    return LogSettings(
        segment_bytes=int(value("segment.bytes")),
        max_message_bytes=int(value("max.message.bytes")),
        # The active segment is not compacted.
        segment_ms=min(segment_ms, max_lag_ms) if compacts else segment_ms,
        retention_ms=limit("retention.ms") if deletes else None,
        retention_bytes=limit("retention.bytes") if deletes else None,
        flush_messages=None if flush == 2**63 - 1 else flush,
        message_timestamp_type=value("message.timestamp.type"),
        message_timestamp_before_max_ms=int(value("message.timestamp.before.max.ms")),
        message_timestamp_after_max_ms=int(value("message.timestamp.after.max.ms")),
        producer_id_expiration_ms=settings.producer_id_expiration_ms,
        compacted=compacts,
        min_cleanable_dirty_ratio=float(value("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=int(value("min.compaction.lag.ms")),
        max_compaction_lag_ms=max_lag_ms,
        delete_retention_ms=int(value("delete.retention.ms")),
    )


def partition_folders(folder: Path) -> list[Path]:
    """Return the folders of logs in a node's folder, by their names and their metadata files."""
    return [
        path
        for path in folder.iterdir()
        if _is_partition_name(path.name)
        and path.is_dir()
        and not path.is_symlink()
        and (path / METADATA_FILE).is_file()
    ]


def _is_partition_name(name: str) -> bool:
    topic, _, number = name.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and str(int(number)) == number
    return is_number and topic_name_error(topic) is None


def _read_topic_id(folder: Path) -> uuid.UUID | None:
    """Return the topic id of a log's folder; None if incomplete, as after a power failure."""
    try:
        return uuid.UUID(
            (folder / METADATA_FILE).read_text("ascii").rpartition("topic_id: ")[2].strip()
        )
    except (FileNotFoundError, ValueError):
        return None


def _write_topic_id(folder: Path, topic_id: uuid.UUID) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{METADATA_FILE}.tmp"
    partial.write_text(f"version: 0\ntopic_id: {topic_id}\n", "ascii")
    partial.replace(folder / METADATA_FILE)


def _release_free_memory() -> None:
    """Return the memory that the process has freed to the operating system.

    glibc's allocator keeps most of what a large log has freed: blocks of up to 32 MiB come from its
    heap, whose end some later and smaller block usually occupies. Other systems' allocators are
    left alone. Takes some milliseconds.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # Windows, macOS, musl
        return None
    return function
