"""The program that tests run on a cluster.

It prints facts about the workers as one line of JSON, and then runs `purgatory` with its arguments.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

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


def find_facts(spark: SparkSession) -> dict[str, Any]:
    """Return facts about the workers and the session, and the agreement of replay and batch."""
    workers = (
        spark.range(0, 8, 1, 8)
        .mapInArrow(probe, "file string, compiled boolean, prefix string")
        .distinct()
        .collect()
    )
    requests, events = workload_trace(spark, replace(CASES["high"], requests=500, hosts=2))
    replayed = replay(requests, events).where("kind = 'outcomes'").select(*OUTCOMES.names)
    found = (
        replayed.unionByName(outcomes_of(batch_outcomes(requests, events)))
        .groupBy(*OUTCOMES.names)
        .agg(F.count("*").alias("times"))
    )
    counts = found.agg(F.count("*"), F.count_if(F.col("times") == 2)).first()
    assert counts is not None
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
        "requests": counts[0],
        "alike": counts[1],
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
