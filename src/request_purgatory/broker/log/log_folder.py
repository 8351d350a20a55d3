"""The folder of a log's files."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from request_purgatory.broker.log.checkpoint import OffsetCheckpoint, flush_folder
from request_purgatory.broker.log.clean_shutdown import CleanShutdown, write_clean_shutdown
from request_purgatory.broker.log.errors import StorageError
from request_purgatory.broker.log.recovery import segment_name
from request_purgatory.broker.log.segment import Segment
from request_purgatory.broker.log.store import FileStore, OpenFiles

_START_OFFSET_FILE = "log-start-offset"
#: The file with the id of the log's topic, as in Kafka, by which the folder is known as a log's.
METADATA_FILE = "partition.metadata"


def delete_folder(path: Path) -> None:
    """Delete a log's folder; no-op if it does not exist.

    The metadata file goes last: what an interruption leaves is known as a log's folder.

    Raises:
        OSError: A file could not be deleted.
    """
    if path.is_symlink():
        raise OSError(f"{path} is a symbolic link")
    try:
        entries = list(path.iterdir())
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name == METADATA_FILE:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            os.unlink(entry)
    with suppress(FileNotFoundError):
        os.unlink(path / METADATA_FILE)
    path.rmdir()


class LogFolder:
    """The folder of a log: its segments, and what is noted beside them."""

    __slots__ = ("_files", "_start_offset", "is_flushed", "path")

    def __init__(self, path: Path, files: OpenFiles) -> None:
        """Create the folder if it does not exist.

        Args:
            path: The folder.
            files: The open files that all logs of an event loop share, to limit their number.

        Raises:
            StorageError: The folder can't be created.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"creating {path} failed: {error}") from error
        self.path = path
        self._files = files
        self._start_offset = OffsetCheckpoint(path / _START_OFFSET_FILE)
        #: The names of the segments' files are on the disk.
        self.is_flushed = False

    def segment(self, base_offset: int) -> Segment:
        """Return the segment in the file of a base offset, a new one if there is no such file."""
        self.is_flushed = False
        return Segment(base_offset, FileStore(self.path / segment_name(base_offset), self._files))

    def read_start_offset(self) -> int | None:
        """Return the log start offset; None if none has been saved.

        Raises:
            StorageError: The file can't be read.
        """
        return self._start_offset.read()

    def save_start_offset(self, offset: int) -> None:
        """Save the log start offset on the disk.

        Raises:
            StorageError: The file holds the previous offset.
        """
        self._start_offset.write(offset)

    def flush(self) -> None:
        """Flush the names of the segments' files to the disk, unless `is_flushed`.

        Raises:
            StorageError: The disk failed.
        """
        if self.is_flushed:
            return
        try:
            flush_folder(self.path)
        except OSError as error:
            raise StorageError(f"flushing {self.path} failed: {error}") from error
        self.is_flushed = True

    def note_clean_shutdown(self, end_offset: int, size_bytes: int) -> None:
        """Note that the log is complete.

        Args:
            end_offset: The log's end offset.
            size_bytes: The size of its segments in bytes.

        Raises:
            StorageError: The disk failed.
        """
        write_clean_shutdown(self.path, CleanShutdown(end_offset, size_bytes))

    def delete(self) -> None:
        """Delete the folder; no-op if it does not exist.

        Raises:
            StorageError: A file could not be deleted.
        """
        try:
            delete_folder(self.path)
        except OSError as error:
            raise StorageError(f"deleting {self.path} failed: {error}") from error
