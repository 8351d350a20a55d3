"""Shards as earlier code stored them, in the middle of a stream: `layouts/layout_N.json`.

Each file was written by the code of its layout, by running this script on a checkout of that code
(e3655b8 for layout 2):

    PYTHONPATH=CHECKOUT/src:CHECKOUT python tests/spark/layout_fixtures.py layout_2.json
"""

from __future__ import annotations

import base64
import json
import random
import sys
from pathlib import Path
from typing import Any

from tests.spark.naive_trace import TraceEvent, TraceRequest

FOLDER = Path(__file__).with_name("layouts")
#: Batches after which the shard's blobs are in the file.
STOPS = (3, 12, 25)
_BATCH_ROWS = 20

#: A watermark, and the rows of the batch.
Batch = tuple[int, list[TraceRequest], list[TraceEvent]]


def history() -> list[Batch]:
    """Return a stream's batches: the same ones for every layout, without quorums."""
    draw = random.Random(17)
    keys = [f"k{number}" for number in range(90)]
    found = [
        TraceRequest(
            f"r{number}",
            draw.randrange(1, 600_000),
            draw.choice([0, 50, 200, 400, 900]),
            draw.choices(keys, k=draw.choice([0, 1, 1, 2, 3])),
            draw.choice(["count", "sum", "max"]),
            draw.choice([0.5, 1, 2, 3.25, 7]),
            draw.choice(["all", "any"]),
        )
        for number in range(200)
    ]
    # A key that is listed twice counts twice for `all`.
    found.append(TraceRequest("twice", 5_000, 900, ["k1", "k1", "k2"], "count", 1, "all"))
    events = [
        TraceEvent(draw.choice(keys), draw.randrange(1, 600_000), draw.choice([0.25, 0.5, 1, 2, 5]))
        for _ in range(350)
    ]
    rows: list[tuple[int, Any]] = [(request.arrived_us, request) for request in found]
    rows += [(event.occurred_us, event) for event in events]
    rows.sort(key=lambda row: row[0])
    batches = []
    for start in range(0, len(rows), _BATCH_ROWS):
        batch = [row for _, row in rows[start : start + _BATCH_ROWS]]
        # Far enough behind that rows which the watermark has not reached are stored as well.
        watermark_us = rows[max(start - _BATCH_ROWS, 0)][0] - 1
        batches.append(
            (
                watermark_us,
                [row for row in batch if isinstance(row, TraceRequest)],
                [row for row in batch if isinstance(row, TraceEvent)],
            )
        )
    return batches


def main(target: Path) -> None:
    """Write what the imported code stores, and the ends that it returned until then."""
    # Imported here: the tests read the files with another version of it.
    from tests.spark.test_shard import ShardHarness

    stream = ShardHarness()
    stops = []
    for number, (watermark_us, found, events) in enumerate(history()):
        stream.step(watermark_us, found, events)
        if number in STOPS:
            blobs = {
                name: base64.b64encode(blob).decode("ascii")
                for name, blob in sorted(stream.blobs.items())
            }
            stops.append(
                {
                    "batch": number,
                    "next_due_us": stream.next_due_us,
                    "pending": stream.pending,
                    "ended": {name: list(end) for name, end in sorted(stream.ended().items())},
                    "blobs": blobs,
                }
            )
    target.write_text(json.dumps(stops, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
