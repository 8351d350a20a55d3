"""What a node keeps when it stops: its logs and its high watermarks."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from request_purgatory.broker.log import LogSettings, PartitionLog
from request_purgatory.broker.topics import TopicPartition

logger = logging.getLogger(__name__)

_WATERMARKS = "high-watermarks.json"


class Disk:
    """The logs of one node: in files below a folder, or in memory, which outlives the node but not the process."""

    def __init__(self, node_id: int, folder: Path | None) -> None:
        self.node_id = node_id
        self.folder = folder
        self._kept: dict[TopicPartition, PartitionLog] = {}
        self._watermarks: dict[TopicPartition, int] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._watermarks = self._read_watermarks()

    def open(self, key: TopicPartition, settings: LogSettings) -> PartitionLog:
        """A partition's log, as it was when it was closed or the node was killed; empty if there is none."""
        if self.folder is None:
            if key not in self._kept:
                self._kept[key] = PartitionLog.in_memory(str(key), settings)
            return self._kept[key]
        return PartitionLog.open(str(key), self._folder_of(key), settings)

    def _folder_of(self, key: TopicPartition) -> Path:
        assert self.folder is not None
        return self.folder / str(key)

    def delete(self, log: PartitionLog, key: TopicPartition) -> None:
        """A partition is gone for good."""
        self._kept.pop(key, None)
        self._watermarks.pop(key, None)
        log.delete()

    def delete_unknown(self, known: Iterable[TopicPartition]) -> None:
        """Delete the logs of partitions that were deleted while the node was not there."""
        names = {str(key) for key in known}
        if self.folder is None:
            for key in [key for key in self._kept if str(key) not in names]:
                del self._kept[key]
            return
        for path in self.folder.iterdir():
            if path.is_dir() and path.name not in names:
                logger.info("node %d deletes %s, which is no partition of this cluster any more", self.node_id, path.name)
                shutil.rmtree(path)

    def high_watermark(self, key: TopicPartition) -> int:
        """The high watermark that was kept last; 0 if none was."""
        return self._watermarks.get(key, 0)

    def keep_high_watermarks(self, offsets: dict[TopicPartition, int]) -> None:
        """Keep the high watermarks of all partitions."""
        self._watermarks.update(offsets)
        if self.folder is None:
            return
        rows = [[key.topic, key.partition, offset] for key, offset in self._watermarks.items()]
        partial = self.folder / f"{_WATERMARKS}.partial"
        partial.write_text(json.dumps(rows))
        partial.replace(self.folder / _WATERMARKS)

    def _read_watermarks(self) -> dict[TopicPartition, int]:
        assert self.folder is not None
        try:
            rows = json.loads((self.folder / _WATERMARKS).read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            # They only spare a wait: a leader finds its high watermark anew from its followers.
            logger.warning("node %d: %s can't be read, and is made anew", self.node_id, _WATERMARKS)
            return {}
        return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}
