"""A program that ships the package to a Spark Connect server whose Python does not have it.

It reads the folders `requests` and `events` where it runs, writes the folder `outcomes`, imports a
table, and prints what it found as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from trace_application import CALLS

from purgatory_spark import Trace, create_session, ship_package
from purgatory_spark._spark.workers import WorkersError


def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the location of the package on a worker."""
    import purgatory_spark

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [purgatory_spark.__file__]})


def main() -> None:
    """Ship the package, compute and replay the trace, and import a table."""
    spark = create_session()
    here = Path.cwd()
    tables = [spark.read.parquet(str(here / name)) for name in ("requests", "events")]
    trace = Trace(*tables)
    try:
        trace.outcomes().count()
    except WorkersError as error:
        before = str(error)
    else:
        raise AssertionError("the server has the package")
    settings, path = dict(spark.conf.getAll), list(sys.path)
    ship_package(spark)
    # A notebook's cell may run again.
    ship_package(spark)
    (compared,) = trace.replay().compare().collect()
    trace.outcomes().write.parquet(str(here / "outcomes"))
    imported = Trace.from_table(
        spark.createDataFrame(CALLS, "server string, start bigint, took double"),
        host="server",
        arrived_at="start",
        service_ms="took",
        timeout_ms=100,
        time_unit="ms",
    )
    workers = spark.range(0, 8, 1, 8).mapInArrow(probe, "file string").distinct().collect()
    found = {
        "before": before,
        "settings_changed": sorted(settings.items() ^ dict(spark.conf.getAll).items()),
        "path_changed": sorted(set(path) ^ set(sys.path)),
        "compared": compared.asDict(),
        "imported": sorted(
            (row["host"], row["outcome"], row["waited_ms"]) for row in imported.outcomes().collect()
        ),
        "rejects": [row["reason"] for row in imported.rejects().collect()],
        "workers": [row.asDict() for row in workers],
    }
    print("found: " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
