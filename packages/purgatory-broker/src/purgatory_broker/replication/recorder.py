"""Records the requests that wait in a cluster as a trace in the pipeline's schema."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purgatory_broker.request_context import RequestContext
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

if TYPE_CHECKING:
    from purgatory_broker.replication.delayed_fetch import FetchParams, FetchTarget
    from purgatory_broker.replication.delayed_partitions import ProducedPartition
    from purgatory_broker.replication.replica import Replica

logger = logging.getLogger(__name__)

#: Rows buffered in memory before they are written.
ROWS_PER_FILE = 100_000
_LONGEST_TIMEOUT_MS = 2**31 - 1


class RecorderError(PurgatoryError):
    """Traffic can't be recorded: pyarrow is missing, or the trace can't be written."""


class Recorder:
    """Writes `requests/` and `events/` in Parquet below a folder.

    `purgatory import` and `purgatory replay` read them. The rows of `requests`:

    - a produce request with acks=all: one row for each partition, which waits for the high
      watermark (aggregate max);
    - a fetch: waits for bytes in any of its partitions (aggregate sum). This is exact for one
      partition, and if one byte is missing;
    - JoinGroup, SyncGroup and DeleteRecords requests: wait for their response (aggregate count).

    Requests that never wait are not recorded.

    A trace that can't be written harms no request: recording ends, which is logged, and `close`
    raises the error.
    """

    def __init__(
        self, folder: Path, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1_000
    ) -> None:
        """Create a trace; needs pyarrow, which the extra `record` installs.

        Args:
            folder: the trace's folder; it must be empty or absent.
            now_us: the time of day in microseconds since 1970.

        Raises:
            InvalidArgumentError: the folder is not empty.
            RecorderError: pyarrow is not installed.
        """
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise RecorderError("recording needs pyarrow: pip install pyarrow") from error
        if folder.exists() and any(folder.iterdir()):
            raise InvalidArgumentError("record", "an empty or absent folder", str(folder))
        self._pa = pa
        self._pq = pq
        self._folder = folder.absolute()
        #: What has ended the recording.
        self._failure: Exception | None = None
        self._now_us = now_us
        self._request_numbers = itertools.count()
        self._file_numbers = itertools.count()
        moment = pa.timestamp("us", tz="UTC")
        self._schemas = {
            "requests": pa.schema(
                [
                    ("host", pa.string()),
                    ("request_id", pa.string()),
                    ("request_type", pa.string()),
                    ("arrived_at", moment),
                    ("timeout_ms", pa.int32()),
                    ("watch_keys", pa.list_(pa.string())),
                    ("aggregate", pa.string()),
                    ("threshold", pa.float64()),
                    ("quantifier", pa.string()),
                ]
            ),
            "events": pa.schema(
                [
                    ("host", pa.string()),
                    ("key", pa.string()),
                    ("occurred_at", moment),
                    ("amount", pa.float64()),
                ]
            ),
        }
        self._rows: dict[str, list[tuple[Any, ...]]] = {"requests": [], "events": []}
        for name in self._rows:
            (folder / name).mkdir(parents=True, exist_ok=True)

    # -- requests that wait for replicas

    def produced(self, node: int, timeout_ms: int, partitions: list[ProducedPartition]) -> None:
        """Record a produce request with acks=all.

        Args:
            node: the leader.
            timeout_ms: the request's timeout in milliseconds.
            partitions: the results of its appends.
        """
        for partition in partitions:
            if partition.required_offset >= 0:
                self._request(
                    node,
                    "produce",
                    timeout_ms,
                    [f"{partition.key} high watermark"],
                    "max",
                    partition.required_offset,
                    "all",
                )

    def fetches(
        self, node: int, params: FetchParams, targets: list[FetchTarget], size_bytes: int
    ) -> None:
        """Record a fetch request.

        Args:
            node: the leader.
            params: of the request.
            targets: its partitions.
            size_bytes: the bytes that were available when it arrived.
        """
        kind, what = "fetch.consumer", "high watermark"
        if params.is_follower:
            kind, what = "fetch.follower", "end"
        elif params.read_committed:
            what = "last stable offset"
        missing = max(params.min_bytes - size_bytes, 0)
        self._request(
            node,
            kind,
            params.max_wait_ms,
            [f"{target.key} bytes to {what}" for target in targets],
            "sum",
            missing,
            "any",
        )

    def appended(self, replica: Replica, size_bytes: int) -> None:
        """Record an append of `size_bytes` to a leader's log."""
        self._event(replica.node_id, f"{replica.key} bytes to end", size_bytes)

    def high_watermark(self, replica: Replica, size_bytes: int) -> None:
        """Record an advance of a leader's high watermark by `size_bytes`."""
        self._event(replica.node_id, f"{replica.key} high watermark", replica.high_watermark)
        self._event(replica.node_id, f"{replica.key} bytes to high watermark", size_bytes)

    def last_stable_offset(self, replica: Replica, size_bytes: int) -> None:
        """Record an advance of a leader's last stable offset by `size_bytes`."""
        self._event(replica.node_id, f"{replica.key} bytes to last stable offset", size_bytes)

    # -- requests that wait for their response

    def request(self, node: int, context: RequestContext, timeout_ms: int) -> None:
        """Record a request that waits for its response, and later the response.

        Args:
            node: the node that received it.
            context: of the request.
            timeout_ms: milliseconds that it may wait.
        """
        key = f"answer {next(self._request_numbers)}"
        context.on_response = partial(self._event, node, key, 1)
        timeout_ms = min(timeout_ms, _LONGEST_TIMEOUT_MS)
        self._request(node, context.header.api.name, timeout_ms, [key], "count", 1, "all")

    # -- rows

    def _request(
        self,
        node: int,
        kind: str,
        timeout_ms: int,
        keys: list[str],
        aggregate: str,
        threshold: float,
        quantifier: str,
    ) -> None:
        row = (
            f"node-{node}",
            str(next(self._request_numbers)),
            kind,
            self._now_us(),
            max(timeout_ms, 0),
            keys,
            aggregate,
            float(threshold),
            quantifier,
        )
        self._add("requests", row)

    def _event(self, node: int, key: str, amount: float) -> None:
        self._add("events", (f"node-{node}", key, self._now_us(), float(amount)))

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        if self._failure is not None:
            return
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= ROWS_PER_FILE:
            self._write(table)

    def _write(self, table: str) -> None:
        """Write the buffered rows of a table; end the recording if that fails."""
        rows, self._rows[table] = self._rows[table], []
        try:
            self._write_rows(table, rows)
        except Exception as error:  # An OSError, or an error of pyarrow's.
            self._failure = error
            self._rows = {name: [] for name in self._rows}
            logger.error("the trace in %s can't be written, and ends here: %s", self._folder, error)

    def _write_rows(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        schema = self._schemas[table]
        columns = [
            self._pa.array([row[number] for row in rows], type=field.type)
            for number, field in enumerate(schema)
        ]
        path = self._folder / table / f"part-{next(self._file_numbers):05d}.parquet"
        partial = path.with_suffix(".partial")
        self._pq.write_table(self._pa.Table.from_arrays(columns, schema=schema), partial)
        partial.replace(path)

    def close(self) -> None:
        """Write the buffered rows. After this, each table has at least one file.

        Raises:
            RecorderError: the trace could not be written.
        """
        for table in self._rows:
            is_empty = not any((self._folder / table).glob("*.parquet"))
            if self._failure is None and (self._rows[table] or is_empty):
                self._write(table)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise RecorderError(
                f"the trace in {self._folder} is incomplete: {failure}"
            ) from failure

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            self.close()
        except RecorderError as failure:
            if error is None:
                raise
            error.add_note(str(failure))
