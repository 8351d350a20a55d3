"""The topic of the registry: what it says, and one change after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from purgatory_broker.schema_registry.registry_state import KeyAndValue, RegistryState


class SchemaStore(Protocol):
    @property
    def epoch(self) -> object:
        """Another object after the topic was deleted."""

    def read(self, offset: int) -> Iterable[tuple[int, bytes | None, bytes | None]]:
        """Iterate over the offsets, keys and values of the records from an offset on."""

    async def append(self, records: Sequence[KeyAndValue]) -> None:
        """Append records; done when the in-sync replicas have them.

        Raises:
            RegistryError: they could not be appended.
        """


class RegistryTopic:
    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._state = RegistryState()
        self._epoch: object = None
        self._offset = 0
        self._lock = asyncio.Lock()

    def read(self) -> RegistryState:
        """Return what the records up to now say, also those that others have written."""
        if self._epoch != self._store.epoch:
            self._epoch, self._offset, self._state = self._store.epoch, 0, RegistryState()
        for offset, key, value in self._store.read(self._offset):
            self._state.apply(key, value)
            self._offset = offset + 1
        return self._state

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[RegistryState]:
        """Hold off other changes, and yield the state."""
        async with self._lock:
            yield self.read()

    async def append(self, *records: KeyAndValue) -> None:
        """Append records within a block of `changing`, and read them."""
        await self._store.append(records)
        self.read()
