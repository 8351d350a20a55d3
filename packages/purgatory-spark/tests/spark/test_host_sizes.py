"""Tests of hosts that are too large for a Python worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._rows.host_sizes import (
    BATCH,
    REPLAY,
    HostTooLargeError,
    measure_trace,
    require_hosts_fit,
)
from purgatory_spark._traces.workload import Workload
from purgatory_spark._traces.workload_blocks import workload_trace
from request_purgatory.errors import InvalidArgumentError

#: An empty worker and 1 MiB, enough for some 2,000 requests with one key.
MAX_WORKER_MB = BATCH.worker // 2**20 + 1
ONE_KEY = Workload(requests=6_000, hosts=4, shared_keys=0)

Tables = tuple[DataFrame, DataFrame]


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> Iterator[Tables]:
    """Make requests and events of four small hosts."""
    tables = [table.persist() for table in workload_trace(spark, ONE_KEY)]
    yield tables[0], tables[1]
    for table in tables:
        table.unpersist()


def one_large_host(trace: Tables) -> Tables:
    """Merge hosts 1 to 3 into one."""
    host = F.when(F.col("host") == "host-0", F.col("host")).otherwise("large")
    requests, events = (table.withColumn("host", host) for table in trace)
    return requests, events


def test_hosts_that_fit_are_not_split(trace: Tables) -> None:
    requests, events = trace
    assert measure_trace(requests, events, 1_000).parts == {}
    for need in (BATCH, REPLAY):
        require_hosts_fit(requests, events, need, 1_000)


def test_splitting_a_large_host_does_not_change_its_outcomes(trace: Tables) -> None:
    requests, events = one_large_host(trace)
    has_no_key = F.col("request_id").endswith("7")
    keys = F.when(has_no_key, F.array().cast("array<string>")).otherwise(F.col("watch_keys"))
    large = (requests.withColumn("watch_keys", keys), events)
    parts = measure_trace(*large, MAX_WORKER_MB).parts
    # The other host fits, but not beside a third one of its size.
    assert parts == {"large": parts["large"], "host-0": 1}
    assert parts["large"] > 1
    tables = batch_outcomes(*large, parts=parts), batch_outcomes(*large)
    split, whole = (table.toArrow().sort_by("request_id") for table in tables)
    assert split.num_rows == ONE_KEY.requests
    assert split.equals(whole)


def test_large_host_with_several_keys_per_request_is_an_error(trace: Tables) -> None:
    requests, events = one_large_host(trace)
    requests = requests.withColumn("watch_keys", F.array_append("watch_keys", F.lit("shared")))
    with pytest.raises(
        HostTooLargeError,
        match=r"host 'large' has 4,\d+ requests and 4,\d+ events.*several.*more memory",
    ):
        measure_trace(requests, events, MAX_WORKER_MB)


def test_too_large_key_is_an_error(trace: Tables) -> None:
    requests, events = one_large_host(trace)
    requests = requests.withColumn("watch_keys", F.array(F.lit("hot")))
    with pytest.raises(
        HostTooLargeError, match=r"for the key 'hot' alone.*split the key into several"
    ):
        measure_trace(requests, events, MAX_WORKER_MB)


def test_replay_of_a_large_host_is_an_error(trace: Tables) -> None:
    large = one_large_host(trace)
    with pytest.raises(
        HostTooLargeError,
        match=r"^host 'large' has .* MB: more than max_worker_mb=171, and a replay can't split",
    ):
        require_hosts_fit(*large, REPLAY, MAX_WORKER_MB)


def test_limit_below_the_size_of_an_empty_worker_is_an_error(trace: Tables) -> None:
    with pytest.raises(InvalidArgumentError, match="max_worker_mb must be more than 170"):
        require_hosts_fit(*trace, REPLAY, 100)
