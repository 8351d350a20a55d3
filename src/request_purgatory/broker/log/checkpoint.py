"""A small file that holds one number, which is replaced as a whole or not at all."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from request_purgatory.broker.log.errors import storage_error

logger = logging.getLogger(__name__)

_VERSION = "0"


class OffsetCheckpoint:
    """An offset in a file."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> int | None:
        """The offset.

        None if none was written, or, with a warning, if the file is not one of these.
        """
        try:
            text = self.path.read_text("ascii", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(f"reading {self.path}", error) from error
        lines = text.split("\n")
        if len(lines) == 3 and lines[0] == _VERSION and lines[1].isdecimal() and not lines[2]:
            return int(lines[1])
        logger.warning("%s holds no offset but %r: it is left out", self.path, text[:100])
        return None

    def write(self, offset: int) -> None:
        """Replace the offset, and force it to the disk.

        Raises:
            RecordError: KAFKA_STORAGE_ERROR; the offset is the one before.
        """
        partial = self.path.with_suffix(".tmp")
        try:
            with partial.open("w", encoding="ascii", newline="\n") as file:
                file.write(f"{_VERSION}\n{offset}\n")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
            flush_folder(self.path.parent)
        except OSError as error:
            raise storage_error(f"writing {offset} to {self.path}", error) from error


def flush_folder(folder: Path) -> None:
    """Force a folder's names to the disk, on systems where that can be asked for.

    Raises OSError.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
