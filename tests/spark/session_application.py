"""A program as a user writes it: a session with nothing set, and a trace from workload to comparison.

It prints the session's settings and the comparison as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from request_purgatory.pipeline.analysis.analysis import compare, write_replay
from request_purgatory.pipeline.outcomes.batch import batch_outcomes
from request_purgatory.pipeline.outcomes.replay import ReplaySettings, replay
from request_purgatory.pipeline.spark.session import create_session
from request_purgatory.pipeline.traces.trace_folder import make_workload_trace
from request_purgatory.pipeline.traces.workload import Workload

#: Several hosts, and more shuffle partitions than hosts.
WORKLOAD = Workload(requests=4_000, hosts=3, rate=5_000.0)


def java_options(spark: SparkSession) -> list[str]:
    """Return the options that the session's JVM was started with, `-D` ones among them."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    management = jvm.java.lang.management.ManagementFactory
    return list(management.getRuntimeMXBean().getInputArguments())


def main(folder: Path) -> None:
    """Write the trace and its replay, compare the replay with the batch outcomes, and print.

    Args:
        folder: The folder to write into, which exists and is empty.
    """
    spark = create_session()
    places = [folder / "trace", folder / "replay"]
    for place in places:
        place.mkdir()
    trace = make_workload_trace(spark, WORKLOAD, places[0])
    requests, events = trace.requests(spark), trace.events(spark)
    settings = ReplaySettings()
    replayed = write_replay(replay(requests, events, settings), settings.parameters(), places[1])
    (compared,) = compare(spark, batch_outcomes(requests, events), replayed).collect()
    names = [*spark.conf.getAll, "spark.sql.adaptive.enabled"]
    told = {
        "settings": {name: spark.conf.get(name) for name in names},
        "java_options": java_options(spark),
        "compared": compared.asDict(),
    }
    spark.stop()
    print("found: " + json.dumps(told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
