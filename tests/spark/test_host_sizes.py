"""Hosts that are too large for a Python worker.

Cut by key where they can be, and otherwise refused before any work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.outcomes.batch import batch_outcomes
from request_purgatory.pipeline.spark.host_sizes import (
    BATCH,
    REPLAY,
    HostTooLargeError,
    parts_of_hosts,
    require_hosts_fit,
)
from request_purgatory.pipeline.traces.workload import Workload, workload_trace

#: A worker, and room for a little: some 2,000 requests with one key.
MAX_WORKER_MB = BATCH.worker // 2**20 + 1
ONE_KEY = Workload(requests=6_000, hosts=4, shared_keys=0)

Tables = tuple[DataFrame, DataFrame]


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> Iterator[Tables]:
    """Make requests and events whose hosts are all small, once."""
    tables = [table.persist() for table in workload_trace(spark, ONE_KEY)]
    yield tables[0], tables[1]
    for table in tables:
        table.unpersist()


def one_large_host(trace: Tables) -> Tables:
    """Make hosts 1 to 3 one, and leave host 0 as it is."""
    host = F.when(F.col("host") == "host-0", F.col("host")).otherwise("large")
    requests, events = (table.withColumn("host", host) for table in trace)
    return requests, events


def test_hosts_that_fit_are_not_cut(trace: Tables) -> None:
    """Nor refused, whatever for."""
    requests, events = trace
    assert parts_of_hosts(requests, events, 1_000) == {}
    for need in (BATCH, REPLAY):
        require_hosts_fit(requests, events, need, 1_000)


def test_large_host_is_cut_by_key_and_its_outcomes_are_the_same(trace: Tables) -> None:
    """Only that one.

    The parts meet the events of their keys, and what has no key is in some part, too.
    """
    requests, events = one_large_host(trace)
    without = F.col("request_id").endswith("7")
    keys = F.when(without, F.array().cast("array<string>")).otherwise(F.col("watch_keys"))
    large = (requests.withColumn("watch_keys", keys), events)
    parts = parts_of_hosts(*large, MAX_WORKER_MB)
    assert parts.keys() == {"large"}
    assert parts["large"] > 1
    tables = batch_outcomes(*large, parts=parts), batch_outcomes(*large)
    cut, whole = (table.toArrow().sort_by("request_id") for table in tables)
    assert cut.num_rows == ONE_KEY.requests
    assert cut.equals(whole)


def test_large_host_with_requests_of_several_keys_is_refused_by_name(trace: Tables) -> None:
    """With what it holds, and what to do."""
    requests, events = one_large_host(trace)
    requests = requests.withColumn("watch_keys", F.array_append("watch_keys", F.lit("shared")))
    with pytest.raises(
        HostTooLargeError,
        match=r"host 'large' has 4,\d+ requests and 4,\d+ events.*several.*more memory",
    ):
        parts_of_hosts(requests, events, MAX_WORKER_MB)


def test_key_that_is_too_large_alone_is_refused_by_name(trace: Tables) -> None:
    """As cutting does not help."""
    requests, events = one_large_host(trace)
    requests = requests.withColumn("watch_keys", F.array(F.lit("hot")))
    with pytest.raises(HostTooLargeError, match="for the key 'hot' alone"):
        parts_of_hosts(requests, events, MAX_WORKER_MB)


def test_replay_of_a_large_host_is_refused_by_name(trace: Tables) -> None:
    """A purgatory is not cut."""
    large = one_large_host(trace)
    with pytest.raises(
        HostTooLargeError,
        match=r"^host 'large' has .* MB: more than max_worker_mb=171, and a replay takes a host",
    ):
        require_hosts_fit(*large, REPLAY, MAX_WORKER_MB)


def test_limit_below_what_a_worker_takes_is_refused(trace: Tables) -> None:
    """Whatever the hosts are."""
    with pytest.raises(InvalidArgumentError, match="max_worker_mb must be more than 170"):
        require_hosts_fit(*trace, REPLAY, 100)
