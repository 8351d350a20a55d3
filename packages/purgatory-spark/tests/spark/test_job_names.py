"""Names of Spark jobs: given to each step, and taken back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from purgatory_spark import Trace
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._spark.job_names import named_jobs, names_jobs


def properties(spark: SparkSession) -> tuple[str | None, str | None]:
    """Return the description and the group of this thread's jobs."""
    context = spark.sparkContext
    names = ("spark.job.description", "spark.jobGroup.id")
    description, group = (context.getLocalProperty(name) for name in names)
    return description, group


def test_jobs_of_a_block_are_described(spark: SparkSession) -> None:
    assert properties(spark) == (None, None)
    described = ("request-purgatory: one, two", "request-purgatory")
    with named_jobs(spark, "one, two"):
        assert properties(spark) == described
        with named_jobs(spark, "inner"):
            assert properties(spark) == described
        assert properties(spark) == described
    assert properties(spark) == (None, None)
    with pytest.raises(ZeroDivisionError), named_jobs(spark, "fails"):
        _ = 1 / 0
    assert properties(spark) == (None, None)


def test_group_and_description_of_the_user_stay(spark: SparkSession) -> None:
    spark.sparkContext.setJobGroup("mine", "my job")
    try:
        find = names_jobs("two")(properties)
        assert find(spark) == ("request-purgatory: two", "mine")
        assert properties(spark) == ("my job", "mine")
    finally:
        for key in ("spark.job.description", "spark.jobGroup.id"):
            cast(Any, spark.sparkContext).setLocalProperty(key, None)


def test_steps_of_a_trace_are_in_the_group(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup("request-purgatory"))
    trace = Trace(spark.createDataFrame([], REQUESTS), spark.createDataFrame([], EVENTS))
    trace.outcomes()
    assert len(set(tracker.getJobIdsForGroup("request-purgatory")) - before) >= 1
    assert properties(spark) == (None, None)


def test_connect_session_has_a_tag_in_the_block() -> None:
    tags = {"mine"}
    session = cast(
        SparkSession,
        SimpleNamespace(getTags=lambda: set(tags), addTag=tags.add, removeTag=tags.remove),
    )
    with named_jobs(session, "one, two"):
        with named_jobs(session, "inner"):
            assert tags == {"mine", "request-purgatory: one; two"}
        assert tags == {"mine", "request-purgatory: one; two"}
    assert tags == {"mine"}
