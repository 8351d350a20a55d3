"""Write a table in each of some formats, import it, and print what each source gives as JSON.

It runs in a JVM of its own, whose packages are in `spark-defaults.conf`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from purgatory_spark import Trace
from purgatory_spark._traces.trace_reader import ImportSettings

CALLS = [
    ("web", 1_000, 20.0, ["a", "b"]),
    ("web", 1_010, 400.0, ["c"]),
    ("api", None, 1.0, ["c"]),
]
FIELDS: Any = {"host": "server", "arrived_at": "start", "service_ms": "took", "watch_keys": "keys"}
VALUES: Any = {"time_unit": "ms", "timeout_ms": 100}


def result_of(trace: Trace) -> list[Any]:
    """Return how the requests ended, and why rows were rejected."""
    outcomes = trace.outcomes().select("host", "outcome").collect()
    reasons = [row["reason"] for row in trace.rejects().collect()]
    trace.unpersist()
    return [sorted(map(list, outcomes)), reasons]


def write(calls: DataFrame, kind: str, folder: Path) -> list[str]:
    """Write the table in a format, and return the sources that it can be read from."""
    path = folder / f"calls {kind}"
    if kind == "iceberg":
        calls.writeTo("lake.db.calls").using("iceberg").create()
        stored = folder / "warehouse" / "db" / "calls"
        by_name = ["iceberg:lake.db.calls", "table:lake.db.calls"]
        return [*by_name, f"iceberg:{stored}", f"iceberg:{stored.as_uri()}"]
    calls.write.format(kind).partitionBy("server").save(str(path))
    calls.write.format(kind).saveAsTable(f"calls_{kind}")
    plain = folder / f"plain.{kind}"
    calls.coalesce(1).write.format(kind).save(str(plain))
    sources = [f"{kind}:{path}", f"{kind}:{plain.as_uri()}", f"table:calls_{kind}"]
    # A folder of files is known by their suffix.
    return [*sources, str(plain)] if kind == "avro" else sources


def main(folder: Path, kinds: Iterable[str]) -> None:
    """Print the results of each format's sources."""
    spark = SparkSession.builder.getOrCreate()
    schema = "server string, start bigint, took double, keys array<string>"
    calls = spark.createDataFrame(CALLS, schema)
    found: dict[str, list[Any]] = {}
    for kind in kinds:
        sources = write(calls, kind, folder)
        for source in sources:
            settings = ImportSettings(columns=FIELDS, **VALUES)
            found[source] = result_of(Trace.read(spark, source, settings))
        if kind == "iceberg":
            table = spark.read.table("lake.db.calls")
        else:
            table = spark.read.format(kind).load(str(folder / f"plain.{kind}"))
        found[f"from_table {kind}"] = result_of(Trace.from_table(table, **FIELDS, **VALUES))
    print("found: " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
