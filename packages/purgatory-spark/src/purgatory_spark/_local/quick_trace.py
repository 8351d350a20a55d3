"""Read a trace of files on this machine, and answer which timeout it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._importers.likely_columns import likely_options
from purgatory_spark._local.ended_requests import end_own_requests, end_requests
from purgatory_spark._local.mapped_trace import MappedTrace
from purgatory_spark._local.table_files import NeedsSparkError, TableFiles
from purgatory_spark._local.trace_answer import TraceAnswer, answer
from purgatory_spark._local.trace_files import count_rows, read_trace_table
from purgatory_spark._traces.import_settings import ImportSettings
from purgatory_spark._traces.manifest import MANIFEST, is_trace_folder, read_manifest
from request_purgatory.errors import InvalidArgumentError

#: Settings of the formats and conditions that only Spark reads.
_OF_SPARK = ("where", "time_zone", "ms_per_context_token", "ms_per_generated_token")


class QuickTrace:
    """A trace that this process reads.

    Attributes:
        rejected: The number of rows that can't be used, by the reason.
        parameters: How the trace was read.
        mapped: The rows of a table; None for a trace folder.
    """

    def __init__(self, source: str, settings: ImportSettings) -> None:
        """Find the files of a trace folder, or map the rows of a table.

        Raises:
            TraceFormatError: The files can't be read, or columns are missing.
            NeedsSparkError: Only Spark reads it.
            InvalidArgumentError: There are settings for a trace folder.
        """
        self.rejected: Mapping[str, int] = {}
        self.parameters: Mapping[str, Any] = settings.parameters()
        self.mapped: MappedTrace | None = None
        self._folder = Path(source)
        if is_trace_folder(source):
            given = settings.parameters()
            if given != ImportSettings().parameters():
                raise InvalidArgumentError("settings", "none for a trace folder", given)
            manifest = read_manifest(self._folder, "a trace folder", MANIFEST, "import it again")
            self.parameters, self.rejected = manifest["parameters"], manifest["rejected"]
            return
        self.mapped = _mapped_trace(source, settings)
        self.rejected = dict(sorted(self.mapped.rejected.items()))

    def answer(self, timeouts: Sequence[int] | None = None) -> TraceAnswer | None:
        """Return which timeout to choose; None if there are no requests."""
        if self.mapped is None:
            rows = count_rows(self._folder, "requests")
            tables = [read_trace_table(self._folder, kind) for kind in ("requests", "events")]
            return self._answer(tables[0], tables[1], rows, timeouts)
        requests, events = self.mapped.requests, self.mapped.events
        if events is not None:
            tables = [iter(table.to_batches()) for table in (requests, events)]
            return self._answer(tables[0], tables[1], requests.num_rows, timeouts)
        shards = end_own_requests(requests)
        return answer(shards, self.parameters, timeouts, 1) if shards else None

    def _answer(
        self,
        requests: Iterator[pa.RecordBatch],
        events: Iterator[pa.RecordBatch],
        rows: int,
        timeouts: Sequence[int] | None,
    ) -> TraceAnswer | None:
        keys = 0

        def counting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            nonlocal keys
            for batch in batches:
                keys += pc.sum(pc.list_value_length(batch.column("watch_keys"))).as_py() or 0
                yield batch

        shards = end_requests(counting(requests), events, rows)
        if not shards:
            return None
        return answer(shards, self.parameters, timeouts, max(1, round(keys / rows)))


def _mapped_trace(source: str, settings: ImportSettings) -> MappedTrace:
    if settings.format not in (None, "columns") or "span_id" in settings.columns:
        raise NeedsSparkError(
            f"{source}: without Spark, a trace is a table whose columns are mapped, or a trace "
            f"folder; import it with `purgatory import`, or use `purgatory run`"
        )
    for name, value in settings.non_default(*_OF_SPARK).items():
        raise NeedsSparkError(f"{source}: {name}={value!r} needs Spark: use `purgatory run`")
    if not settings.columns:
        likely = likely_options(dict.fromkeys(TableFiles(source, (), None).names))
        raise NeedsSparkError(
            f"{source}: map fields to its columns, for example {likely}; `purgatory run` knows "
            "further formats"
        )
    mapping = settings.mapping()
    requests = TableFiles(
        source, mapping.input_columns, settings.log_format, mapping.few_valued_columns
    )
    events = None
    if settings.events is not None:
        events = TableFiles(settings.events, mapping.event_columns.values(), None)
    mapping.require_events(events is not None)
    return MappedTrace(requests, mapping, events)
