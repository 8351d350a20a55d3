"""The small tables of an analysis in memory, as console, findings and report show them.

Times are in UTC. A quantile is null where the trace has no such request.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any, TypedDict, cast

import pyarrow as pa

from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.cut_off import Censoring, censoring_of


class Counts(TypedDict):
    """Requests, and those of them that expired."""

    requests: int
    expired: int


class SummaryRow(Counts):
    """The outcomes of all requests, or of those of a host or a type (`summarize_outcomes`)."""

    dimension: str
    value: str | None
    completed: int
    suspected: int
    expired_share: float
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    uncut_p50_ms: float | None
    uncut_p90_ms: float | None
    uncut_p99_ms: float | None
    uncut_p999_ms: float | None


class MarkRow(SummaryRow):
    """The outcomes of the requests before or after a mark (`compare_marks`)."""

    label: str
    at: datetime
    side: str


class WaitRow(TypedDict):
    """A bin of waiting times (`histogram_waits`)."""

    bin: int
    from_ms: float
    completed: int
    expired: int
    satisfied_late: int


class TimelineRow(TypedDict):
    """A bin of the timeline (`timeline`)."""

    from_at: datetime
    arrived: int
    ended: int
    expired: int
    p50_ms: float | None
    p99_ms: float | None
    pending: int
    peak_pending: int


class WhatIfRow(Counts):
    """What a timeout would have done (`what_if`)."""

    timeout_ms: int
    expired_share: float
    expired_waited_ms: float
    mean_waited_ms: float
    peak_pending: int
    peak_bytes: float


class ContributorRow(Counts):
    """A host or a type that adds to the expired requests (`find_contributors`)."""

    label: str | None
    at: datetime | None
    dimension: str
    rank: int
    value: str | None
    other_requests: int
    other_expired: int
    extra: float
    extra_of_all: float


class DesignRow(Counts):
    """The statistics of a replay's purgatories: peaks of one host, and sums over all."""

    design: str
    completed: int
    purges: int
    purged_entries: int
    tries: int
    callbacks: int
    callback_errors: int
    task_seconds: float
    peak_pending: int
    peak_queued: int


_PEAKS = ("peak_pending", "peak_queued")
_SUMS = tuple(name for name in DesignRow.__annotations__ if name not in ("design", *_PEAKS))


class SmallTables:
    """The small tables of an analysis, each read at its first use; empty where it has none."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.manifest = analysis.manifest

    def _rows(self, name: str, **where: str) -> list[Any]:
        if name not in self.manifest["tables"]:
            return []
        return self.analysis.rows(name, **where)

    @cached_property
    def overall(self) -> SummaryRow:
        return cast("SummaryRow", self._rows("summary", dimension="all")[0])

    @cached_property
    def marks(self) -> list[MarkRow]:
        """The outcomes of all requests before and after each mark, in order of time."""
        return self._rows("marks", dimension="all")

    @cached_property
    def waits(self) -> list[WaitRow]:
        """The bins of waiting times, ascending."""
        return sorted(self._rows("waits"), key=lambda row: int(row["bin"]))

    @cached_property
    def timeline(self) -> list[TimelineRow]:
        """The bins of the timeline, in order of time."""
        return sorted(self._rows("timeline"), key=lambda row: row["from_at"])

    @cached_property
    def what_if(self) -> list[WhatIfRow]:
        """What other timeouts would have done, ascending."""
        return sorted(self._rows("what_if"), key=lambda row: int(row["timeout_ms"]))

    @cached_property
    def censoring(self) -> Censoring | None:
        """What is known of requests that were given up; None if that is all (`censoring_of`)."""
        times = AnswerTimes.of(self._rows("answers"))
        return censoring_of(times, self.timeouts_in_use, self.manifest["trace"]["parameters"])

    @cached_property
    def contributors(self) -> list[ContributorRow]:
        """Hosts and types that add to the expired requests, those without a mark first."""
        return self._rows("contributors")

    @cached_property
    def agreement(self) -> list[dict[str, Any]]:
        """Each replay compared with the batch outcomes (`compare_replays`)."""
        return self._rows("agreement")

    @cached_property
    def lateness(self) -> list[dict[str, Any]]:
        """How late each replay's requests expired (`summarize_lateness`)."""
        return self._rows("lateness")

    @property
    def timeouts_in_use(self) -> list[int]:
        """The shortest and the longest timeout of the trace in ms."""
        return sorted(set(self.manifest["timeout_ms"]))

    @cached_property
    def designs(self) -> list[DesignRow]:
        """The statistics of each replay, added up over its hosts, wheels first."""
        if "hosts" not in self.manifest["tables"]:
            return []
        names = ("design", *_SUMS, *_PEAKS)
        batches = self.analysis.batches("hosts")
        added = [_by_design(pa.Table.from_batches([batch]).select(names)) for batch in batches]
        rows = _by_design(pa.concat_tables(added)).sort_by([("design", "descending")])
        return cast("list[DesignRow]", rows.to_pylist())


def _by_design(hosts: pa.Table) -> pa.Table:
    functions = [(name, "sum") for name in _SUMS] + [(name, "max") for name in _PEAKS]
    added = hosts.group_by("design").aggregate(functions)
    columns = ["design", *[f"{name}_{function}" for name, function in functions]]
    return added.select(columns).rename_columns(["design", *[name for name, _ in functions]])
