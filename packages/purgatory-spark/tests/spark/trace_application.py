"""A program with one `Trace`, for sessions in other processes, such as those of Spark Connect.

It prints what it found as one line of JSON, and makes the folder `report` where it runs.
"""

from __future__ import annotations

import json

from purgatory_spark import Trace
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._spark.session import create_session

CALLS = [("web", 1_000, 20.0), ("web", 1_010, 300.0), ("api", 1_020, None), ("api", None, 1.0)]


def main() -> None:
    """Make the trace, compute each of its results, and print them."""
    spark = create_session()
    calls = spark.createDataFrame(CALLS, "server string, start bigint, took double")
    trace = Trace.from_table(
        calls,
        host="server",
        arrived_at="start",
        service_ms="took",
        timeout_ms=100,
        time_unit="ms",
    ).cache()
    replay = trace.replay().cache()
    (compared,) = replay.compare().collect()
    report = trace.report("report", timeouts=[500])
    found = {
        "type": type(spark).__module__,
        "outcomes": sorted(row["outcome"] for row in trace.outcomes().collect()),
        "rejects": [row["reason"] for row in trace.rejects().collect()],
        "same": trace.outcomes()
        .drop("satisfied_at")
        .subtract(outcomes_of(batch_outcomes(trace.requests, trace.events)))
        .count(),
        "compared": compared.asDict(),
        "hosts": replay.hosts().count(),
        "expired": [row["expired"] for row in trace.what_if([10, 100, 500]).rows],
        "report": report._repr_html_(),
        "trace": repr(trace),
    }
    replay.unpersist()
    trace.unpersist()
    read = Trace.read(spark, "report/trace")
    found["read"] = sorted(row["outcome"] for row in read.outcomes().collect())
    print("found: " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
