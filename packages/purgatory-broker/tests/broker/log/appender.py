"""A process that appends to a log until it is killed; `test_kill` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, batch


def main(folder: Path) -> None:
    """Append for ever; print each append's last offset when the append has returned."""
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
