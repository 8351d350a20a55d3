"""The states in one partition of `__share_group_state`, and which of its records they need."""

from __future__ import annotations

from dataclasses import dataclass, field

from purgatory_broker.sharing.state import ShareKey, ShareState
from purgatory_broker.sharing.state_records import SNAPSHOT, UPDATE, decode_key, decode_value


@dataclass(slots=True, eq=False)
class StateShard:
    """What is known of the share partitions of one partition of `__share_group_state`."""

    partition: int
    states: dict[ShareKey, ShareState] = field(default_factory=dict)
    #: The highest epochs so far, which a new state does not reset.
    leader_epochs: dict[ShareKey, int] = field(default_factory=dict)
    #: Updates since the last snapshot.
    num_updates: dict[ShareKey, int] = field(default_factory=dict)
    #: The offsets of the last snapshots that are replicated.
    snapshots: dict[ShareKey, int] = field(default_factory=dict)
    #: The offset of the last deletion that is replicated.
    deletion: int = 0
    #: The offset before which records have been deleted.
    pruned: int = 0

    @property
    def redundant_before(self) -> int:
        """The offset from which on the records make all states, as far as that is known."""
        if not self.states.keys() <= self.snapshots.keys():
            return self.pruned
        return max(self.pruned, min(self.snapshots.values(), default=self.deletion))

    def replay(self, offset: int, raw_key: bytes, raw_value: bytes | None) -> None:
        decoded = decode_key(raw_key)
        if decoded is None:
            return
        kind, key = decoded
        if raw_value is None:
            self.apply(key, None, SNAPSHOT)
            self.note_replicated(key, None, SNAPSHOT, offset)
            return
        value = decode_value(raw_value, kind)
        state = self.states.get(key)
        if kind == SNAPSHOT:
            self.apply(key, value, SNAPSHOT)
            self.note_replicated(key, value, SNAPSHOT, offset)
        elif state is not None:
            self.apply(key, state.updated(value), UPDATE)

    def apply(self, key: ShareKey, state: ShareState | None, kind: int) -> None:
        if state is None:
            for known in (self.states, self.leader_epochs, self.num_updates):
                known.pop(key, None)
            return
        self.states[key] = state
        self.leader_epochs[key] = max(state.leader_epoch, self.leader_epochs.get(key, 0))
        self.num_updates[key] = 0 if kind == SNAPSHOT else self.num_updates.get(key, 0) + 1

    def note_replicated(
        self, key: ShareKey, state: ShareState | None, kind: int, offset: int
    ) -> None:
        if state is None:
            self.snapshots.pop(key, None)
            self.deletion = max(self.deletion, offset)
        elif kind == SNAPSHOT:
            self.snapshots[key] = offset
