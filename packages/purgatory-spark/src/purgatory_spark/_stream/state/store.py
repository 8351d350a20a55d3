"""A shard's stored state: named blobs, of which a step reads and writes only those it needs."""

from __future__ import annotations

import json
import secrets
from typing import Any, Protocol

import pyarrow as pa

from purgatory_spark._rows.packing import from_blob, to_blob
from purgatory_spark._stream.state.layout import (
    OLDEST_VERSION,
    STATE_VERSION,
    require_readable,
    upgrade,
)
from purgatory_spark._stream.state.local_cache import LocalCache

#: The state store's cost is in its bytes, and zstd's output has two thirds of the size of LZ4's.
STORED = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))

_HEAD = "head"
_ROWS = "rows"

#: The head's entry for a segment: `number`, `step` (id of the attempt that wrote it), `layout`,
#: `rows`, `parts` (names of its tables), `bytes` (of all parts, compressed), and the metadata given
#: to `ShardStore.add_segment`.
Segment = dict[str, Any]


class BlobStore(Protocol):
    """A small key-value store: a dictionary, or Spark's state store."""

    def get(self, name: str, /) -> bytes | None: ...

    def __setitem__(self, name: str, blob: bytes, /) -> None: ...

    def __delitem__(self, name: str, /) -> None: ...


class ShardStore:
    """What a shard keeps from one step to the next: segments of tables, and a head.

    A segment is a set of tables that is written once. It is dropped when its rows are no longer
    needed or are merged into a larger segment. So the amount that a step writes does not depend on
    the amount that is stored.

    Attributes:
        head: a JSON object with the list of segments; values of the caller's own may be added.
    """

    def __init__(self, blobs: BlobStore, *, use_local_cache: bool = False) -> None:
        self._blobs = blobs
        head = blobs.get(_HEAD)
        self.head: dict[str, Any] = (
            {"next": 0, "lineage": secrets.token_hex(8), "segments": {}}
            if head is None
            else json.loads(head)
        )
        if head is not None:
            require_readable(self.head.get("layout", OLDEST_VERSION))
        self._cache = LocalCache.for_shard(self.head["lineage"]) if use_local_cache else None
        # A failed attempt at this step has used the same segment numbers for other contents.
        self._attempt = secrets.token_hex(4)

    def segments(self, kind: str) -> list[Segment]:
        """Return the entries of the segments of a kind, from the oldest to the newest."""
        found: list[Segment] = self.head["segments"].get(kind, [])
        return found

    def add_segment(
        self,
        kind: str,
        *,
        as_oldest: bool = False,
        metadata: dict[str, Any] | None = None,
        **parts: pa.Table,
    ) -> None:
        """Store a segment, the newest of its kind unless `as_oldest`; no-op if it has no `rows`."""
        count = parts[_ROWS].num_rows
        if not count:
            return
        segment = {
            "number": self.head["next"],
            "step": self._attempt,
            "layout": STATE_VERSION,
            "rows": count,
            "parts": list(parts),
            "bytes": 0,
            **(metadata or {}),
        }
        self.head["next"] += 1
        for part, table in parts.items():
            table = table.combine_chunks()
            blob = to_blob(table, STORED).to_pybytes()
            segment["bytes"] += len(blob)
            self._blobs[_blob_name(kind, segment, part)] = blob
            if self._cache is not None:
                self._cache.put(_cache_name(segment, part), table)
        segments = self.head["segments"].setdefault(kind, [])
        segments.insert(0 if as_oldest else len(segments), segment)

    def read_segment(self, kind: str, segment: Segment, part: str = _ROWS) -> pa.Table:
        if self._cache is not None:
            cached = self._cache.get(_cache_name(segment, part))
            if cached is not None:
                return cached
        blob = self._blobs.get(_blob_name(kind, segment, part))
        if blob is None:
            raise RuntimeError(
                f"the state store has lost part {part!r} of segment {segment['number']} of "
                f"{kind!r}; start again with a new checkpoint and a new output"
            )
        table = upgrade(from_blob(blob), segment.get("layout", OLDEST_VERSION))
        if self._cache is not None:
            self._cache.put(_cache_name(segment, part), table)
        return table

    def drop_segment(self, kind: str, segment: Segment) -> None:
        for part in segment["parts"]:
            del self._blobs[_blob_name(kind, segment, part)]
        self.head["segments"][kind].remove(segment)

    def stored_bytes(self) -> int:
        """Return the compressed bytes of all segments, without the state store's overhead."""
        total = 0
        for kind, segments in self.head["segments"].items():
            for segment in segments:
                if "bytes" not in segment:  # written by a version that did not count them
                    blobs = [
                        self._blobs.get(_blob_name(kind, segment, part))
                        for part in segment["parts"]
                    ]
                    segment["bytes"] = sum(len(blob) for blob in blobs if blob is not None)
                total += segment["bytes"]
        return total

    def save(self) -> None:
        """Write the head; call it last, after all segments of the step."""
        self.head["layout"] = STATE_VERSION
        self._blobs[_HEAD] = json.dumps(self.head, separators=(",", ":")).encode()
        if self._cache is not None:
            live = [segment for segments in self.head["segments"].values() for segment in segments]
            self._cache.retain_only(
                _cache_name(segment, part) for segment in live for part in segment["parts"]
            )


def _blob_name(kind: str, segment: Segment, part: str) -> str:
    return f"{kind}-{segment['number']}-{part}"


def _cache_name(segment: Segment, part: str) -> str:
    return f"{segment['number']}-{segment['step']}-{part}"
