"""The values of the records of the newer kinds of groups, which `records` encodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

from purgatory_broker.groups.modern.partitions import NO_PARTITIONS, Assignment


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    epoch: int
    #: Of the subscribed topics' metadata: another one makes a new epoch.
    metadata_hash: int = 0


class MemberState(IntEnum):
    """Where a member is on the way from its assignment to the target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """What a member says that uses the classic protocol."""

    session_timeout_ms: int
    #: Names of assignors and embedded subscriptions, in the member's order of preference.
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberValue:
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()
    #: None if the member subscribes by names alone.
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    #: None for a member of the consumer protocol.
    classic: ClassicMember | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    epoch: int = 0
    #: The epoch before the last change: its answer may have been lost.
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NO_PARTITIONS
    pending_revocation: Assignment = NO_PARTITIONS


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    topics: frozenset[str]
    #: Of the metadata with which the topics were found.
    version: int = 0
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class ShareMemberValue:
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShareStates:
    """The partitions of a share group with a state at a share coordinator."""

    initializing: Assignment = NO_PARTITIONS
    initialized_partitions: Assignment = NO_PARTITIONS
    #: The topics whose states are being deleted.
    deleting: frozenset[UUID] = frozenset()
    #: The names of all these topics, for a topic that is deleted.
    names: frozenset[tuple[UUID, str]] = frozenset()


ModernValue: TypeAlias = (
    ShareMemberValue
    | ShareStates
    | GroupEpoch
    | ConsumerMemberValue
    | CurrentAssignment
    | ResolvedRegex
    | Assignment
    | int
)
