"""The SCRAM credentials of a cluster: those of its settings, and those that clients store."""

from __future__ import annotations

from collections.abc import Mapping

from purgatory_broker.metadata.metadata_store import MetadataStore
from purgatory_broker.metadata.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    password_credential,
)


class ScramCredentials:
    """Those of `sasl_users`, computed when first used, with the stored changes by clients."""

    def __init__(self, passwords: Mapping[str, str], store: MetadataStore) -> None:
        self._passwords = passwords
        self._store = store
        self._computed: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    @property
    def users(self) -> list[str]:
        changed = (user for user, _ in self._store.scram_changes)
        return [
            user for user in dict.fromkeys((*self._passwords, *changed)) if self.iterations(user)
        ]

    def has(self, user: str, mechanism: ScramMechanism) -> bool:
        changes = self._store.scram_changes
        if (user, mechanism) in changes:
            return changes[user, mechanism] is not None
        return user in self._passwords

    def iterations(self, user: str) -> dict[ScramMechanism, int]:
        iterations_by_mechanism = {}
        for mechanism in ScramMechanism:
            if self.has(user, mechanism):
                changed = self._store.scram_changes.get((user, mechanism))
                iterations_by_mechanism[mechanism] = (
                    MIN_ITERATIONS if changed is None else changed.iterations
                )
        return iterations_by_mechanism

    def find(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        key = (user, mechanism)
        if key in self._store.scram_changes:
            return self._store.scram_changes[key]
        if user not in self._passwords:
            return None
        if key not in self._computed:
            self._computed[key] = password_credential(mechanism, self._passwords[user])
        return self._computed[key]

    def alter(self, changes: Mapping[tuple[str, ScramMechanism], ScramCredential | None]) -> None:
        """Store credentials, in place of earlier ones; None deletes a credential."""
        if not changes:
            return
        after = dict(self._store.scram_changes)
        for key, credential in changes.items():
            if credential is None and key[0] not in self._passwords:
                after.pop(key, None)
            else:
                after[key] = credential
        self._store.replace("scram_changes", after)
