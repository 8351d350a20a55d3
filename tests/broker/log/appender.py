"""Appends to a log until it is killed, and reports each append: run by `test_kill`."""

from __future__ import annotations

import sys
from pathlib import Path

from request_purgatory.broker.log import LogSettings, PartitionLog
from tests.broker.log.batches import NOW, batch


def main(folder: Path) -> None:
    """Each line of the output is the last offset of an append that has returned, and the producer's sequence in it."""
    log = PartitionLog.open("t-0", folder, LogSettings(segment_bytes=200_000))
    sequence = 0
    print("ready", flush=True)
    while True:
        values = [b"%d" % sequence * 50] * (sequence % 5 + 1)
        data = batch(*values, producer=(3, 0, sequence))
        appended = log.append_as_leader(data, 1 + sequence // 1_000, NOW)
        sequence += len(values)
        print(appended.last_offset, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
