"""Consumers as they are told to behave, for models: of the consumer protocol and of the classic."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.consumer_protocol import assigned_partitions, encode_assignment
from tests.broker.groups.captured_response import CapturedResponse
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.harness import CoordinatorHarness
from tests.broker.wire.consumer_groups import ConsumerGroupHeartbeatRequest

Owned = frozenset[tuple[str, int]]
NOTHING: Owned = frozenset()


def subscription(topics: list[str], owned: Owned = NOTHING) -> bytes:
    """Return the embedded subscription of a classic consumer, in version 1."""
    out = struct.pack(">hi", 1, len(topics))
    for topic in topics:
        out += struct.pack(">h", len(topic)) + topic.encode()
    out += struct.pack(">ii", -1, len(owned))
    for topic, partition in sorted(owned):
        out += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">ii", 1, partition)
    return out


def beat(
    harness: CoordinatorHarness,
    member_id: str,
    epoch: int,
    *,
    owned: Owned | None = None,
    topics: list[str] | None = None,
    regex: str | None = None,
    instance_id: str | None = None,
    rebalance_ms: int = 30_000,
    assignor: str | None = None,
    group_id: str = GROUP,
    version: int = 1,
    full: bool = True,
) -> CapturedResponse:
    """Send a ConsumerGroupHeartbeat; not `full` leaves out what does not change."""
    by_topic: dict[UUID, list[int]] = {}
    for name, partition in sorted(owned or ()):
        by_topic.setdefault(harness.topics.topics[name].topic_id, []).append(partition)
    partitions = ConsumerGroupHeartbeatRequest.TopicPartitions
    tells = full or epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        rack_id=None,
        rebalance_timeout_ms=rebalance_ms if tells else -1,
        subscribed_topic_names=topics,
        subscribed_topic_regex=regex,
        server_assignor=assignor,
        topic_partitions=None
        if owned is None
        else [partitions(topic_id=each, partitions=got) for each, got in by_topic.items()],
    )
    return harness.send(request, version)


def partitions_of(harness: CoordinatorHarness, response: Any) -> Owned | None:
    """Return the partitions of a heartbeat's response; None if it has no assignment."""
    if response.assignment is None:
        return None
    return frozenset(
        (str(harness.topics.topic_name(topic.topic_id)), partition)
        for topic in response.assignment.topic_partitions
        for partition in topic.partitions
    )


@dataclass
class ModelConsumer:
    """A client of the consumer protocol, with what it knows and the partitions that it reads."""

    member_id: str
    topics: list[str]
    #: Empty for none; in a request, null stands for no change.
    regex: str
    instance_id: str | None = None
    epoch: int = 0
    owned: Owned = NOTHING
    target: Owned = NOTHING
    #: Whether it has given up what it has to.
    slow: bool = False

    def reset(self) -> None:
        """Give everything up, to join again."""
        self.epoch, self.owned, self.target = 0, NOTHING, NOTHING

    def heartbeat(self, harness: CoordinatorHarness) -> CapturedResponse:
        return beat(
            harness,
            self.member_id,
            self.epoch,
            owned=self.owned,
            topics=self.topics,
            regex=self.regex,
            instance_id=self.instance_id,
        )

    def receive(self, harness: CoordinatorHarness, answer: CapturedResponse) -> None:
        """Take an answer as Kafka's consumer does; one of a former epoch changes nothing."""
        if answer.error in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            self.reset()
        elif answer.error is ErrorCode.NONE:
            self.epoch = answer.response.member_epoch
            found = partitions_of(harness, answer.response)
            if found is not None:
                self.target = found
            if not self.slow:
                self.revoke()

    def revoke(self) -> None:
        """Give up what is not assigned any more, and begin to read what is."""
        self.owned = self.target


@dataclass
class ModelClassic:
    """A client of the classic protocol that gives up all partitions before it joins again."""

    topics: list[str]
    member_id: str = ""
    generation: int = -1
    owned: Owned = NOTHING
    has_joined: bool = False
    joins: list[CapturedResponse] = field(default_factory=list)
    syncs: list[CapturedResponse] = field(default_factory=list)

    def act(self, harness: CoordinatorHarness) -> None:
        """Do the next step: take answers, join, sync or send a heartbeat."""
        self._take_answers(harness)
        if self.joins or self.syncs:
            return
        if not self.has_joined:
            self.owned = NOTHING
            protocols = (("range", subscription(self.topics)),)
            self.joins.append(
                harness.join(
                    self.member_id, protocols=protocols, session_ms=10_000, rebalance_ms=20_000
                )
            )
            self._take_answers(harness)
            return
        self._take_error(harness.heartbeat(self.member_id, self.generation))

    def _take_answers(self, harness: CoordinatorHarness) -> None:
        if self.joins and self.joins[0].is_done:
            joined = self.joins.pop()
            if joined.error is ErrorCode.NONE:
                self.member_id = joined.response.member_id
                self.generation = joined.response.generation_id
                self.has_joined = True
                plan = self._plan(harness, joined.response)
                self.syncs.append(harness.sync(self.member_id, self.generation, plan))
            else:
                self._take_error(joined.error, joined.response.member_id)
        if self.syncs and self.syncs[0].is_done:
            synced = self.syncs.pop()
            self._take_error(synced.error)
            if synced.error is ErrorCode.NONE:
                self.owned = frozenset(
                    (topic, partition)
                    for topic, numbers in assigned_partitions(synced.response.assignment).items()
                    for partition in numbers
                )

    def _plan(self, harness: CoordinatorHarness, joined: Any) -> dict[str, bytes]:
        """Return the leader's assignment: partitions in turn, of those topics that exist."""
        members = sorted(member.member_id for member in joined.members)
        plans: dict[str, dict[str, list[int]]] = {member: {} for member in members}
        for topic in self.topics if members else ():
            known = harness.topics.topics.get(topic)
            for partition in range(0 if known is None else len(known.partitions)):
                member = members[partition % len(members)]
                plans[member].setdefault(topic, []).append(partition)
        return {member: encode_assignment(1, plan) for member, plan in plans.items()}

    def _take_error(self, error: ErrorCode, member_id: str = "") -> None:
        if error is ErrorCode.NONE:
            return
        self.has_joined = False
        self.owned = NOTHING
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = member_id
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
