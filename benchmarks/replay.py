"""A trace through the real purgatory on Spark: requests per second of both cores.

`source=files` reads requests and events from Parquet, collects those of each host, replays them,
and counts the resulting rows. `source=made` does the same as `purgatory simulate`: each host's
trace is generated where it is replayed, and the results are sums. Each request has one watch key.
"""

from __future__ import annotations

from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks import peers
from benchmarks.question import Case
from benchmarks.stream_data import StreamData
from purgatory_spark._outcomes.replay import LEGACY, WHEEL, ReplaySettings, replay
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._simulation.cluster_simulation import simulate
from purgatory_spark._spark.session import create_session
from purgatory_spark._traces.workload import CASES, cluster_workload

QUESTION = "replay"
METRICS = {"requests_per_second": "1/s"}
SIDES = (peers.OURS, peers.LEGACY)

_HOSTS = 32
_RATE_PER_HOST = 2_500.0
_BIN_US = 1_000_000


def cases(quick: bool) -> list[Case]:
    """Return cases from files with few and many pending requests, and one with made traces."""
    requests = 96_000 if quick else 1_920_000
    files = [
        Case({"source": "files", "requests": requests, "pending": pending}, requests, max_rounds=1)
        for pending in ((1_000,) if quick else (1_000, 100_000))
    ]
    return [*files, Case({"source": "made", "requests": 2 * requests}, 2 * requests)]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(
    side: str, requests: int, source: str, pending: int = 0, passes: int = 3
) -> dict[str, float]:
    """Measure the replay of a trace.

    Args:
        side: One of `SIDES`.
        requests: The number of requests in the trace.
        source: `files` or `made`.
        pending: The number of requests of the files that wait at a time.
        passes: The number of passes in this process; the fastest counts.

    Returns:
        requests_per_second.

    Raises:
        RuntimeError: A request did not end.
    """
    spark = create_session("request-purgatory benchmarks", master="local[2]")
    settings = ReplaySettings(design=LEGACY if side == peers.LEGACY else WHEEL)
    seconds = []
    for _ in range(passes):
        counted = (
            _replayed(spark, settings, requests, pending)
            if source == "files"
            else _made(spark, settings, requests)
        )
        begun = perf_counter()
        ended = counted.collect()[0][0]
        seconds.append(perf_counter() - begun)
        if ended != requests:
            raise RuntimeError(f"{ended:,} of {requests:,} requests have ended")
    return {"requests_per_second": requests / min(seconds)}


def _replayed(
    spark: SparkSession, settings: ReplaySettings, requests: int, pending: int
) -> DataFrame:
    folder = StreamData(requests, pending).make(spark)
    table, events = (
        spark.read.schema(schema).parquet(str(folder / kind))
        for kind, schema in (("requests", REQUESTS), ("events", EVENTS))
    )
    return (
        replay(table, events, settings)
        .where(F.col("outcome").isNotNull())
        .agg(F.count("*"), F.sum("waited_ms"))
    )


def _made(spark: SparkSession, settings: ReplaySettings, requests: int) -> DataFrame:
    workload = cluster_workload(
        CASES["low"],
        hosts=_HOSTS,
        requests_per_host=requests // _HOSTS,
        rate_per_host=_RATE_PER_HOST,
        shared_keys=0,
    )
    hosts = simulate(spark, workload, settings, bin_us=_BIN_US).where("kind = 'hosts'")
    return hosts.agg(F.sum("hosts.completed") + F.sum("hosts.expired"))
