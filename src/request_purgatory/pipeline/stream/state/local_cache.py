"""Copies of a shard's tables on the executor's own disk, to be read in place instead of through the state store."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

logger = logging.getLogger(__name__)


class Copies:
    """Uncompressed tables in files that are mapped into memory.

    The state store has everything; what is here only spares reading it. A name stands for one
    content for ever, so a copy is never out of date, and one that is missing is made anew: after a
    restart, on another executor, or when the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of_worker(cls, lineage: str) -> Copies | None:
        """In the folder that Spark gives its Python workers and removes with the executor; None without one.

        Args:
            lineage: the shard's, which no other shard of any stream has.
        """
        local = os.environ.get("SPARK_LOCAL_DIRS")
        return cls(Path(local.split(",")[0]) / "request-purgatory" / lineage) if local else None

    def get(self, name: str) -> pa.Table | None:
        """The table of that name, if there is a copy."""
        try:
            with pa.memory_map(str(self._folder / name)) as file:
                return pa.ipc.open_stream(file).read_all()
        except (OSError, pa.ArrowInvalid):
            return None

    def put(self, name: str, table: pa.Table) -> None:
        """Make a copy, if the disk takes it."""
        # Another attempt at the same step may be writing, too.
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
                "no copy of a shard's state in %s, so it is read from the state store: %s",
                self._folder,
                error,
            )

    def keep(self, names: Iterable[str]) -> None:
        """Remove all other copies.

        What is not used any longer, and what an attempt that failed has left.
        """
        wanted = set(names)
        try:
            for file in list(os.scandir(self._folder)):
                if file.name not in wanted:
                    os.unlink(file.path)
        except OSError:
            # Not there, or another attempt has removed it: nothing is lost either way.
            logger.debug("copies in %s were not tidied", self._folder, exc_info=True)
