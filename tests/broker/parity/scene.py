"""What a case works with.

Topics and groups of its own, connections to the nodes it needs, and a clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tests.broker.parity.batches import batch
from tests.broker.parity.observation import timing
from tests.broker.parity.raw import TIME_LIMIT, ConnectionClosedError, RawClient

_NOT_YET = {
    "LEADER_NOT_AVAILABLE": 5,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
}


class Cluster(Protocol):
    """A cluster, Kafka's or ours, of three nodes with the ids 0, 1 and 2.

    Node 0 is never stopped.
    """

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, "host:port,host:port"."""

    def stop(self, node: int) -> None:
        """Stop a node, in an orderly way."""

    def restart(self, node: int) -> None:
        """Start a stopped node again, to where the cluster has it."""


class Scene:
    """For one run of one case."""

    def __init__(self, cluster: Cluster, case: str, token: str) -> None:
        self.cluster = cluster
        self._case = case
        self._token = token
        self._clients: list[RawClient] = []
        # One for each node, on which no answer is ever left waiting.
        self._own: dict[str, RawClient] = {}
        self._topics: list[str] = []

    def close(self) -> None:
        """End the connections and remove the topics."""
        if self._topics:
            self.any.call("DeleteTopics", 5, topic_names=self._topics, timeout_ms=10_000)
        for client in self._clients:
            client.close()

    @property
    def any(self) -> RawClient:
        """A connection to node 0."""
        address = self.addresses()[0]
        if address not in self._own:
            self._own[address] = self.connect(address)
        return self._own[address]

    def addresses(self) -> list[str]:
        """Of all nodes."""
        return self.cluster.bootstrap.split(",")

    def connect(self, address: str) -> RawClient:
        """One connection more to a node."""
        client = RawClient(address)
        self._clients.append(client)
        return client

    def again(self, client: RawClient) -> RawClient:
        """One connection more to where this one leads."""
        return self.connect(client.address)

    def name(self, what: str = "topic") -> str:
        """A name that nothing else has."""
        return what + self._token

    def topic(
        self,
        what: str = "topic",
        *,
        partitions: int = 1,
        replicas: int = 1,
        nodes: list[list[int]] | None = None,
        configs: dict[str, str] | None = None,
    ) -> str:
        """A new topic that all nodes know and whose leaders serve.

        `nodes` are each partition's replicas, the leader first.
        """
        name = self.name(what)
        topic: dict[str, Any] = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replicas,
            "assignments": [],
        }
        if nodes is not None:
            assignments = [
                {"partition_index": index, "broker_ids": each} for index, each in enumerate(nodes)
            ]
            topic |= {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        topic["configs"] = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        answer = self.any.call(
            "CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=False
        )
        assert answer.topics[0].error_code == 0, answer
        self.forget_later(name)
        for partition in range(partitions if nodes is None else len(nodes)):
            self.await_leader(name, partition)
        return name

    def filled(self, count: int = 3, **topic: Any) -> tuple[str, RawClient]:
        """A new topic with `count` batches of one record each in partition 0, and a connection to the leader."""
        name = self.topic(**topic)
        client = self.leader(name)
        for number in range(count):
            self.produce(client, name, batch(b"value %d" % number))
        return name, client

    def metadata(
        self, version: int, topics: list[dict[str, Any]] | None, *, create: bool = False
    ) -> Any:
        """What node 0 answers to Metadata."""
        return self.any.call("Metadata", version, topics=topics, allow_auto_topic_creation=create)

    def forget_later(self, topic: str) -> None:
        """Remove the topic when the case ends."""
        self._topics.append(topic)

    def topic_id(self, topic: str) -> Any:
        """The id of a topic."""
        return self.metadata(12, [{"name": topic}]).topics[0].topic_id

    def await_leader(self, topic: str, partition: int = 0) -> str:
        """The address of a partition's leader, once each node knows the same one, and that one serves."""

        def known() -> str | None:
            leaders = set()
            for client in self._nodes():
                answer = client.call(
                    "Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False
                )
                found = [
                    each
                    for each in answer.topics[0].partitions
                    if each.partition_index == partition
                ]
                brokers = {
                    broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers
                }
                leaders.add(
                    brokers.get(found[0].leader_id) if found and found[0].error_code == 0 else None
                )
            address = leaders.pop()
            if leaders or address is None:
                return None
            wanted = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
            answer = self._own[address].call(
                "ListOffsets",
                5,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": topic, "partitions": [wanted]}],
            )
            return address if answer.topics[0].partitions[0].error_code == 0 else None

        return str(self.until(known))

    def leader(self, topic: str, partition: int = 0) -> RawClient:
        """A connection to a partition's leader."""
        return self.connect(self.await_leader(topic, partition))

    def other(self, topic: str, partition: int = 0) -> RawClient:
        """A connection to a node that does not lead the partition."""
        leader = self.await_leader(topic, partition)
        return self.connect(next(each for each in self.addresses() if each != leader))

    def coordinator(self, group: str) -> RawClient:
        """A connection to a group's coordinator, once that one serves."""

        def found() -> RawClient | None:
            answer = self.any.call("FindCoordinator", 2, key=group, key_type=0)
            if answer.error_code:
                assert answer.error_code in _NOT_YET.values(), answer
                return None
            client = self.connect(f"{answer.host}:{answer.port}")
            fetched = client.call("OffsetFetch", 6, group_id=group, topics=None)
            return None if fetched.error_code in _NOT_YET.values() else client

        client: RawClient = self.until(found)
        return client

    def until(self, condition: Callable[[], Any]) -> Any:
        """What the condition returns, once that is not None and not False."""
        limit = time.monotonic() + TIME_LIMIT
        while (found := condition()) is None or found is False:
            assert time.monotonic() < limit, (
                f"{self._case}: {condition} is not met in {TIME_LIMIT} s"
            )
            time.sleep(0.02)
        return found

    def timed(
        self, wait_ms: float, call: Callable[..., Any], *arguments: Any, **named: Any
    ) -> dict[str, Any]:
        """What a call with these arguments returns, and how long that takes where it may take `wait_ms`."""
        before = time.monotonic()
        answer = call(*arguments, **named)
        return {"timing": timing((time.monotonic() - before) * 1000, wait_ms), "answer": answer}

    def produce(
        self,
        client: RawClient,
        topic: str,
        *records: bytes | None,
        acks: int = -1,
        version: int = 9,
        **fields: Any,
    ) -> Any:
        """What is answered for partition 0, or a list for as many partitions as there are `records`."""
        client.start("Produce", version, **produce_fields(topic, records, acks=acks, **fields))
        answers = sorted(
            client.read().responses[0].partition_responses, key=lambda each: each.index
        )
        return answers[0] if len(records) == 1 else answers

    def fetch(self, client: RawClient, topic: str, *, version: int = 12, **fields: Any) -> Any:
        """What is answered for partition 0."""
        return (
            client.call("Fetch", version, **fetch_fields(topic, **fields))
            .responses[0]
            .partitions[0]
        )

    def _nodes(self) -> Iterable[RawClient]:
        for address in self.addresses():
            try:
                if address not in self._own:
                    self._own[address] = self.connect(address)
                self._own[address].call("Metadata", 9, topics=[])
            except (OSError, ConnectionClosedError):
                self._own.pop(address, None)
            else:
                yield self._own[address]


def produce_fields(
    topic: str,
    records: Iterable[bytes | None],
    *,
    acks: int = -1,
    timeout_ms: int = 5_000,
    topic_id: Any = None,
) -> dict[str, Any]:
    """The fields of a Produce request: the records of partition 0, of partition 1, and so on."""
    data: dict[str, Any] = {
        "partition_data": [{"index": index, "records": each} for index, each in enumerate(records)]
    }
    data |= {"name": topic} if topic_id is None else {"topic_id": topic_id}
    return {"transactional_id": None, "acks": acks, "timeout_ms": timeout_ms, "topic_data": [data]}


def fetch_fields(
    topic: str,
    offsets: int | dict[int, int] = 0,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    topic_id: Any = None,
    forgotten: Iterable[int] = (),
) -> dict[str, Any]:
    """The fields of a Fetch request: the offsets to read from, by partition.

    A single one is that of partition 0.
    """
    by_partition = {0: offsets} if isinstance(offsets, int) else offsets
    named = {"topic": topic} if topic_id is None else {"topic_id": topic_id}
    partitions = [
        {
            "partition": partition,
            "current_leader_epoch": leader_epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": last_epoch,
            "log_start_offset": -1,
            "partition_max_bytes": partition_max_bytes,
        }
        for partition, offset in by_partition.items()
    ]
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation_level,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": [named | {"partitions": partitions}] if partitions else [],
        "forgotten_topics_data": [named | {"partitions": list(forgotten)}] if forgotten else [],
        "rack_id": "",
    }
