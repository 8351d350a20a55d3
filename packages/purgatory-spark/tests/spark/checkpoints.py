"""Checkpoints of Spark streams in the state that a failure leaves."""

from __future__ import annotations

from pathlib import Path


def remove_commit(checkpoint: Path, batch: int) -> None:
    """Undo the commit of a batch, as if the stream was killed just after writing its output."""
    for log, first in (("offsets", batch + 1), ("commits", batch)):
        for file in (checkpoint / log).iterdir():
            number = file.name.strip(".").removesuffix(".crc")
            if number.isdigit() and int(number) >= first:
                file.unlink()
