"""A lock on a cluster's data directory, so that only one cluster uses it at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from request_purgatory.errors import InvalidArgumentError

_LOCK_FILE = "lock"


class DataDir:
    """Locks a directory until `release` or the end of the process, however the process ends."""

    def __init__(self, folder: Path) -> None:
        """Create the directory if necessary, and lock it."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = (folder / _LOCK_FILE).open("a")
        try:
            _lock(self._file)
        except OSError:
            self._file.close()
            raise InvalidArgumentError(
                "data_dir", "a directory that no other running cluster uses", str(folder)
            ) from None

    def release(self) -> None:
        """Unlock the directory. Further calls do nothing."""
        self._file.close()


def _lock(file: IO[str]) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
