"""The folder of a log's files."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from purgatory_broker.log.checkpoint import OffsetCheckpoint, flush_folder
from purgatory_broker.log.log_errors import storage_errors
from purgatory_broker.log.segment import Segment, segment_name
from purgatory_broker.log.store import FileStore, OpenFiles

CLEAN_SHUTDOWN_FILE = "clean-shutdown"
#: The end of the name of a compacted segment's file, until it takes the place of the old one's.
CLEANED_SUFFIX = ".cleaned"
_CLEAN_SHUTDOWN_VERSION = "0"


class CleanShutdown(NamedTuple):
    """Where a log ended when it was closed, with all of its records flushed."""

    end_offset: int
    #: The size of all segments.
    size_bytes: int


def read_clean_shutdown(folder: Path) -> CleanShutdown | None:
    """Return the content of the file; None if there is no such file, or not all of it."""
    path = folder / CLEAN_SHUTDOWN_FILE
    with storage_errors(f"reading {path}"):
        try:
            lines = path.read_text("ascii", "replace").split("\n")
        except FileNotFoundError:
            return None
    if len(lines) != 4 or lines[0] != _CLEAN_SHUTDOWN_VERSION or lines[3]:
        return None
    if not (lines[1].isdecimal() and lines[2].isdecimal()):
        return None
    return CleanShutdown(int(lines[1]), int(lines[2]))


_START_OFFSET_FILE = "log-start-offset"
#: The file with the offset up to which the log was compacted. Where it exists, there may be gaps
#: between batches.
_CLEANED_OFFSET_FILE = "cleaned-offset"
#: The file with the id of the log's topic, as in Kafka, by which the folder is known as a log's.
METADATA_FILE = "partition.metadata"


def delete_folder(path: Path) -> None:
    """Delete a log's folder; no-op if it does not exist.

    The metadata file goes last: what an interruption leaves is known as a log's folder.
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
    __slots__ = ("_files", "cleaned_offset", "is_flushed", "path", "start_offset")

    def __init__(self, path: Path, files: OpenFiles) -> None:
        with storage_errors(f"creating {path}"):
            path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._files = files
        self.start_offset = OffsetCheckpoint(path / _START_OFFSET_FILE)
        self.cleaned_offset = OffsetCheckpoint(path / _CLEANED_OFFSET_FILE)
        #: The names of the segments' files are on the disk.
        self.is_flushed = False

    def segment(self, base_offset: int) -> Segment:
        """Return the segment in the file of a base offset, a new one if there is no such file."""
        self.is_flushed = False
        return Segment(base_offset, FileStore(self.path / segment_name(base_offset), self._files))

    def cleaned_segment(self, base_offset: int) -> Segment:
        """Return an empty segment in a file that is ignored until `take_place`."""
        path = self.path / f"{segment_name(base_offset)}{CLEANED_SUFFIX}"
        store = FileStore(path, self._files)
        store.truncate(0)
        return Segment(base_offset, store)

    def take_place(self, cleaned: Segment) -> None:
        """Put a compacted segment's file, whole and flushed, in the place of the old one's."""
        assert isinstance(cleaned.store, FileStore)
        cleaned.store.flush()
        cleaned.store.rename(self.path / segment_name(cleaned.base_offset))
        with storage_errors(f"flushing {self.path}"):
            flush_folder(self.path)

    def flush(self) -> None:
        """Flush the names of the segments' files to the disk, unless `is_flushed`."""
        if self.is_flushed:
            return
        with storage_errors(f"flushing {self.path}"):
            flush_folder(self.path)
        self.is_flushed = True

    def note_clean_shutdown(self, end_offset: int, size_bytes: int) -> None:
        """Write the file. It is not flushed: without it, opening the log takes it for crashed."""
        path = self.path / CLEAN_SHUTDOWN_FILE
        content = f"{_CLEAN_SHUTDOWN_VERSION}\n{end_offset}\n{size_bytes}\n"
        with storage_errors(f"writing {path}"):
            path.write_text(content, "ascii", newline="\n")

    def delete(self) -> None:
        with storage_errors(f"deleting {self.path}"):
            delete_folder(self.path)
