"""Names of Spark jobs, by which a shared cluster's page tells what they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pyspark.sql import SparkSession

_P = ParamSpec("_P")
_R = TypeVar("_R")

_GROUP = "request-purgatory"
_PREFIX = f"{_GROUP}: "
_DESCRIPTION_KEY = "spark.job.description"
_GROUP_KEY = "spark.jobGroup.id"


@contextmanager
def named_jobs(spark: SparkSession, what: str) -> Iterator[None]:
    """Describe the jobs that this thread starts in the block; afterwards all is as before.

    They are of the group `request-purgatory`, unless the session is in a group already, which
    somebody may want to cancel. In a block within another one the outer description stays. With
    Spark Connect the description is a tag.
    """
    description = _PREFIX + what
    context: Any = getattr(spark, "sparkContext", None)
    if context is None:
        if any(tag.startswith(_PREFIX) for tag in spark.getTags()):
            yield
            return
        tag = description.replace(",", ";")  # Spark refuses commas.
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    before = {key: context.getLocalProperty(key) for key in (_DESCRIPTION_KEY, _GROUP_KEY)}
    if not (before[_DESCRIPTION_KEY] or "").startswith(_PREFIX):
        context.setLocalProperty(_DESCRIPTION_KEY, description)
    if before[_GROUP_KEY] is None:
        context.setLocalProperty(_GROUP_KEY, _GROUP)
    try:
        yield
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)


def names_jobs(
    what: str,
) -> Callable[
    [Callable[Concatenate[SparkSession, _P], _R]], Callable[Concatenate[SparkSession, _P], _R]
]:
    """Return a decorator that names the jobs of a function whose first argument is the session."""

    def decorate(
        function: Callable[Concatenate[SparkSession, _P], _R],
    ) -> Callable[Concatenate[SparkSession, _P], _R]:
        @wraps(function)
        def named(spark: SparkSession, *args: _P.args, **kwargs: _P.kwargs) -> _R:
            with named_jobs(spark, what):
                return function(spark, *args, **kwargs)

        return cast(Callable[Concatenate[SparkSession, _P], _R], named)

    return decorate
