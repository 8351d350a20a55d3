"""A store of records in a list, which may be compacted, and never fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class NaiveStore:
    def __init__(self) -> None:
        self.epoch: object = None
        self.records: list[tuple[int, bytes | None, bytes | None]] = []
        self._end = 0

    def read(self, offset: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        return (record for record in self.records if record[0] >= offset)

    async def append(self, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in records:
            self.records.append((self._end, key, value))
            self._end += 1

    def compact(self) -> None:
        """Keep the last record of each key, and no tombstone."""
        last = {key: (offset, key, value) for offset, key, value in self.records}
        self.records = sorted(record for record in last.values() if record[2] is not None)
