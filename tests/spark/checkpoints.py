"""Checkpoints of Spark's streams, as a failure leaves them."""

from __future__ import annotations

from pathlib import Path


def as_before_its_end(checkpoint: Path, batch: int) -> None:
    """As if the stream had been killed when a batch had been written, and Spark had not noted so yet."""
    for log, first in (("offsets", batch + 1), ("commits", batch)):
        for file in (checkpoint / log).iterdir():
            number = file.name.strip(".").removesuffix(".crc")
            if number.isdigit() and int(number) >= first:
                file.unlink()
