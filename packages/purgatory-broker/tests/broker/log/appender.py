"""A process that appends to a log until it is killed; `test_kill` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, batch
from tests.broker.log.transactions import end, write


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


def write_transactions(folder: Path) -> None:
    """Run transactions for ever; print the offset of each marker, and whether it commits."""
    log = PartitionLog.open("t-0", folder, LogSettings(segment_bytes=20_000))
    numbers = dict.fromkeys((3, 4, 5), 0)
    sequences = dict.fromkeys(numbers, 0)
    print("ready", flush=True)
    while True:
        for producer_id, number in numbers.items():
            # The producers' transactions overlap.
            for _ in range(number % 4 + 1):
                value = b"%d-%d" % (producer_id, number)
                write(log, value, producer_id=producer_id, sequence=sequences[producer_id])
                sequences[producer_id] += 1
            if number % 2 == producer_id % 2:
                is_commit = number % 3 != 0
                marker = end(log, commit=is_commit, producer_id=producer_id)
                print(marker, producer_id, int(is_commit), flush=True)
            numbers[producer_id] += 1


if __name__ == "__main__":
    {"batches": main, "transactions": write_transactions}[sys.argv[2]](Path(sys.argv[1]))
