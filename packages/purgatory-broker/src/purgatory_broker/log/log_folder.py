"""The folder of a log's files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from purgatory_broker.log.checkpoint import OffsetCheckpoint, flush_folder
from purgatory_broker.log.log_errors import StorageError
from purgatory_broker.log.segment import Segment, segment_name
from purgatory_broker.log.store import FileStore, OpenFiles

_CLEAN_SHUTDOWN_FILE = "clean-shutdown"
_CLEAN_SHUTDOWN_VERSION = "0"


class CleanShutdown(NamedTuple):
    """Where a log ended when it was closed, with all of its records flushed."""

    end_offset: int
    #: The size of all segments.
    size_bytes: int


def _write_clean_shutdown(folder: Path, shutdown: CleanShutdown) -> None:
    """Write the file. It is not flushed: without it, opening the log takes it for crashed."""
    path = folder / _CLEAN_SHUTDOWN_FILE
    try:
        path.write_text(
            f"{_CLEAN_SHUTDOWN_VERSION}\n{shutdown.end_offset}\n{shutdown.size_bytes}\n",
            "ascii",
            newline="\n",
        )
    except OSError as error:
        raise StorageError(f"writing {path} failed: {error}") from error


def read_clean_shutdown(folder: Path) -> CleanShutdown | None:
    """Return the content of the file; None if there is no such file, or not all of it."""
    path = folder / _CLEAN_SHUTDOWN_FILE
    try:
        lines = path.read_text("ascii", "replace").split("\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"reading {path} failed: {error}") from error
    if len(lines) != 4 or lines[0] != _CLEAN_SHUTDOWN_VERSION or lines[3]:
        return None
    if not (lines[1].isdecimal() and lines[2].isdecimal()):
        return None
    return CleanShutdown(int(lines[1]), int(lines[2]))


def delete_clean_shutdown(folder: Path) -> None:
    path = folder / _CLEAN_SHUTDOWN_FILE
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"deleting {path} failed: {error}") from error


_START_OFFSET_FILE = "log-start-offset"


class LogFolder:
    __slots__ = ("_files", "_start_offset", "is_flushed", "path")

    def __init__(self, path: Path, files: OpenFiles) -> None:
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
        return self._start_offset.read()

    def save_start_offset(self, offset: int) -> None:
        self._start_offset.write(offset)

    def flush(self) -> None:
        """Flush the names of the segments' files to the disk, unless `is_flushed`."""
        if self.is_flushed:
            return
        try:
            flush_folder(self.path)
        except OSError as error:
            raise StorageError(f"flushing {self.path} failed: {error}") from error
        self.is_flushed = True

    def note_clean_shutdown(self, end_offset: int, size_bytes: int) -> None:
        _write_clean_shutdown(self.path, CleanShutdown(end_offset, size_bytes))

    def delete(self) -> None:
        try:
            shutil.rmtree(self.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StorageError(f"deleting {self.path} failed: {error}") from error
