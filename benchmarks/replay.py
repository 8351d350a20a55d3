"""A trace through the real purgatory on Spark: requests per second of both cores, from Parquet files to rows that are counted."""

from __future__ import annotations

from time import perf_counter

from pyspark.sql import functions as F  # noqa: N812

from benchmarks import peers
from benchmarks.question import Case
from benchmarks.stream_data import StreamData
from request_purgatory.pipeline.replay import LEGACY, WHEEL, ReplaySettings, replay
from request_purgatory.pipeline.schema import EVENTS, REQUESTS
from request_purgatory.pipeline.session import create_session

QUESTION = "replay"
METRICS = {"requests_per_second": "1/s"}
SIDES = (peers.OURS, peers.LEGACY)


def cases(quick: bool) -> list[Case]:
    """One key a request, and few or many pending."""
    requests = 100_000 if quick else 2_000_000
    return [
        Case({"requests": requests, "pending": pending}, requests, most_rounds=1)
        for pending in ((1_000,) if quick else (1_000, 100_000))
    ]


def left_out(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """None."""
    return None


def measure(side: str, requests: int, pending: int) -> dict[str, float]:
    """The best of two passes in one process; RuntimeError if not every request has ended."""
    spark = create_session("request-purgatory benchmarks", master="local[2]")
    folder = StreamData(requests, pending).make(spark)
    tables = [
        spark.read.schema(schema).parquet(str(folder / kind)) for kind, schema in (("requests", REQUESTS), ("events", EVENTS))
    ]
    seconds = []
    for _ in range(2):
        replayed = replay(tables[0], tables[1], ReplaySettings(design=LEGACY if side == peers.LEGACY else WHEEL))
        begun = perf_counter()
        ended = replayed.where(F.col("outcome").isNotNull()).agg(F.count("*"), F.sum("waited_ms")).collect()[0][0]
        seconds.append(perf_counter() - begun)
        if ended != requests:
            raise RuntimeError(f"{ended:,} of {requests:,} requests have ended")
    return {"requests_per_second": requests / min(seconds)}
