"""The storage of a segment's bytes: memory or a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from purgatory_broker.log.log_errors import StorageError, storage_errors


class MemoryStore:
    __slots__ = ("_bytes", "size")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.size = 0

    def append(self, data: bytes | bytearray) -> None:
        self._bytes += data
        self.size += len(data)

    def read(self, position: int, size: int) -> bytes:
        # A copy: a bytearray can't grow while a view of it exists.
        return bytes(memoryview(self._bytes)[position : position + size])

    def truncate(self, size: int) -> None:
        del self._bytes[size:]
        self.size = len(self._bytes)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def delete(self) -> None:
        self._bytes = bytearray()
        self.size = 0


class OpenFiles:
    """A cache of open files; the least recently used one is closed to make room for another.

    A process may only have a limited number of open files. The logs of one event loop share a
    cache. A cache must not be shared by two event loops.
    """

    __slots__ = ("_descriptors", "limit")

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._descriptors: dict[Path, int] = {}

    def __len__(self) -> int:
        return len(self._descriptors)

    def descriptor(self, path: Path) -> int:
        descriptors = self._descriptors
        descriptor = descriptors.pop(path, None)
        if descriptor is None:
            while len(descriptors) >= self.limit:
                os.close(descriptors.pop(next(iter(descriptors))))
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        # Insertion order is order of use: the least recently used file is the first.
        descriptors[path] = descriptor
        return descriptor

    def close(self, path: Path) -> None:
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


class FileStore:
    """A file written without a buffer: appended bytes survive the end of the process.

    A method that raises StorageError leaves the bytes unchanged.
    """

    __slots__ = ("_files", "_flushed", "_has_torn_tail", "path", "size")

    def __init__(self, path: Path, files: OpenFiles) -> None:
        self.path = path
        self._files = files
        #: The file has bytes after `size`, of an append that failed and could not be undone yet.
        self._has_torn_tail = False
        self._flushed = False
        with storage_errors(f"opening {path}"):
            self.size = os.fstat(files.descriptor(path)).st_size

    def append(self, data: bytes | bytearray) -> None:
        start = self.size
        try:
            descriptor = self._files.descriptor(self.path)
            if self._has_torn_tail:
                os.ftruncate(descriptor, start)
                self._has_torn_tail = False
            self._flushed = False
            written = _write(descriptor, data, start)
            # A disk that is nearly full writes a part, and reports the error with the next part.
            while written < len(data):
                written += _write(descriptor, data[written:], start + written)
        except OSError as error:
            self._has_torn_tail = True
            try:
                self._truncate(start)
            except OSError:
                pass  # The next append tries again; after a restart, recovery does.
            raise StorageError(
                f"writing {len(data)} bytes at {start} of {self.path} failed: {error}"
            ) from error
        self.size = start + len(data)

    def read(self, position: int, size: int) -> bytes:
        """Return exactly `size` bytes from `position` on."""
        try:
            data = b""
            while len(data) < size:
                more = _read(
                    self._files.descriptor(self.path), size - len(data), position + len(data)
                )
                if not more:
                    raise StorageError(
                        f"{self.path} has {position + len(data)} bytes, "
                        f"can't read {size} at {position}"
                    )
                data += more
        except OSError as error:
            raise StorageError(
                f"reading {size} bytes at {position} of {self.path} failed: {error}"
            ) from error
        return data

    def truncate(self, size: int) -> None:
        with storage_errors(f"truncating {self.path} to {size} bytes"):
            self._truncate(size)
        self.size = size

    def _truncate(self, size: int) -> None:
        os.ftruncate(self._files.descriptor(self.path), size)
        self._flushed = False
        self._has_torn_tail = False

    def flush(self) -> None:
        if self._flushed:
            return
        with storage_errors(f"flushing {self.path}"):
            os.fsync(self._files.descriptor(self.path))
        self._flushed = True

    def rename(self, path: Path) -> None:
        """Take the place of another file, at once and whole, whose store must not be used then."""
        self._files.close(self.path)
        self._files.close(path)
        with storage_errors(f"renaming {self.path} to {path.name}"):
            self.path.replace(path)
        self.path = path

    def close(self) -> None:
        self._files.close(self.path)

    def delete(self) -> None:
        self._files.close(self.path)
        with storage_errors(f"deleting {self.path}"):
            self.path.unlink(missing_ok=True)


Store: TypeAlias = MemoryStore | FileStore

if hasattr(os, "pwrite"):

    def _write(descriptor: int, data: bytes | bytearray, position: int) -> int:
        return os.pwrite(descriptor, data, position)

    def _read(descriptor: int, size: int, position: int) -> bytes:
        return os.pread(descriptor, size, position)

else:  # pragma: no cover - Windows

    def _write(descriptor: int, data: bytes | bytearray, position: int) -> int:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)

    def _read(descriptor: int, size: int, position: int) -> bytes:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, size)
