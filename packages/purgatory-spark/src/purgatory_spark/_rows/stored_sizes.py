"""What the footers of a trace's files say of its sizes, without a pass over its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from purgatory_spark._spark.files import PARQUET_SUFFIX
from purgatory_spark._spark.written_files import TEXT_BYTES


@dataclass(frozen=True)
class StoredSizes:
    """The sizes of all requests and events of a trace.

    Attributes:
        keys: The watch keys of all requests.
        text_bytes: The bytes of all text of both tables.
        timeouts_ms: The shortest and the longest timeout.
    """

    requests: int
    events: int
    keys: int
    text_bytes: int
    timeouts_ms: tuple[int, int]

    @classmethod
    def of(cls, folder: Path) -> StoredSizes | None:
        """Read the footers; None unless workers of an import wrote all files."""
        try:
            footers = {
                name: [
                    pq.read_metadata(file) for file in (folder / name).glob(f"*{PARQUET_SUFFIX}")
                ]
                for name in ("requests", "events")
            }
        except (OSError, ValueError):
            return None  # Spark's reader raises the error for a damaged file.
        both = [footer for of_table in footers.values() for footer in of_table]
        if not all(TEXT_BYTES in (footer.metadata or {}) for footer in both):
            return None
        requests = footers["requests"]
        timeouts = [chunk.statistics for chunk in _chunks(requests, "timeout_ms")]
        keys = list(_chunks(requests, "watch_keys.list.element"))
        if not timeouts or not all(timeouts) or not all(chunk.statistics for chunk in keys):
            return None
        return cls(
            requests=sum(footer.num_rows for footer in requests),
            events=sum(footer.num_rows for footer in footers["events"]),
            keys=sum(chunk.num_values - chunk.statistics.null_count for chunk in keys),
            text_bytes=sum(int(footer.metadata[TEXT_BYTES]) for footer in both),
            timeouts_ms=(
                min(found.min for found in timeouts),
                max(found.max for found in timeouts),
            ),
        )


def _chunks(footers: list[pq.FileMetaData], path: str) -> Iterator[pq.ColumnChunkMetaData]:
    for footer in footers:
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            for column in (group.column(at) for at in range(group.num_columns)):
                if column.path_in_schema == path:
                    yield column
