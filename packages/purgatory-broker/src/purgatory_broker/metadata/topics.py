"""Topics and their partitions, replicas, leaders and configurations."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from purgatory_broker._wire.error_code import CodedError


class ControllerError(CodedError):
    """The controller refuses a change."""


NO_LEADER = -1
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
#: Topics of the broker itself: clients may read them, but not write, create or delete them.
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
MAX_NAME_LENGTH = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """The watch key of produce, fetch and delete-records requests."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class Partition:
    topic: str
    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0
    #: Incremented by every change of the fields above.
    partition_epoch: int = 0
    #: Those of the replicas that a reassignment adds and removes.
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    def copy(self) -> Partition:
        return replace(
            self,
            replicas=list(self.replicas),
            isr=list(self.isr),
            adding=list(self.adding),
            removing=list(self.removing),
        )

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def complete_reassignment(self) -> None:
        """Drop the replicas that are being removed, if all others are in sync; else no-op."""
        replicas = [node for node in self.replicas if node not in self.removing]
        if self.is_reassigned and set(replicas) <= set(self.isr):
            self.isr = [node for node in self.isr if node not in self.removing]
            self.replicas = replicas
            self.adding = []
            self.removing = []

    def set_leader(self, node: int) -> None:
        """Begin a leader epoch of a node, or of none: NO_LEADER."""
        self.leader = node
        self.leader_epoch += 1
        self.partition_epoch += 1


@dataclass(slots=True)
class Topic:
    name: str
    topic_id: uuid.UUID
    partitions: list[Partition] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def topic_name_error(name: str | None) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _NAME.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def java_partition(key: str, num_partitions: int) -> int:
    """Return the partition of an id: `Utils.abs` of Java's `String.hashCode`, modulo."""
    code = 0
    raw = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(raw), 2):
        code = (31 * code + (raw[position] << 8 | raw[position + 1])) & 0xFFFFFFFF
    if code >= 0x8000_0000:
        code = (1 << 32) - code
    # The smallest int has no absolute value in Java; Kafka uses 0.
    return (0 if code == 0x8000_0000 else code) % num_partitions


def default_assignment(
    nodes: list[int], partitions: int, factor: int, first: int
) -> list[list[int]]:
    """Assign replicas to new partitions in turn; return each one's nodes, the leader first.

    `first` is the position in `nodes`, modulo their number, of the first partition's leader.

    >>> default_assignment([0, 1, 2], partitions=4, factor=2, first=1)
    [[1, 2], [2, 0], [0, 1], [1, 2]]
    """
    count = len(nodes)
    return [
        [nodes[(first + index + step) % count] for step in range(factor)]
        for index in range(partitions)
    ]


def replica_list_error(replicas: list[int], factor: int, nodes: int) -> str | None:
    """Return why a manual assignment of one partition is invalid, in Kafka's words, or None."""
    prefix = "The manual partition assignment includes"
    if not replicas:
        return f"{prefix} an empty replica list."
    if len(set(replicas)) < len(replicas):
        return f"{prefix} the same broker more than once: {replicas}."
    unknown = [node for node in replicas if not 0 <= node < nodes]
    if unknown:
        return f"{prefix} broker {unknown[0]}, but no such broker is registered."
    if len(replicas) != factor:
        return (
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {factor} replica(s)."
        )
    return None
