"""A file that holds one offset, and is replaced atomically."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from purgatory_broker.log.log_errors import storage_errors

logger = logging.getLogger(__name__)

_VERSION = "0"


@dataclass(frozen=True, slots=True)
class OffsetCheckpoint:
    path: Path

    def read(self) -> int | None:
        """Return the offset; None if there is no file, or, with a warning, no offset in it."""
        with storage_errors(f"reading {self.path}"):
            try:
                text = self.path.read_text("ascii", "replace")
            except FileNotFoundError:
                return None
        lines = text.split("\n")
        if len(lines) == 3 and lines[0] == _VERSION and lines[1].isdecimal() and not lines[2]:
            return int(lines[1])
        logger.warning("%s is ignored: it holds no offset but %r", self.path, text[:100])
        return None

    def write(self, offset: int) -> None:
        with storage_errors(f"writing {offset} to {self.path}"):
            replace_file(self.path, ".tmp", f"{_VERSION}\n{offset}\n")


def replace_file(path: Path, partial_suffix: str, content: str) -> None:
    """Replace a file atomically, and flush it to the disk; `content` is ASCII."""
    partial = path.with_suffix(partial_suffix)
    with partial.open("w", encoding="ascii", newline="\n") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Flush the names of a folder's files to the disk, on systems that support this."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
