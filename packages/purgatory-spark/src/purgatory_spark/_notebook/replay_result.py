"""A replay of a trace, before and after it has run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from markupsafe import Markup
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.aggregates import compare_replayed
from purgatory_spark._notebook.html import html_table
from purgatory_spark._outcomes.replay import HOSTS, ReplaySettings
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import OUTCOMES

#: The hosts and the counts of each that Jupyter shows.
_SHOWN_HOSTS = 10
_SHOWN = ("requests", "completed", "expired", "peak_pending", "tries", "purges")


class Replay:
    """A trace in real purgatories under virtual time, as lazy DataFrames.

    Each action on one of them replays the trace, unless `cache` was called. Jupyter shows the hosts
    with the most requests, which is such an action.

    Attributes:
        settings: The design of the purgatory and its parameters.
        results: All rows (`replay.REPLAYED`); the methods select from them.
    """

    def __init__(
        self,
        results: DataFrame,
        batch_outcomes: Callable[[], DataFrame],
        settings: ReplaySettings,
    ) -> None:
        self.results = results
        self.settings = settings
        self._batch_outcomes = batch_outcomes

    @property
    def name(self) -> str:
        """The design, and the parameters that are not the default ones."""
        default = ReplaySettings(self.settings.design).parameters()
        given = self.settings.parameters().items()
        changed = [f"{name}={value}" for name, value in given if value != default[name]]
        return " ".join([self.settings.design, *changed])

    def outcomes(self) -> DataFrame:
        """Return how each request ended: `schema.OUTCOMES` and `late_ms`.

        `late_ms` is the time from the deadline of an expired request to the callback of its
        timeout.
        """
        return outcomes_of(self.results).select(*OUTCOMES.names, "late_ms")

    def hosts(self) -> DataFrame:
        """Return the statistics of each host's purgatory: `host` and `replay.HOSTS`."""
        hosts = self.results.where(F.col("kind") == "hosts").select("host", "stats.*")
        return hosts.select("host", *HOSTS.names)

    def compare(self) -> DataFrame:
        """Compare the outcomes with those that were computed with vectors, request by request.

        Returns:
            One row: `design`, `rows`, `differing` and `example`, as of
            `aggregates.compare_replayed`.
        """
        return compare_replayed(self._batch_outcomes(), self.outcomes(), self.name)

    def cache(self) -> Self:
        """Keep the result on Spark's disks when it is computed, so that the replay runs once.

        Returns:
            This replay.
        """
        self.results.persist(StorageLevel.DISK_ONLY)
        return self

    def unpersist(self) -> None:
        """Drop what `cache` keeps."""
        self.results.unpersist()

    def _repr_html_(self) -> str:
        top = self.hosts().orderBy(F.desc("requests"), "host").limit(_SHOWN_HOSTS)
        rows = top.select("host", *_SHOWN).toArrow().to_pylist()
        headings = ("host", *(name.replace("_", " ") for name in _SHOWN))
        cells = [[row["host"], *(f"{row[name]:,}" for name in _SHOWN)] for row in rows]
        return Markup("<p><b>{}</b>: a replay</p>{}").format(self.name, html_table(headings, cells))

    def __repr__(self) -> str:
        return f"Replay({self.name!r}; use outcomes(), hosts() or compare())"
