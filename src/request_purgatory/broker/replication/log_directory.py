"""What a node keeps when it stops: its logs and its high watermarks."""

from __future__ import annotations

import json
import logging
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from request_purgatory.broker.log import LogSettings, OpenFiles, PartitionLog, RecordError
from request_purgatory.broker.log.checkpoint import flush_folder
from request_purgatory.broker.log.errors import storage_error
from request_purgatory.broker.metadata.topic_configs import topic_value
from request_purgatory.broker.metadata.topics import Topic, TopicPartition
from request_purgatory.broker.settings import ClusterSettings

logger = logging.getLogger(__name__)

_WATERMARKS = "high-watermarks.json"
#: In each log's folder: which topic of that name it is of. Kafka has it under this name too.
_METADATA = "partition.metadata"


class Disk:
    """The logs of one node: in files below a folder, or in memory, which outlives the node but not the process.

    A log is of a topic's id, not only of its name: one of an earlier topic of the same name is
    never opened, but deleted.
    """

    def __init__(self, node_id: int, folder: Path | None) -> None:
        self.node_id = node_id
        self.folder = folder
        self._files = OpenFiles()
        self._kept: dict[TopicPartition, tuple[uuid.UUID, PartitionLog]] = {}
        self._watermarks: dict[tuple[uuid.UUID, int], int] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._watermarks = self._read_watermarks()

    # -- logs

    def open(self, key: TopicPartition, topic_id: uuid.UUID, settings: LogSettings) -> PartitionLog:
        """A partition's log, as it was when it was closed or the node was killed; empty if there is none.

        Raises:
            RecordError: KAFKA_STORAGE_ERROR.
        """
        if self.folder is None:
            kept = self._kept.get(key)
            if kept is None or kept[0] != topic_id:
                kept = self._kept[key] = (topic_id, PartitionLog.in_memory(str(key), settings))
            return kept[1]
        folder = self.folder / str(key)
        try:
            found = _topic_of(folder)
            if found not in (None, topic_id):
                logger.info(
                    "node %d deletes %s, which is of an earlier topic of this name",
                    self.node_id,
                    folder,
                )
                shutil.rmtree(folder)
            if found != topic_id:
                _mark(folder, topic_id)
                if settings.flush_messages is not None:
                    # The log forces its own folder to the disk, but not the name that the folder
                    # has in this one.
                    flush_folder(self.folder)
        except OSError as error:
            raise storage_error(f"making {folder}", error) from error
        return PartitionLog.open(str(key), folder, settings, files=self._files)

    def close(self, log: PartitionLog) -> None:
        """The node stops in an orderly way: force what was appended to the disk."""
        try:
            log.flush()
        except RecordError:
            logger.exception("node %d can't force %s to the disk", self.node_id, log.name)
        if self.folder is not None:
            self._close(log)

    def abandon(self, log: PartitionLog) -> None:
        """The node was killed: give back the log's files, and force nothing to the disk."""
        if self.folder is not None:
            self._close(log)

    def _close(self, log: PartitionLog) -> None:
        # With it, closing would force all to the disk once more, which only an orderly end does,
        # and has done.
        log.settings = replace(log.settings, flush_messages=None)
        log.close()

    def delete(self, log: PartitionLog, key: TopicPartition, topic_id: uuid.UUID) -> None:
        """A partition is gone for good."""
        if self._kept.get(key, (None,))[0] == topic_id:
            del self._kept[key]
        self._watermarks.pop((topic_id, key.partition), None)
        try:
            log.delete()
        except RecordError:
            # What is left is found by its id, and deleted, when the node starts or the name is used
            # again.
            logger.exception("node %d can't delete %s", self.node_id, key)

    def delete_unknown(self, known: Iterable[tuple[TopicPartition, uuid.UUID]]) -> None:
        """Delete the logs of partitions that were deleted while the node was not there.

        None of them may be open.
        """
        ids = dict(known)
        for key in [key for key, (topic_id, _) in self._kept.items() if ids.get(key) != topic_id]:
            del self._kept[key]
        topic_ids = set(ids.values())
        for mark in [mark for mark in self._watermarks if mark[0] not in topic_ids]:
            del self._watermarks[mark]
        if self.folder is None:
            return
        by_name = {str(key): topic_id for key, topic_id in ids.items()}
        for path in [path for path in self.folder.iterdir() if path.is_dir()]:
            if path.name not in by_name or _topic_of(path) not in (None, by_name[path.name]):
                logger.info(
                    "node %d deletes %s, which is no partition of this cluster any more",
                    self.node_id,
                    path.name,
                )
                shutil.rmtree(path, ignore_errors=True)

    # -- high watermarks

    def high_watermark(self, key: TopicPartition, topic_id: uuid.UUID) -> int:
        """The high watermark that was kept last; 0 if none was."""
        return self._watermarks.get((topic_id, key.partition), 0)

    def keep_high_watermarks(self, offsets: dict[tuple[uuid.UUID, int], int]) -> None:
        """Keep the high watermarks of all partitions, by their topics' ids and their numbers."""
        self._watermarks.update(offsets)
        if self.folder is None:
            return
        rows = [
            [str(topic_id), partition, offset]
            for (topic_id, partition), offset in self._watermarks.items()
        ]
        partial = self.folder / f"{_WATERMARKS}.partial"
        try:
            partial.write_text(json.dumps(rows))
            partial.replace(self.folder / _WATERMARKS)
        except OSError:
            # They only spare a wait; those of the time before are as good.
            logger.exception("node %d can't keep its high watermarks", self.node_id)

    def _read_watermarks(self) -> dict[tuple[uuid.UUID, int], int]:
        assert self.folder is not None
        try:
            rows = json.loads((self.folder / _WATERMARKS).read_text())
            return {
                (uuid.UUID(topic_id), partition): int(offset)
                for topic_id, partition, offset in rows
            }
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError):
            # A leader finds its high watermark anew from its followers.
            logger.warning("node %d: %s can't be read, and is made anew", self.node_id, _WATERMARKS)
            return {}


