"""The file in which a log notes that it was closed in an orderly way."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from purgatory_broker.log.errors import StorageError

_FILE_NAME = "clean-shutdown"
_VERSION = "0"


class CleanShutdown(NamedTuple):
    """Where a log ended when it was closed, with all of its records flushed."""

    end_offset: int
    #: The size of all segments.
    size_bytes: int


def write_clean_shutdown(folder: Path, shutdown: CleanShutdown) -> None:
    """Write the file. It is not flushed: without it, opening the log takes it for crashed."""
    path = folder / _FILE_NAME
    try:
        path.write_text(
            f"{_VERSION}\n{shutdown.end_offset}\n{shutdown.size_bytes}\n", "ascii", newline="\n"
        )
    except OSError as error:
        raise StorageError(f"writing {path} failed: {error}") from error


def read_clean_shutdown(folder: Path) -> CleanShutdown | None:
    """Return the content of the file; None if there is no such file, or not all of it."""
    path = folder / _FILE_NAME
    try:
        lines = path.read_text("ascii", "replace").split("\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"reading {path} failed: {error}") from error
    if len(lines) != 4 or lines[0] != _VERSION or lines[3]:
        return None
    if not (lines[1].isdecimal() and lines[2].isdecimal()):
        return None
    return CleanShutdown(int(lines[1]), int(lines[2]))


def delete_clean_shutdown(folder: Path) -> None:
    """Delete the file, if there is one, before the log changes."""
    path = folder / _FILE_NAME
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"deleting {path} failed: {error}") from error
