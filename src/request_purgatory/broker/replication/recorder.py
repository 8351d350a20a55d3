"""Records what waits in a cluster's purgatories, and what it waits for, as a trace in the pipeline's schema."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

if TYPE_CHECKING:
    from request_purgatory.broker.replication.delayed_fetch import FetchParams, FetchTarget
    from request_purgatory.broker.replication.delayed_produce import ProducedPartition
    from request_purgatory.broker.replication.replica import Replica

#: So many rows are kept before they are written.
ROWS_PER_FILE = 100_000
_LONGEST_TIMEOUT_MS = 2**31 - 1


class RecorderError(PurgatoryError):
    """Traffic can't be recorded."""


class Recorder:
    """Writes `requests/` and `events/` in Parquet below a folder, which `purgatory import` and `purgatory replay` read.

    A produce request with acks=all is a row for each partition, which waits for the high watermark:
    aggregate max. A fetch waits for bytes that it can see, aggregate sum over any of its
    partitions: exact for one partition and where one byte is missing. Joins, syncs and
    delete-records requests wait for their answer. Requests that never wait are left out.
    """

    def __init__(
        self, folder: Path, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1_000
    ) -> None:
        """A new trace in `folder`, which must be empty or not there; needs pyarrow, which the extra `spark` has.

        Raises:
            InvalidArgumentError: there is something in the folder.
            RecorderError: there is no pyarrow.
        """
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise RecorderError(
                "recording needs pyarrow: pip install 'request-purgatory[broker,spark]'"
            ) from None
        if folder.exists() and any(folder.iterdir()):
            raise InvalidArgumentError(
                "record", "an empty folder, or one that is not there", str(folder)
            )
        self._pa = pa
        self._pq = pq
        self._folder = folder
        self._now_us = now_us
        self._numbers = itertools.count()
        self._files = itertools.count()
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
        self._waiting: dict[int, str] = {}
        for name in self._rows:
            (folder / name).mkdir(parents=True, exist_ok=True)

    # -- what waits for replicas

    def produced(self, node: int, timeout_ms: int, partitions: list[ProducedPartition]) -> None:
        """A produce request with acks=all was appended."""
        for each in partitions:
            if each.required_offset >= 0:
                self._request(
                    node,
                    "produce",
                    timeout_ms,
                    [f"{each.key} high watermark"],
                    "max",
                    each.required_offset,
                    "all",
                )

    def fetches(
        self, node: int, params: FetchParams, targets: list[FetchTarget], size_bytes: int
    ) -> None:
        """A fetch has come, when there were so many bytes for it."""
        kind, what = (
            ("fetch.follower", "end")
            if params.is_follower
            else ("fetch.consumer", "high watermark")
        )
        missing = max(params.min_bytes - size_bytes, 0)
        self._request(
            node,
            kind,
            params.max_wait_ms,
            [f"{each.key} bytes to {what}" for each in targets],
            "sum",
            missing,
            "any",
        )

    def appended(self, replica: Replica, size_bytes: int) -> None:
        """A leader's log has grown."""
        self._event(replica.node_id, f"{replica.key} bytes to end", size_bytes)

    def high_watermark(self, replica: Replica, size_bytes: int) -> None:
        """A leader's high watermark has moved by so many bytes."""
        self._event(replica.node_id, f"{replica.key} high watermark", replica.high_watermark)
        self._event(replica.node_id, f"{replica.key} bytes to high watermark", size_bytes)

    # -- what waits for its answer

    def request(self, node: int, context: RequestContext, request: Any) -> None:
        """A request has come, of whatever kind."""
        timeout = _TIMEOUTS.get(context.header.api.key)
        if timeout is None or request is None:
            return
        key = f"answer {next(self._numbers)}"
        self._waiting[id(context)] = key
        timeout_ms = min(max(timeout(request), 0), _LONGEST_TIMEOUT_MS)
        self._request(node, context.header.api.name, timeout_ms, [key], "count", 1, "all")

    def response(self, node: int, context: RequestContext) -> None:
        """A request was answered."""
        key = self._waiting.pop(id(context), None)
        if key is not None:
            self._event(node, key, 1)

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
        number = next(self._numbers)
        row = (
            f"node-{node}",
            str(number),
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
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= ROWS_PER_FILE:
            self._write(table)

    def _write(self, table: str) -> None:
        rows, self._rows[table] = self._rows[table], []
        schema = self._schemas[table]
        columns = [
            self._pa.array(column, type=each.type)
            for column, each in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        path = self._folder / table / f"part-{next(self._files):05d}.parquet"
        partial = path.with_suffix(".partial")
        self._pq.write_table(self._pa.Table.from_arrays(columns, schema=schema), partial)
        partial.replace(path)

    def close(self) -> None:
        """Write what is left; each of the two tables has at least one file then."""
        for table, rows in self._rows.items():
            if rows:
                self._write(table)
            elif not any((self._folder / table).glob("*.parquet")):
                empty = self._schemas[table].empty_table()
                self._pq.write_table(
                    empty, self._folder / table / f"part-{next(self._files):05d}.parquet"
                )


_TIMEOUTS: dict[int, Callable[[Any], int]] = {
    apis.JOIN_GROUP.key: lambda request: int(
        request.rebalance_timeout_ms
        if request.rebalance_timeout_ms >= 0
        else request.session_timeout_ms
    ),
    # A sync waits as long as its group's rebalance may take, which it does not say.
    apis.SYNC_GROUP.key: lambda _request: _LONGEST_TIMEOUT_MS,
    apis.DELETE_RECORDS.key: lambda request: int(request.timeout_ms),
}
