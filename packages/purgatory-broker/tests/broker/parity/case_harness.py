"""The harness of a parity case: its own topics and groups, connections to nodes, and a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tests.broker.parity.batches import batch
from tests.broker.parity.observation import timing
from tests.broker.parity.raw import TIME_LIMIT, ConnectionClosedError, RawClient

_RETRIABLE = {
    "LEADER_NOT_AVAILABLE": 5,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
}


class Cluster(Protocol):
    """A cluster of nodes 0, 1 and 2, of Apache Kafka or of this broker; node 0 is never stopped."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, "host:port,host:port"."""

    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the addresses of all nodes of a listener."""

    def stop(self, node: int) -> None:
        """Stop a node, in an orderly way."""

    def restart(self, node: int) -> None:
        """Start a stopped node, and wait until the cluster knows it."""


class CaseHarness:
    """The harness of one run of one case."""

    def __init__(self, cluster: Cluster, case: str, token: str) -> None:
        self.cluster = cluster
        self._case = case
        self._token = token
        self._clients: list[RawClient] = []
        # One connection to each node, with no outstanding request.
        self._idle: dict[str, RawClient] = {}
        self._topics: list[str] = []

    def close(self) -> None:
        """Delete the topics, and close the connections."""
        if self._topics:
            self.node_0.call("DeleteTopics", 5, topic_names=self._topics, timeout_ms=10_000)
        for client in self._clients:
            client.close()

    @property
    def node_0(self) -> RawClient:
        """A connection to node 0."""
        address = self.addresses()[0]
        if address not in self._idle:
            self._idle[address] = self.connect(address)
        return self._idle[address]

    def addresses(self) -> list[str]:
        """Return the addresses of all nodes."""
        return self.cluster.bootstrap_servers.split(",")

    def connect(self, address: str) -> RawClient:
        """Open a connection to a node."""
        client = RawClient(address)
        self._clients.append(client)
        return client

    def connect_sasl(self) -> RawClient:
        """Open a connection to node 0 on which the client has to log in."""
        return self.connect(self.cluster.bootstrap_servers_of("SASL_PLAINTEXT").split(",")[0])

    def connect_like(self, client: RawClient) -> RawClient:
        """Open another connection to the node of `client`."""
        return self.connect(client.address)

    def name(self, what: str = "topic") -> str:
        """Return a unique name that begins with `what`."""
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
        """Create a topic, and wait until all nodes know it and its leaders serve it.

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
        answer = self.node_0.call(
            "CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=False
        )
        assert answer.topics[0].error_code == 0, answer
        self.delete_later(name)
        for partition in range(partitions if nodes is None else len(nodes)):
            self.await_leader(name, partition)
        return name

    def topic_with_records(self, count: int = 3, **topic: Any) -> tuple[str, RawClient]:
        """Create a topic with `count` one-record batches in partition 0; connect to its leader."""
        name = self.topic(**topic)
        client = self.leader(name)
        for number in range(count):
            self.produce(client, name, batch(b"value %d" % number))
        return name, client

    def metadata(
        self, version: int, topics: list[dict[str, Any]] | None, *, create: bool = False
    ) -> Any:
        """Return node 0's response to Metadata."""
        return self.node_0.call(
            "Metadata", version, topics=topics, allow_auto_topic_creation=create
        )

    def delete_later(self, topic: str) -> None:
        """Delete the topic when the case ends."""
        self._topics.append(topic)

    def topic_id(self, topic: str) -> Any:
        """Return the id of a topic."""
        return self.metadata(12, [{"name": topic}]).topics[0].topic_id

    def await_leader(self, topic: str, partition: int = 0) -> str:
        """Return the address of a leader that all nodes agree on and that serves the partition."""

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
            answer = self._idle[address].call(
                "ListOffsets",
                5,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": topic, "partitions": [wanted]}],
            )
            return address if answer.topics[0].partitions[0].error_code == 0 else None

        return str(self.until(known))

    def leader(self, topic: str, partition: int = 0) -> RawClient:
        """Connect to a partition's leader."""
        return self.connect(self.await_leader(topic, partition))

    def non_leader(self, topic: str, partition: int = 0) -> RawClient:
        """Connect to a node that does not lead the partition."""
        leader = self.await_leader(topic, partition)
        return self.connect(next(each for each in self.addresses() if each != leader))

    def coordinator(self, group: str) -> RawClient:
        """Connect to a group's coordinator, once it serves the group."""

        def found() -> RawClient | None:
            answer = self.node_0.call("FindCoordinator", 2, key=group, key_type=0)
            if answer.error_code:
                assert answer.error_code in _RETRIABLE.values(), answer
                return None
            client = self.connect(f"{answer.host}:{answer.port}")
            fetched = client.call("OffsetFetch", 6, group_id=group, topics=None)
            return None if fetched.error_code in _RETRIABLE.values() else client

        client: RawClient = self.until(found)
        return client

    def until(self, condition: Callable[[], Any]) -> Any:
        """Poll a condition until its result is neither None nor False, and return the result."""
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
        """Return the result of a call, and its timing compared with `wait_ms`."""
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
        """Return the response for partition 0, or for each partition if there are more."""
        client.start("Produce", version, **produce_fields(topic, records, acks=acks, **fields))
        answers = sorted(
            client.read().responses[0].partition_responses, key=lambda each: each.index
        )
        return answers[0] if len(records) == 1 else answers

    def fetch(self, client: RawClient, topic: str, *, version: int = 12, **fields: Any) -> Any:
        """Return the response for partition 0."""
        return (
            client.call("Fetch", version, **fetch_fields(topic, **fields))
            .responses[0]
            .partitions[0]
        )

    def _nodes(self) -> Iterable[RawClient]:
        for address in self.addresses():
            try:
                if address not in self._idle:
                    self._idle[address] = self.connect(address)
                self._idle[address].call("Metadata", 9, topics=[])
            except (OSError, ConnectionClosedError):
                self._idle.pop(address, None)
            else:
                yield self._idle[address]


def produce_fields(
    topic: str,
    records: Iterable[bytes | None],
    *,
    acks: int = -1,
    timeout_ms: int = 5_000,
    topic_id: Any = None,
) -> dict[str, Any]:
    """Return the fields of a Produce request with the records of partition 0, 1 and so on."""
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
    """Return the fields of a Fetch request; a single offset is that of partition 0."""
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
