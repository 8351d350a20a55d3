"""A member of a share group that sends its requests unchecked."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient, message
from tests.broker.wire.share_groups import MESSAGES

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
#: First and last offset, and the acknowledge types.
Acknowledged = tuple[int, int, Sequence[int]]
#: Unknown start offset: the first leader finds it.
UNKNOWN = -1


def call(client: RawClient, api: str, version: int | None = None, /, **fields: Any) -> Any:
    """Send a request about share groups, in its latest version, and return the response."""
    request = message(MESSAGES[f"{api}Request"], fields)
    return client.send(request, type(request).max_version if version is None else version)


def new_id() -> str:
    """Return an id as Java's clients make them."""
    return base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()


def share_coordinator(
    harness: CaseHarness, group: str, topic: str, partition: int = 0
) -> RawClient:
    """Connect to the coordinator of a share partition, once it serves it."""
    topic_id = harness.topic_id(topic)
    raw = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()

    def found() -> RawClient | None:
        answer = harness.node_0.call(
            "FindCoordinator",
            6,
            coordinator_keys=[f"{group}:{raw}:{partition}"],
            key_type=2,
        ).coordinators[0]
        if answer.error_code:
            return None
        client = harness.connect(f"{answer.host}:{answer.port}")
        summary = read_summary(client, group, topic_id, partition)
        return None if summary.error_code in (14, 15, 16) else client

    client: RawClient = harness.until(found)
    return client


def partitions(topic_id: Any, **fields: Any) -> list[dict[str, Any]]:
    """Return the topics of a request about the state of one partition."""
    return [{"topic_id": topic_id, "partitions": [{"partition": 0} | fields]}]


def initialize(
    client: RawClient, group: str, topic_id: Any, *, epoch: int = 0, start: int = 0
) -> Any:
    """Initialize a state, and return the partition's result."""
    topics = partitions(topic_id, state_epoch=epoch, start_offset=start)
    answer = call(client, "InitializeShareGroupState", group_id=group, topics=topics)
    return answer.results[0].partitions[0]


def read(client: RawClient, group: str, topic_id: Any, *, leader_epoch: int = 0) -> Any:
    """Read a state as a leader, and return the partition's result."""
    topics = partitions(topic_id, leader_epoch=leader_epoch)
    answer = call(client, "ReadShareGroupState", group_id=group, topics=topics)
    return answer.results[0].partitions[0]


def read_summary(client: RawClient, group: str, topic_id: Any, partition: int = 0) -> Any:
    """Read the summary of a state, and return the partition's result."""
    topics = [{"topic_id": topic_id, "partitions": [{"partition": partition, "leader_epoch": 0}]}]
    answer = call(client, "ReadShareGroupStateSummary", group_id=group, topics=topics)
    return answer.results[0].partitions[0]


def write(
    client: RawClient,
    group: str,
    topic_id: Any,
    *batches: tuple[int, int, int, int],
    epoch: int = 0,
    leader_epoch: int = 0,
    start: int = UNKNOWN,
) -> Any:
    """Write a state as a leader, and return the partition's result."""
    topics = partitions(
        topic_id,
        state_epoch=epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        state_batches=[
            {
                "first_offset": first,
                "last_offset": last,
                "delivery_state": state,
                "delivery_count": count,
            }
            for first, last, state, count in batches
        ],
    )
    answer = call(client, "WriteShareGroupState", group_id=group, topics=topics)
    return answer.results[0].partitions[0]


def prepared(harness: CaseHarness, records: int = 0, *, start: int = 0) -> tuple[str, str]:
    """Return a topic with records, and a group whose state begins at an offset."""
    topic = harness.topic()
    group = harness.name("group")
    client = harness.leader(topic)
    for number in range(records):
        harness.produce(client, topic, one_record(number))
    coordinator = share_coordinator(harness, group, topic)
    initialize(coordinator, group, harness.topic_id(topic), start=start)
    return topic, group


def one_record(number: int) -> bytes:
    """Return a batch of one record."""
    return batch(b"value %d" % number)


class ShareMember:
    """A member with one connection to the leader of partition 0 of a topic.

    `version` is that of its requests: 1 of Kafka 4.1, 2 of Kafka 4.2.
    """

    def __init__(self, harness: CaseHarness, topic: str, group: str, *, version: int = 1) -> None:
        self.harness = harness
        self.version = version
        self.topic_id = harness.topic_id(topic)
        self.group = group
        self.member_id = new_id()
        self.client = harness.leader(topic)
        self.epoch = 0

    def _epoch(self, epoch: int | None) -> int:
        if epoch is None:
            epoch, self.epoch = self.epoch, self.epoch + 1
        return epoch

    def fetch(
        self,
        *acknowledged: Acknowledged,
        epoch: int | None = None,
        max_wait_ms: int = 1_000,
        max_records: int = 500,
        batch_size: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        indexes: Iterable[int] = (0,),
        topic_id: Any = None,
        **fields: Any,
    ) -> Any:
        """Return the response to ShareFetch; `fields` are those of version 2."""
        return call(
            self.client,
            "ShareFetch",
            self.version,
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._epoch(epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=batch_size,
            topics=self._topics(acknowledged, indexes, topic_id),
            forgotten_topics_data=[],
            **fields,
        )

    def _topics(
        self, acknowledged: Iterable[Acknowledged], indexes: Iterable[int], topic_id: Any
    ) -> list[dict[str, Any]]:
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
            for first, last, types in acknowledged
        ]
        wanted = [
            {"partition_index": index, "acknowledgement_batches": batches} for index in indexes
        ]
        return [{"topic_id": topic_id or self.topic_id, "partitions": wanted}] if wanted else []

    def acquire(self, *acknowledged: Acknowledged, **options: Any) -> list[list[int]]:
        """Fetch until something is acquired; return the offsets with their delivery counts."""

        def acquired() -> list[list[int]] | None:
            answer = self.fetch(*acknowledged, **options)
            assert not answer.error_code, answer
            found = ranges(answer)
            return found or None

        made: list[list[int]] = self.harness.until(acquired)
        return made

    def acknowledge(
        self,
        *acknowledged: Acknowledged,
        epoch: int | None = None,
        indexes: Iterable[int] = (0,),
        topic_id: Any = None,
        **fields: Any,
    ) -> Any:
        """Return the response to ShareAcknowledge; `fields` are those of version 2."""
        return call(
            self.client,
            "ShareAcknowledge",
            self.version,
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._epoch(epoch),
            topics=self._topics(acknowledged, indexes, topic_id),
            **fields,
        )


def ranges(answer: Any) -> list[list[int]]:
    """Return each acquired offset with its delivery count; how they are in ranges may differ."""
    return [
        [offset, each.delivery_count]
        for topic in answer.responses
        for partition in topic.partitions
        for each in partition.acquired_records
        for offset in range(each.first_offset, each.last_offset + 1)
    ]
