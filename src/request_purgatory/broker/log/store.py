"""Where the bytes of a segment are: in memory, or in a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from request_purgatory.broker.log.errors import RecordError, storage_error
from request_purgatory.broker.wire.error_code import ErrorCode


class Store(Protocol):
    """Bytes that grow at the end.

    What fails raises RecordError, KAFKA_STORAGE_ERROR, and leaves them as they were.
    """

    @property
    def size(self) -> int:
        """How many there are."""

    def append(self, data: bytes | bytearray) -> None:
        """Add all of `data`."""

    def read(self, position: int, size: int) -> bytes:
        """Exactly `size` bytes."""

    def truncate(self, size: int) -> None:
        """Cut off all but the first `size`."""

    def flush(self) -> None:
        """Force what was appended to the disk."""

    def close(self) -> None:
        """Give back what the system has open for it."""

    def delete(self) -> None:
        """Remove it for good."""


class MemoryStore:
    """Bytes in memory."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def size(self) -> int:
        return len(self._bytes)

    def append(self, data: bytes | bytearray) -> None:
        self._bytes += data

    def read(self, position: int, size: int) -> bytes:
        # Copied: a view that somebody holds would keep the bytes from growing.
        return bytes(memoryview(self._bytes)[position : position + size])

    def truncate(self, size: int) -> None:
        del self._bytes[size:]

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def delete(self) -> None:
        self._bytes = bytearray()


class OpenFiles:
    """The files that are open now, those used least recently closed first: a process may have only so many open at a time.

    Shared by the logs of one event loop, and never by two.
    """

    __slots__ = ("_descriptors", "limit")

    def __init__(self, limit: int = 256) -> None:
        """At most `limit` files, at least 1."""
        self.limit = limit
        self._descriptors: dict[Path, int] = {}

    def __len__(self) -> int:
        return len(self._descriptors)

    def descriptor(self, path: Path) -> int:
        """That of a file, which is opened, and made if it is not there. Raises OSError."""
        descriptors = self._descriptors
        descriptor = descriptors.pop(path, None)
        if descriptor is None:
            while len(descriptors) >= self.limit:
                os.close(descriptors.pop(next(iter(descriptors))))
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        descriptors[path] = (
            descriptor  # At the end: those at the beginning have gone unused for longest.
        )
        return descriptor

    def close(self, path: Path) -> None:
        """Close a file, if it is open."""
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


class FileStore:
    """Bytes in a file, written without a buffer.

    What was appended survives the end of the process, however it ends.
    """

    __slots__ = ("_files", "_flushed", "_torn", "path", "size")

    def __init__(self, path: Path, files: OpenFiles) -> None:
        """The file is made if it is not there. Raises RecordError, KAFKA_STORAGE_ERROR."""
        self.path = path
        self._files = files
        #: The file has bytes beyond `size`, which could not be cut off yet.
        self._torn = False
        self._flushed = False
        try:
            self.size = os.fstat(files.descriptor(path)).st_size
        except OSError as error:
            raise storage_error(f"opening {path}", error) from error

    def append(self, data: bytes | bytearray) -> None:
        start = self.size
        try:
            descriptor = self._files.descriptor(self.path)
            if self._torn:
                os.ftruncate(descriptor, start)
                self._torn = False
            self._flushed = False
            written = _write(descriptor, data, start)
            while written < len(
                data
            ):  # A disk that is nearly full takes a part, and says why with the next.
                written += _write(descriptor, data[written:], start + written)
        except OSError as error:
            self._torn = True
            try:
                self._cut(start)
            except OSError:
                pass  # With the next append; at the next start, recovery does it.
            raise storage_error(
                f"writing {len(data)} bytes at {start} of {self.path}", error
            ) from error
        self.size = start + len(data)

    def read(self, position: int, size: int) -> bytes:
        try:
            data = _read(self._files.descriptor(self.path), size, position)
            while len(data) < size:
                more = _read(
                    self._files.descriptor(self.path), size - len(data), position + len(data)
                )
                if not more:
                    raise RecordError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"{self.path} has {position + len(data)} bytes, wanted {size} at {position}",
                    )
                data += more
        except OSError as error:
            raise storage_error(
                f"reading {size} bytes at {position} of {self.path}", error
            ) from error
        return data

    def truncate(self, size: int) -> None:
        try:
            self._cut(size)
        except OSError as error:
            raise storage_error(f"cutting {self.path} to {size} bytes", error) from error
        self.size = size

    def _cut(self, size: int) -> None:
        os.ftruncate(self._files.descriptor(self.path), size)
        self._flushed = False
        self._torn = False

    def flush(self) -> None:
        if self._flushed:
            return
        try:
            os.fsync(self._files.descriptor(self.path))
        except OSError as error:
            raise storage_error(f"forcing {self.path} to the disk", error) from error
        self._flushed = True

    def close(self) -> None:
        self._files.close(self.path)

    def delete(self) -> None:
        self._files.close(self.path)
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(f"deleting {self.path}", error) from error


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
