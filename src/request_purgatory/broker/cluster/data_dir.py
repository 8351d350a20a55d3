"""A cluster's data directory: only one cluster uses it at a time, and only with its metadata."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from request_purgatory.broker.metadata.metadata_file import FILE_NAME
from request_purgatory.broker.replication.log_directory import partition_folders
from request_purgatory.errors import InvalidArgumentError

_LOCK_FILE = "lock"


class DataDir:
    """Locks a directory until `release` or the end of the process, however the process ends."""

    def __init__(self, folder: Path) -> None:
        """Create the directory if necessary, and lock it.

        Raises:
            InvalidArgumentError: another cluster has locked it, or it has logs and no metadata.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = (folder / _LOCK_FILE).open("a")
        try:
            _lock(self._file)
        except OSError:
            self._file.close()
            raise InvalidArgumentError(
                "data_dir", "a directory that no other running cluster uses", str(folder)
            ) from None
        try:
            _require_metadata(folder)
        except BaseException:
            self._file.close()
            raise

    def release(self) -> None:
        """Unlock the directory. Further calls do nothing."""
        self._file.close()


def _require_metadata(folder: Path) -> None:
    """Refuse logs whose metadata is lost: the nodes would delete them as those of no topic.

    Raises:
        InvalidArgumentError: there are logs, and no metadata.
    """
    if (folder / FILE_NAME).exists():
        return
    for node in sorted(folder.glob("node-*")):
        logs = sorted(partition_folders(node)) if node.is_dir() else []
        if logs:
            raise InvalidArgumentError(
                "data_dir",
                f"a directory with the {FILE_NAME} of its logs, or without logs such as "
                f"{logs[0].relative_to(folder).as_posix()}",
                str(folder),
            )


def _lock(file: IO[str]) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
