"""A program like those of users: a session with default settings, a workload, a replay and a batch.

It prints the session's settings and the comparison of replay and batch as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from purgatory_spark._analysis.agreement import compare_replays
from purgatory_spark._analysis.replay_folder import write_replays
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.replay import ReplaySettings, replay_designs
from purgatory_spark._spark.session import create_session
from purgatory_spark._traces.trace_folder import make_workload_trace
from purgatory_spark._traces.workload import Workload

#: Several hosts, and more shuffle partitions than hosts.
WORKLOAD = Workload(requests=4_000, hosts=3, rate=5_000.0)


def java_options(spark: SparkSession) -> list[str]:
    """Return the options of the session's JVM, including `-D` ones."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    management = jvm.java.lang.management.ManagementFactory
    return list(management.getRuntimeMXBean().getInputArguments())


def main(folder: Path) -> None:
    """Replay a workload in the empty `folder`, compare it with the batch, and print the result."""
    spark = create_session()
    folders = [folder / "trace", folder / "replay"]
    for subfolder in folders:
        subfolder.mkdir()
    trace = make_workload_trace(spark, WORKLOAD, folders[0])
    requests, events = trace.requests(spark), trace.events(spark)
    settings = ReplaySettings()
    replayed = write_replays(
        replay_designs(requests, events, [settings]), {folders[1]: settings.parameters()}
    )
    (compared,) = compare_replays(spark, batch_outcomes(requests, events), replayed).to_pylist()
    names = [*spark.conf.getAll, "spark.sql.adaptive.enabled"]
    result = {
        "settings": {name: spark.conf.get(name) for name in names},
        "java_options": java_options(spark),
        "compared": compared,
    }
    spark.stop()
    print("found: " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
