"""Where a shard keeps its state: named blobs, of which a step reads and writes only those it needs."""

from __future__ import annotations

import json
from typing import Any, Protocol

import pyarrow as pa

from request_purgatory.pipeline.stream.rows import from_blob, to_blob

#: The layout of a shard's state. A checkpoint of another one is refused when the stream starts.
STATE_VERSION = 1
_HEAD = "head"


class Blobs(Protocol):
    """A small key-value store: a dictionary, or Spark's state store."""

    def get(self, name: str) -> bytes | None: ...
    def put(self, name: str, blob: bytes) -> None: ...
    def remove(self, name: str) -> None: ...


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        return self.kept.get(name)

    def put(self, name: str, blob: bytes) -> None:
        self.kept[name] = blob

    def remove(self, name: str) -> None:
        del self.kept[name]


class ShardStore:
    """Tables by name, segments of tables, and a few numbers: what a shard keeps from one step to the next.

    A segment is written once, read when the time has come to which its rows belong, and dropped: so what a step costs does not
    depend on how much is waiting.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        head = blobs.get(_HEAD)
        self.head: dict[str, Any] = {"next": 0, "tables": [], "segments": {}} if head is None else json.loads(head)

    def table(self, name: str, schema: pa.Schema) -> pa.Table:
        """A table that is kept whole; empty if there is none yet."""
        blob = self._blobs.get(name) if name in self.head["tables"] else None
        return schema.empty_table() if blob is None else from_blob(blob)

    def put_table(self, name: str, table: pa.Table) -> None:
        """Keep a table in place of the one before."""
        kept = name in self.head["tables"]
        if table.num_rows:
            self._blobs.put(name, to_blob(table.combine_chunks()))
            if not kept:
                self.head["tables"].append(name)
        elif kept:
            self._blobs.remove(name)
            self.head["tables"].remove(name)

    def segments(self, kind: str) -> list[dict[str, Any]]:
        """What is known of the segments of a kind: number, rows, and what `add_segment` was told."""
        found: list[dict[str, Any]] = self.head["segments"].get(kind, [])
        return found

    def add_segment(self, kind: str, table: pa.Table, **known: int) -> None:
        """Keep a table's rows, if there are any."""
        if table.num_rows:
            number = self.head["next"]
            self.head["next"] += 1
            self._blobs.put(f"{kind}-{number}", to_blob(table.combine_chunks()))
            self.head["segments"].setdefault(kind, []).append({"number": number, "rows": table.num_rows, **known})

    def take_segment(self, kind: str, segment: dict[str, Any]) -> pa.Table:
        """A segment's rows, which are not kept any longer."""
        table = self.read_segment(kind, segment)
        self.drop_segment(kind, segment)
        return table

    def read_segment(self, kind: str, segment: dict[str, Any]) -> pa.Table:
        """A segment's rows."""
        blob = self._blobs.get(f"{kind}-{segment['number']}")
        if blob is None:
            raise RuntimeError(f"the state store has lost segment {segment['number']} of {kind}")
        return from_blob(blob)

    def drop_segment(self, kind: str, segment: dict[str, Any]) -> None:
        """Forget a segment."""
        self._blobs.remove(f"{kind}-{segment['number']}")
        self.head["segments"][kind].remove(segment)

    def save(self) -> None:
        """Keep the head, after everything else."""
        self._blobs.put(_HEAD, json.dumps(self.head, separators=(",", ":")).encode())
