"""The program that tests run on a cluster.

It prints facts about the workers as one line of JSON, and then runs `purgatory` with its arguments.
With the variable `KILLS`, a folder that all machines see, a task of the batch and one of the replay
kill the worker that they run on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from purgatory_command import main as run_command
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.replay import replay
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import OUTCOMES
from purgatory_spark._spark.session import create_session
from purgatory_spark._traces.workload import CASES
from purgatory_spark._traces.workload_blocks import workload_trace


def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the locations of the package and the interpreter on a worker."""
    import request_purgatory

    for _ in batches:
        found = {
            "file": [request_purgatory.__file__],
            "compiled": [request_purgatory.__compiled__],
            "prefix": [sys.prefix],
        }
        yield pa.RecordBatch.from_pydict(found)


def killing(table: DataFrame, name: str) -> DataFrame:
    """Return a table; the first task that reads it kills its worker, and leaves the file `name`."""
    folder = os.environ.get("KILLS")
    if folder is None:
        return table
    left = Path(folder) / name

    def kill_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            try:
                left.touch(exist_ok=False)
            except FileExistsError:
                continue
            # The daemon that forked this process is a child of the executor, which is the worker's.
            executor = parent_of(os.getppid())
            for pid in (parent_of(executor), executor):
                os.kill(pid, signal.SIGKILL)

    return table.mapInArrow(kill_worker, table.schema)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def find_facts(spark: SparkSession) -> dict[str, Any]:
    """Return facts about the workers and the session, and the agreement of replay and batch."""
    workers = (
        spark.range(0, 8, 1, 8)
        .mapInArrow(probe, "file string, compiled boolean, prefix string")
        .distinct()
        .collect()
    )
    requests, events = workload_trace(spark, replace(CASES["high"], requests=500, hosts=2))
    batch = outcomes_of(batch_outcomes(requests, killing(events, "batch")))
    # Each is computed by a job of its own, and once.
    replayed = replay(requests, killing(events, "replay")).where("kind = 'outcomes'")
    rows = [
        sorted(map(tuple, table.select(*OUTCOMES.names).collect())) for table in (batch, replayed)
    ]
    names = (
        "spark.master",
        "spark.sql.shuffle.partitions",
        "spark.sql.session.timeZone",
        "spark.app.name",
    )
    return {
        "workers": [row.asDict() for row in workers],
        "settings": {name: spark.conf.get(name, None) for name in names},
        "memory": spark.conf.get("spark.driver.memory", None),
        "requests": len(rows[0]),
        "alike": sum(ours == theirs for ours, theirs in zip(*rows, strict=True)),
        "distinct": len(set(rows[0])),
    }


def main() -> int:
    """Run the checks and the command, and return the command's exit code."""
    spark = create_session()
    try:
        found = find_facts(spark)
    except Exception:
        # A JVM that exits kills its local cluster's executors first, and starts others in vain.
        spark.stop()
        raise
    print("found: " + json.dumps(found), flush=True)
    return run_command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