def log_settings(topic: Topic, settings: ClusterSettings) -> LogSettings:
    """What a topic's logs go by: its own settings, or the cluster's."""

    def value(name: str) -> str:
        return topic_value(name, topic.configs, settings)

    def limit(name: str) -> int | None:
        number = int(value(name))
        return None if number < 0 else number

    flush = int(value("flush.messages"))
    deletes = "delete" in value("cleanup.policy")
    return LogSettings(
        segment_bytes=int(value("segment.bytes")),
        max_message_bytes=int(value("max.message.bytes")),
        retention_ms=limit("retention.ms") if deletes else None,
        retention_bytes=limit("retention.bytes") if deletes else None,
        flush_messages=None if flush == 2**63 - 1 else flush,
        message_timestamp_type=value("message.timestamp.type"),
        message_timestamp_before_max_ms=int(value("message.timestamp.before.max.ms")),
        message_timestamp_after_max_ms=int(value("message.timestamp.after.max.ms")),
        compacted="compact" in value("cleanup.policy"),
    )


def _topic_of(folder: Path) -> uuid.UUID | None:
    """The id of the topic that a folder's log is of.

    None where it does not say, as after a power failure.
    """
    try:
        return uuid.UUID(
            (folder / _METADATA).read_text("ascii").rpartition("topic_id: ")[2].strip()
        )
    except (FileNotFoundError, ValueError):
        return None


def _mark(folder: Path, topic_id: uuid.UUID) -> None:
    """Make a folder for a log of a topic. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{_METADATA}.tmp"
    partial.write_text(f"version: 0\ntopic_id: {topic_id}\n", "ascii")
    partial.replace(folder / _METADATA)
