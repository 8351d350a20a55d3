"""A cluster's data directory, which is one cluster's at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from request_purgatory.errors import InvalidArgumentError

_LOCK = "lock"


class DataDir:
    """Holds a directory for a cluster until it is released or the process ends, however that ends."""

    def __init__(self, folder: Path) -> None:
        """Make the directory, and hold it.

        Raises:
            InvalidArgumentError: another cluster has it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = (folder / _LOCK).open("a")
        try:
            _lock(self._file)
        except OSError:
            self._file.close()
            raise InvalidArgumentError(
                "data_dir", "no other running cluster's", str(folder)
            ) from None

    def release(self) -> None:
        """Let others have it; may be repeated."""
        self._file.close()


def _lock(file: IO[str]) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
