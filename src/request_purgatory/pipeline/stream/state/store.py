"""Where a shard keeps its state.

Named blobs, of which a step reads and writes only those it needs.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, Protocol

import pyarrow as pa

from request_purgatory.pipeline.stream.state.local_cache import Copies
from request_purgatory.pipeline.stream.state.rows import from_blob, to_blob

#: The layout of a shard's state. A checkpoint of another one is refused when the stream starts.
STATE_VERSION = 2
_HEAD = "head"
_ROWS = "rows"

Segment = dict[str, Any]


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
    """Segments of tables, and a few numbers: what a shard keeps from one step to the next.

    A segment is written once, and dropped when its rows have had their time or go into a larger
    one: so what a step writes does not depend on how much is waiting.

    Attributes:
        head: the numbers; what is JSON may be added.
    """

    def __init__(self, blobs: Blobs, *, copies: bool = False) -> None:
        """The store as the last `save` left it.

        Args:
            copies: keep copies of tables on this machine's disk, in a folder of Spark's, and read
                those.
        """
        self._blobs = blobs
        head = blobs.get(_HEAD)
        self.head: dict[str, Any] = (
            {"next": 0, "lineage": secrets.token_hex(8), "segments": {}}
            if head is None
            else json.loads(head)
        )
        self._copies = Copies.of_worker(self.head["lineage"]) if copies else None
        # A step that failed has used the same numbers.
        self._step = secrets.token_hex(4)

    def segments(self, kind: str) -> list[Segment]:
        """What is known of the segments of a kind, from the oldest to the newest.

        Rows, and what `add_segment` was told.
        """
        found: list[Segment] = self.head["segments"].get(kind, [])
        return found

    def add_segment(
        self,
        kind: str,
        *,
        first: bool = False,
        known: dict[str, Any] | None = None,
        **parts: pa.Table,
    ) -> None:
        """Keep a segment, as the newest or as the `first`, if it has rows.

        Args:
            known: what is to be told of it.
            parts: its tables; its number of rows is that of the part `rows`.
        """
        count = parts[_ROWS].num_rows
        if not count:
            return
        segment = {
            "number": self.head["next"],
            "step": self._step,
            "rows": count,
            "parts": list(parts),
            **(known or {}),
        }
        self.head["next"] += 1
        for part, table in parts.items():
            table = table.combine_chunks()
            self._blobs.put(_blob_name(kind, segment, part), to_blob(table))
            if self._copies is not None:
                self._copies.put(_copy_name(segment, part), table)
        segments = self.head["segments"].setdefault(kind, [])
        segments.insert(0 if first else len(segments), segment)

    def read_segment(self, kind: str, segment: Segment, part: str = _ROWS) -> pa.Table:
        """One of a segment's tables, in one piece."""
        if self._copies is not None:
            copy = self._copies.get(_copy_name(segment, part))
            if copy is not None:
                return copy
        blob = self._blobs.get(_blob_name(kind, segment, part))
        if blob is None:
            raise RuntimeError(
                f"the state store has lost {part} of segment {segment['number']} of {kind}"
            )
        table = from_blob(blob)
        if self._copies is not None:
            self._copies.put(_copy_name(segment, part), table)
        return table

    def drop_segment(self, kind: str, segment: Segment) -> None:
        """Forget a segment."""
        for part in segment["parts"]:
            self._blobs.remove(_blob_name(kind, segment, part))
        self.head["segments"][kind].remove(segment)

    def save(self) -> None:
        """Keep the head, after everything else."""
        self._blobs.put(_HEAD, json.dumps(self.head, separators=(",", ":")).encode())
        if self._copies is not None:
            kept = [segment for segments in self.head["segments"].values() for segment in segments]
            self._copies.keep(
                _copy_name(segment, part) for segment in kept for part in segment["parts"]
            )


def _blob_name(kind: str, segment: Segment, part: str) -> str:
    return f"{kind}-{segment['number']}-{part}"


def _copy_name(segment: Segment, part: str) -> str:
    return f"{segment['number']}-{segment['step']}-{part}"
