"""Files that tests download: kept between runs, and downloaded by one process at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

#: Where downloads are kept, below the repository; REQUEST_PURGATORY_DOWNLOADS names another folder.
FOLDER = Path(os.environ.get("REQUEST_PURGATORY_DOWNLOADS", "build/downloads")).resolve()

#: Seconds that one process waits for another one's download.
TIME_LIMIT = 900.0


@contextmanager
def download_folder(name: str) -> Iterator[Path]:
    """Lock the folder of one kind of download for a block; other processes wait.

    Args:
        name: The kind, `kafka-jars` for instance.

    Yields:
        The folder, which exists.

    Raises:
        filelock.Timeout: Another process held the folder for `TIME_LIMIT` seconds.
    """
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(FOLDER / f"{name}.lock", timeout=TIME_LIMIT):
        yield folder
