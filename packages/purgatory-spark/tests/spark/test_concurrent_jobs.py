"""Steps with Spark jobs at the same time: their names, their errors, and their end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from purgatory_spark._spark.concurrent_jobs import concurrent_jobs
from purgatory_spark._spark.job_names import named_jobs


def test_steps_have_the_names_of_the_block(spark: SparkSession) -> None:
    def description() -> str | None:
        return spark.sparkContext.getLocalProperty("spark.job.description")

    with named_jobs(spark, "one"), concurrent_jobs(spark) as start:
        steps = [start(description) for _ in range(3)]
    assert [step.result() for step in steps] == ["request-purgatory: one"] * 3
    assert not spark.sparkContext.getJobTags()


def test_error_of_a_step_is_raised(spark: SparkSession) -> None:
    def block() -> None:
        with concurrent_jobs(spark) as start:
            start(divmod, 1, 0)

    with pytest.raises(ZeroDivisionError):
        block()


def _run_for_long(spark: SparkSession) -> list[Any]:
    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(60)
        yield from batches

    return spark.range(0, 1, 1, 1).mapInArrow(wait, "id bigint").collect()


def _wait_for_a_job(spark: SparkSession) -> None:
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.01)


def test_error_of_a_step_cancels_the_jobs_of_the_block(spark: SparkSession) -> None:
    def fail() -> None:
        _wait_for_a_job(spark)
        raise ZeroDivisionError

    cancelled: list[Py4JJavaError] = []

    def block() -> None:
        with concurrent_jobs(spark) as start:
            start(fail)
            try:
                _run_for_long(spark)
            except Py4JJavaError as error:
                cancelled.append(error)
                raise

    with pytest.raises(ZeroDivisionError):
        block()
    assert "cancel" in str(cancelled[0])


def test_error_in_the_block_cancels_jobs(spark: SparkSession) -> None:
    steps: list[Future[list[Any]]] = []

    def block() -> None:
        with concurrent_jobs(spark) as start:
            steps.append(start(_run_for_long, spark))
            _wait_for_a_job(spark)
            steps.extend(start(_run_for_long, spark) for _ in range(2))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        block()
    with pytest.raises(Py4JJavaError, match="cancel"):
        steps[0].result()
    assert steps[-1].cancelled()
