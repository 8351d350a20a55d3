"""Hosts that are too large for a Python worker: cut by key where they can be, and otherwise refused before any work."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.batch import batch_outcomes
from request_purgatory.pipeline.host_sizes import BATCH, REPLAY, HostTooLargeError, parts_of_hosts, require_hosts_fit
from request_purgatory.pipeline.workload import Workload, workload_trace

#: A worker, and room for a little: some 20,000 requests with one key.
MAX_WORKER_MB = BATCH.worker // 2**20 + 8
ONE_KEY = Workload(requests=60_000, hosts=4, shared_keys=0)


def one_large_host(spark: SparkSession, workload: Workload) -> tuple[DataFrame, DataFrame]:
    """A trace whose hosts 1 to 3 are one, and host 0 is as it was."""
    host = F.when(F.col("host") == "host-0", F.col("host")).otherwise("large")
    requests, events = workload_trace(spark, workload)
    return requests.withColumn("host", host), events.withColumn("host", host)


def test_hosts_that_fit_are_not_cut(spark: SparkSession) -> None:
    """Nor refused, whatever for."""
    requests, events = workload_trace(spark, ONE_KEY)
    assert parts_of_hosts(requests, events, 1_000) == {}
    for need in (BATCH, REPLAY):
        require_hosts_fit(requests, events, need, 1_000)


def test_large_host_is_cut_by_key_and_its_outcomes_are_the_same(spark: SparkSession) -> None:
    """Only that one; the parts meet the events of their keys, and what has no key is in some part, too."""
    requests, events = one_large_host(spark, ONE_KEY)
    without = F.col("request_id").endswith("7")
    trace = (
        requests.withColumn("watch_keys", F.when(without, F.array().cast("array<string>")).otherwise(F.col("watch_keys"))),
        events,
    )
    parts = parts_of_hosts(*trace, MAX_WORKER_MB)
    assert parts.keys() == {"large"}
    assert parts["large"] > 1
    cut, whole = batch_outcomes(*trace, parts=parts), batch_outcomes(*trace)
    assert cut.count() == ONE_KEY.requests
    assert cut.exceptAll(whole).count() == 0


def test_large_host_with_requests_of_several_keys_is_refused_by_name(spark: SparkSession) -> None:
    """With what it holds, and what to do."""
    trace = one_large_host(spark, Workload(requests=60_000, hosts=4, shared_keys=2))
    with pytest.raises(HostTooLargeError, match=r"host 'large' has 4\d,\d+ requests and 4\d,\d+ events.*several.*more memory"):
        parts_of_hosts(*trace, MAX_WORKER_MB)


def test_key_that_is_too_large_alone_is_refused_by_name(spark: SparkSession) -> None:
    """As cutting does not help."""
    requests, events = one_large_host(spark, ONE_KEY)
    requests = requests.withColumn("watch_keys", F.array(F.lit("hot")))
    with pytest.raises(HostTooLargeError, match="for the key 'hot' alone"):
        parts_of_hosts(requests, events, MAX_WORKER_MB)


def test_replay_of_a_large_host_is_refused_by_name(spark: SparkSession) -> None:
    """A purgatory is not cut."""
    trace = one_large_host(spark, ONE_KEY)
    with pytest.raises(
        HostTooLargeError, match=r"^host 'large' has .* MB: more than max_worker_mb=178, and a replay takes a host"
    ):
        require_hosts_fit(*trace, REPLAY, MAX_WORKER_MB)


def test_limit_below_what_a_worker_takes_is_refused(spark: SparkSession) -> None:
    """Whatever the hosts are."""
    requests, events = workload_trace(spark, ONE_KEY)
    with pytest.raises(InvalidArgumentError, match="max_worker_mb must be more than 170"):
        require_hosts_fit(requests, events, REPLAY, 100)
