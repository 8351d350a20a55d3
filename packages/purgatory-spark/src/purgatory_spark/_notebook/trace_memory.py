"""The memory that the hosts and the pending requests of a trace take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.cut_off import timeouts_in_use
from purgatory_spark._rows.host_sizes import (
    REPLAY,
    HostTooLargeError,
    measure_trace,
    require_hosts_fit,
)
from purgatory_spark._rows.mapped_rows import MappedTables
from purgatory_spark._spark.damage import damage_described
from purgatory_spark._spark.job_names import named_jobs
from purgatory_spark._spark.memory import bytes_per_pending_operation
from purgatory_spark._spark.workers import require_package


@dataclass(eq=False)
class TraceMemory:
    """Each answer is computed at its first use, by a Spark job at most.

    An own table (`mapped`) is measured as it is, which is a fraction of the work. With its rejects
    it has at least the rows of its requests, so what fits then fits in any case.
    """

    requests: DataFrame
    events: DataFrame
    mapped: MappedTables | None
    parameters: Mapping[str, Any]
    name: str
    max_worker_mb: int

    @cached_property
    def refusal_to_replay(self) -> str:
        """Which hosts are too large for a replay, as a message; empty if there are none."""
        if self._refusal_unparsed == "":
            return ""
        return self._refusal_of(self.requests, self.events)

    @cached_property
    def _refusal_unparsed(self) -> str | None:
        """The same, by the rows of an own table with all rejects; None for other traces."""
        mapped = self.mapped
        return None if mapped is None else self._refusal_of(*mapped.unparsed())

    def _refusal_of(self, requests: DataFrame, events: DataFrame | None) -> str:
        spark = self.requests.sparkSession
        require_package(spark)
        try:
            with damage_described(), named_jobs(spark, f"measure {self.name}"):
                require_hosts_fit(requests, events, REPLAY, self.max_worker_mb)
        except HostTooLargeError as error:
            return str(error)
        return ""

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """The parts that each host is cut into that is too large for the batch."""
        # A host that fits into a worker of a replay fits into one of the batch.
        refusal = self._refusal_unparsed
        if refusal is None:
            refusal = self.refusal_to_replay
        if not refusal:
            return {}
        parts = self._parts_unparsed
        if parts is None:
            parts = measure_trace(self.requests, self.events, self.max_worker_mb).parts
        return parts

    @property
    def _parts_unparsed(self) -> Mapping[str, int] | None:
        """The same, by the rows of an own table; None for others, or if it takes checked rows."""
        mapped = self.mapped
        if mapped is None:
            return None
        try:
            parts = measure_trace(*mapped.unparsed(), self.max_worker_mb).parts
        except HostTooLargeError:
            return None
        return parts if mapped.is_divisible or max(parts.values(), default=1) == 1 else None

    @cached_property
    def usage(self) -> tuple[float, list[int]]:
        """The bytes of a pending request, and the shortest and longest timeout in ms."""
        mapped = self.mapped
        if mapped is not None and mapped.has_known_usage:
            timeout_ms = mapped.mapping.timeout_ms
            return bytes_per_pending_operation(), [timeout_ms]
        usable = self.requests.where("timeout_ms >= 0 and watch_keys is not null")
        mean_keys = F.avg(F.size("watch_keys"))
        row = usable.agg(mean_keys, F.min("timeout_ms"), F.max("timeout_ms")).first()
        if row is None or row[0] is None:
            return bytes_per_pending_operation(), []
        in_use = timeouts_in_use(self.parameters, row[1:])
        return bytes_per_pending_operation(max(1, round(row[0]))), sorted(set(in_use))
