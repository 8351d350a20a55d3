"""The entry for notebooks: a trace, and everything that the pipeline computes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Self, Unpack

from markupsafe import Markup
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.aggregates import answers_of
from purgatory_spark._analysis.analysis import analyze
from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.replay_folder import replay_trace_in_designs
from purgatory_spark._analysis.report import write_report
from purgatory_spark._analysis.timeout_trials import SUGGESTED_QUANTILES, timeouts_for
from purgatory_spark._analysis.what_if import what_if
from purgatory_spark._importers.columns import map_tables
from purgatory_spark._importers.recorded import check_tables
from purgatory_spark._notebook.html import html_table
from purgatory_spark._notebook.origin import Files, Origin, Tables
from purgatory_spark._notebook.replay_result import Replay
from purgatory_spark._notebook.report_result import ANALYSIS, PAGE, Report, require_replaceable
from purgatory_spark._notebook.table_fields import TableFields, require_time_unit, table_mapping
from purgatory_spark._notebook.trace_memory import TraceMemory
from purgatory_spark._notebook.what_if_result import WhatIf
from purgatory_spark._outcomes.replay import WHEEL, ReplaySettings, replay
from purgatory_spark._outcomes.results import outcomes_of, rejects_of
from purgatory_spark._output_folder import new_folder, output_folder
from purgatory_spark._rows.host_sizes import (
    MAX_WORKER_MB,
    HostTooLargeError,
)
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import EVENTS, REQUESTS, require
from purgatory_spark._spark.damage import damage_described
from purgatory_spark._spark.small_files import are_small
from purgatory_spark._spark.workers import require_package
from purgatory_spark._traces.manifest import is_trace_folder
from purgatory_spark._traces.marks import Mark, known_incidents
from purgatory_spark._traces.trace_folder import TraceFolder, source_name
from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
from request_purgatory.errors import InvalidArgumentError


class Trace:
    """Requests and events, and how the requests end.

    A trace is made of DataFrames in the schema (`Trace(requests, events)`), of any table
    (`Trace.from_table`) or of files (`Trace.read`). Making one of DataFrames, and showing one,
    starts no Spark job:

        trace = Trace.from_table(calls, arrived_at="start", service_ms="took", timeout_ms=250)
        trace.outcomes().groupBy("outcome").count()
        trace.replay().compare()
        trace.what_if([100, 250, 500])
        trace.report("report")

    The results are lazy DataFrames, or small objects that Jupyter shows. They are computed anew at
    each action, unless `cache` was called. Works in any session, of classic Spark and of Spark
    Connect, and changes none of its settings.

    Before its first result, a trace measures the memory of its hosts in one pass, which is the only
    Spark job that `outcomes` starts. The batch then cuts hosts that do not fit into a worker. An
    own table of requests with ids that wait for their own answers needs no measuring there. On a
    cluster, the session's first trace also starts a short job, which checks that the workers have
    this package.

    Attributes:
        requests: Rows of `schema.REQUESTS`.
        events: Rows of `schema.EVENTS`.
        name: Name of the trace in reports.
        max_worker_mb: Memory limit for one host in a Python worker, in MiB.
    """

    def __init__(
        self,
        requests: DataFrame,
        events: DataFrame,
        *,
        name: str = "trace",
        marks: Iterable[Mark] = (),
        max_worker_mb: int = MAX_WORKER_MB,
    ) -> None:
        """Make a trace of DataFrames in the schema; rows that break a rule become rejects."""
        self.requests = require(requests, REQUESTS, "requests")
        self.events = require(events, EVENTS, "events")
        self.name = name
        self.max_worker_mb = max_worker_mb
        checked = partial(check_tables, self.requests, self.events)
        given = tuple(marks)
        self._origin: Origin = Tables(
            self.requests, self.events, None, checked, marks=lambda: given
        )

    @classmethod
    def from_table(
        cls,
        requests: DataFrame,
        mapping: TableMapping | None = None,
        *,
        events: DataFrame | None = None,
        name: str = "trace",
        marks: Iterable[Mark] = (),
        max_worker_mb: int = MAX_WORKER_MB,
        **fields: Unpack[TableFields],
    ) -> Self:
        """Make a trace of any table, with a row for each request.

        Args:
            requests: The table.
            mapping: What the columns mean, instead of `fields`.
            events: A table with a row for each event. Without it, the end of a request
                (`ended_at`, or `service_ms` after its arrival) is an event on each of its keys.
            name: Name of the trace in reports.
            marks: Moments that reports compare before and after.
            max_worker_mb: Memory limit for one host in a Python worker, in MiB.
            **fields: What the columns mean (`TableFields`). `timeout_ms`, `aggregate`, `threshold`
                and `quantifier` are names of columns, or one value for all requests.

        Returns:
            The trace. Rows that can't be used are in `rejects`.

        Raises:
            TraceFormatError: A field or a column is missing, unknown, or of a type that can't hold
                it.
            InvalidArgumentError: Both `mapping` and `fields` are given, or a value is not one that
                its field may have, or a column of times is numeric and has no `time_unit`.
        """
        if mapping is None:
            mapping = table_mapping(fields)
        elif fields:
            raise InvalidArgumentError(
                "mapping", f"left out where fields are given ({', '.join(fields)})", mapping
            )
        if not isinstance(mapping, TableMapping):
            raise InvalidArgumentError("mapping", "a TableMapping", mapping)
        require_time_unit(mapping, requests, events)
        tables = map_tables(requests, mapping, events=events)
        trace = cls(tables.requests, tables.events, name=name, max_worker_mb=max_worker_mb)
        given = tuple(marks)
        trace._origin = Tables(
            trace.requests,
            trace.events,
            tables.rejects,
            partial(map_tables, requests, mapping, events=events, cache=True),
            parameters=vars(mapping)
            | {"columns": dict(mapping.columns), "event_columns": dict(mapping.event_columns)},
            marks=lambda: given,
            mapped=tables.mapped,
        )
        return trace

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        source: str | Path,
        settings: ImportSettings | None = None,
        *,
        max_worker_mb: int = MAX_WORKER_MB,
    ) -> Self:
        """Make a trace of a trace folder, or of files of any format that can be imported.

        Spark caches the requests and events of files of other formats when they are first computed;
        `unpersist` drops them. Outcomes of mapped tables do without them.

        Args:
            spark: The session to read with.
            source: A trace folder; or a file, a folder of files, a URI or `FORMAT:NAME_OR_PATH`.
            settings: How to read it, for other sources than a trace folder.
            max_worker_mb: Memory limit for one host in a Python worker, in MiB.

        Returns:
            The trace.

        Raises:
            TraceFormatError: The input is not of the format, or of no known format; the message
                names the file.
            SchemaError: A recorded trace lacks a column.
            InvalidArgumentError: There are settings for a trace folder, or `settings` are none.
        """
        if settings is not None and not isinstance(settings, ImportSettings):
            raise InvalidArgumentError("settings", "an ImportSettings", settings)
        if is_trace_folder(source):
            if settings is not None:
                raise InvalidArgumentError("settings", "None for a trace folder", settings)
            folder = TraceFolder(Path(source))
            trace = cls(
                folder.requests(spark),
                folder.events(spark),
                name=folder.name,
                max_worker_mb=max_worker_mb,
            )
            trace._origin = Files(spark, folder)
            return trace
        settings = settings or ImportSettings()
        tables = read_trace(spark, source, settings)
        trace = cls(
            tables.requests, tables.events, name=source_name(source), max_worker_mb=max_worker_mb
        )
        trace._origin = Tables(
            trace.requests,
            trace.events,
            tables.rejects,
            lambda: replace(tables, cached=[]),  # they stay cached
            source=Path(source).name,
            parameters=settings.parameters(),
            marks=lambda: [*settings.marks, *known_incidents(source, tables)],
            unpersist=tables.unpersist,
            mapped=tables.mapped,
            are_few=are_small(source, settings.events),
        )
        return trace

    @cached_property
    def _memory(self) -> TraceMemory:
        origin = self._origin
        return TraceMemory(
            self.requests,
            self.events,
            origin.mapped,
            origin.parameters,
            self.name,
            self.max_worker_mb,
        )

    @cached_property
    def _results(self) -> DataFrame:
        """How each request ends (`batch.satisfactions`): one plan, which `cache` keeps."""
        if self._origin.is_divisible:
            require_package(self.requests.sparkSession)
            return self._origin.satisfactions({})
        return self._origin.satisfactions(self._memory.parts)

    @cached_property
    def _answers(self) -> AnswerTimes:
        """When requests were answered; of as many rows as there are buckets of times."""
        return AnswerTimes.of(answers_of(self._results).toArrow().to_pylist())

    def outcomes(self) -> DataFrame:
        """Return how each request ended, computed with vectors.

        Returns:
            `schema.OUTCOMES`, and `satisfied_at`: when the condition was first satisfied, also
            after the deadline; null if it never was.

        Raises:
            HostTooLargeError: A host does not fit into a worker, and can't be cut.
        """
        return outcomes_of(self._results)

    def rejects(self) -> DataFrame:
        """Return the rows that can't be used: `reason`, `source` and the `row` as JSON.

        `source` is the file or table, and null for rows of `Trace(requests, events)`.
        """
        require_package(self.requests.sparkSession)
        known = self._origin.rejects
        if known is not None:
            return known
        source = F.lit(None).cast("string").alias("source")
        return rejects_of(self._results).select("reason", source, "row")

    def replay(self, design: str = WHEEL, **parameters: int) -> Replay:
        """Replay the trace through real purgatories under virtual time.

        Args:
            design: "wheel" for timing wheels, or "legacy" for the design of Kafka 0.8.
            **parameters: Further attributes of `ReplaySettings`, such as `tick_ms`.

        Returns:
            The replay, which runs when one of its DataFrames is computed.

        Raises:
            InvalidArgumentError: There is no such design, or a parameter is out of range.
            HostTooLargeError: A host does not fit into a worker.
        """
        settings = ReplaySettings(design=design, **parameters)
        if self._memory.refusal_to_replay:
            raise HostTooLargeError(self._memory.refusal_to_replay)
        return Replay(replay(self.requests, self.events, settings), self.outcomes, settings)

    def what_if(self, timeouts: Sequence[int] | None = None) -> WhatIf:
        """Compute what other timeouts would have done.

        Args:
            timeouts: In ms; each replaces the timeout of every request in turn. None chooses them
                from the time that requests take, with a Spark job.

        Returns:
            A lazy DataFrame in `table`; Jupyter shows it as a picture.

        Raises:
            InvalidArgumentError: `timeouts` is empty, or a timeout is negative or longer than a
                trace may have.
            HostTooLargeError: A host does not fit into a worker, and can't be cut.
        """
        require_package(self.requests.sparkSession)
        memory = self._memory
        bytes_per_operation, in_use = memory.usage
        if timeouts is None:
            timeouts = timeouts_for(self._answers.quantiles_ms(SUGGESTED_QUANTILES))
        table = what_if(
            self._results,
            list(timeouts),
            bytes_per_operation,
            parts=self._memory.parts,
            are_few=self._origin.are_few,
        )
        return WhatIf(timeouts, table, in_use, lambda: self._answers, self._origin.parameters)

    def report(
        self,
        folder: str | Path,
        *,
        timeouts: Sequence[int] | None = None,
        designs: Sequence[str] = (WHEEL,),
    ) -> Report:
        """Write a report: one self-contained HTML file, in a folder with its tables.

        The folder has `report.html`, and Parquet tables in `analysis/`, `replays/DESIGN/` and
        `trace/`. The last one is a trace folder, and is left out where the trace is one already. On
        a cluster, all machines must see the folder at the same path.

        Args:
            folder: The folder to make. An earlier report is replaced.
            timeouts: Timeouts in ms for what-if, besides the trace's shortest and longest one; None
                chooses them.
            designs: The designs to replay the trace in, and to compare.

        Returns:
            The report, of which Jupyter shows the main figures and a link.

        Raises:
            OutputExistsError: The folder exists, and is not an earlier report.
            InvalidArgumentError: There is no such design, or the trace is in the folder itself.
            TraceFormatError: The trace has no requests.
            HostTooLargeError: A host does not fit into a worker.
        """
        spark, target = self.requests.sparkSession, Path(folder)
        require_package(spark)
        settings = [ReplaySettings(design=design) for design in dict.fromkeys(designs)]
        require_replaceable(target, self._origin.path)
        with damage_described(), output_folder(target, replace=True) as partial_folder:
            trace = self._origin.to_folder(partial_folder / "trace", self.name)
            folders = {
                new_folder(partial_folder / "replays" / each.design): each for each in settings
            }
            replays = []
            if folders:
                replays = replay_trace_in_designs(spark, trace, folders, self.max_worker_mb)
            analysis = analyze(
                spark,
                trace,
                replays,
                new_folder(partial_folder / ANALYSIS),
                None if timeouts is None else list(timeouts),
                self.max_worker_mb,
            )
            write_report([analysis], partial_folder / PAGE, self.name)
        return Report(target / PAGE, Analysis(target / ANALYSIS))

    def cache(self) -> Self:
        """Keep in Spark's cache how requests end, for `outcomes`, `compare` and `what_if`.

        Returns:
            This trace. Nothing is computed before an action needs it, but the sizes of hosts.
        """
        self._results.persist()
        return self

    def unpersist(self) -> None:
        """Drop from Spark's cache what `cache` and `read` keep there."""
        self._origin.unpersist()
        if "_results" in self.__dict__:
            self._results.unpersist()

    def __repr__(self) -> str:
        manifest = self._origin.manifest
        if manifest is None:
            return f"Trace({self.name!r}, rows not counted)"
        rows = manifest["rows"]
        return (
            f"Trace({self.name!r}, {rows['requests out']:,} requests, "
            f"{rows['events out']:,} events, {rows['rejected']:,} rejects)"
        )

    def _repr_html_(self) -> str:
        """Return what is known without a Spark job: columns, and rows that were counted before."""
        manifest = self._origin.manifest
        counts = {} if manifest is None else manifest["rows"]
        rows: list[tuple[object, ...]] = [
            (
                name,
                f"{counts[f'{name} out']:,}" if counts else "not counted",
                ", ".join(f"{column} {kind}" for column, kind in table.dtypes),
            )
            for name, table in (("requests", self.requests), ("events", self.events))
        ]
        if manifest is not None:
            reasons = ", ".join(
                f"{count:,} {reason}" for reason, count in manifest["rejected"].items()
            )
            rows.append(("rejects", f"{counts['rejected']:,}", reasons))
        shown = html_table(("", "rows", ""), rows)
        return Markup("<p><b>{}</b>: a trace</p>{}").format(self.name, shown)
