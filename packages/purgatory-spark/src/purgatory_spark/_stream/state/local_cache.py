"""A cache of a shard's tables on the executor's own disk.

Reading a memory-mapped file in place is cheaper than reading through Spark's state store.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

logger = logging.getLogger(__name__)


class LocalCache:
    """Uncompressed Arrow tables in memory-mapped files, one folder per shard.

    The state store holds the same tables; the cache only saves reading them from there. A name is
    never used for other contents, so an entry is never stale. A missing entry is written again:
    after a restart, on another executor, or when the disk was full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def for_shard(cls, lineage: str) -> LocalCache | None:
        """Return a shard's cache on this executor, or None outside of a Spark worker.

        It is in a folder that Spark gives its Python workers and removes with the executor.
        """
        local = os.environ.get("SPARK_LOCAL_DIRS")
        return cls(Path(local.split(",")[0]) / "request-purgatory" / lineage) if local else None

    def get(self, name: str) -> pa.Table | None:
        """Return the table `name`, or None if it is missing or damaged."""
        try:
            with pa.memory_map(str(self._folder / name)) as file:
                return pa.ipc.open_stream(file).read_all()
        except (OSError, pa.ArrowInvalid):
            return None

    def put(self, name: str, table: pa.Table) -> None:
        """Write a table; log a warning if the disk refuses it."""
        # Another attempt at the same step may be writing the same name: the rename is atomic.
        unfinished = self._folder / f"{name}.{secrets.token_hex(4)}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (
                pa.OSFile(str(unfinished), "wb") as file,
                pa.ipc.new_stream(file, table.schema) as writer,
            ):
                writer.write_table(table)
            unfinished.rename(self._folder / name)
        except OSError as error:
            logger.warning(
                "cannot cache a shard's state in %s, reading it from the state store instead: %s",
                self._folder,
                error,
            )

    def retain_only(self, names: Iterable[str]) -> None:
        """Remove all other files: entries no longer used, and leftovers of failed attempts."""
        wanted = set(names)
        try:
            for file in list(os.scandir(self._folder)):
                if file.name not in wanted:
                    os.unlink(file.path)
        except OSError:
            # The folder does not exist, or another attempt removed the file first. Either way
            # nothing is lost.
            logger.debug("could not remove old files from %s", self._folder, exc_info=True)
