"""What a test can look at in a cluster."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from purgatory_broker import (
    ClientRequest,
    ClusterError,
    ClusterTimeoutError,
)
from purgatory_broker._cli.printing import PRINTERS
from purgatory_broker._wire.messages import Header, encode_response
from purgatory_broker._wire.protocol.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from purgatory_broker._wire.reader import MAX_ELEMENTS
from purgatory_broker.api.registry import APIS, find_api
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.cluster.client_request import client_request
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.cluster.json_values import from_json, to_json
from purgatory_broker.cluster.snapshots import MAX_BYTES, TopicRecord, take_records
from purgatory_broker.groups.consumer_protocol import assigned_partitions
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, TopicPartition
from purgatory_broker.server.request_log import LoggedRequest
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.log.batches import NOW, batch
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, leader_client, produce
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario
from tests.broker.test_faults import encoded_example
from tests.broker.wire.schemas import request_class

TIME_LIMIT = 30.0


def send(client: RawClient, topic: str, data: bytes) -> None:
    """Produce a batch to the first partition of a topic."""
    partitions = [{"index": 0, "records": data}]
    answer = client.call(
        "Produce",
        9,
        acks=-1,
        timeout_ms=5_000,
        topic_data=[{"name": topic, "partition_data": partitions}],
    )
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("codec", [0, 1])
def test_records_have_everything_that_a_producer_sent(
    running: ClusterClient, connect: Connect, codec: int
) -> None:
    topic = f"sent-{codec}"
    running.create_topic(topic, partitions=2)
    client = leader_client(running, topic, connect)
    headers: list[tuple[str, bytes | None]] = [("trace", b"\xfe\x00"), ("none", None)]
    send(client, topic, batch(b"text", b"\xff\xfe", codec=codec, producer=(7, 0, 0)))
    send(client, topic, batch(None, key=None, headers=headers, codec=codec))
    found = running.records(topic)
    assert [(each.partition, each.offset, each.timestamp_ms) for each in found] == [
        (0, offset, NOW) for offset in range(3)
    ]
    assert [(each.key, each.value, each.producer_id) for each in found] == [
        (b"key", b"text", 7),
        (b"key", b"\xff\xfe", 7),
        (None, None, -1),
    ]
    assert [each.headers for each in found] == [(), (), tuple(headers)]
    assert (running.high_watermark(topic), running.high_watermark(topic, 1)) == (3, 0)


def test_topic_shows_the_replicas_that_are_out_of_sync_and_those_of_dead_nodes(
    running: ClusterClient,
) -> None:
    running.create_topic("dead")
    assert running.describe_topic("dead")[0]["out_of_sync"] == []
    running.kill(2)
    (partition,) = running.describe_topic("dead")
    assert (partition["out_of_sync"], sorted(partition["offsets"])) == ([2], [0, 1])
    printed = StringIO()
    PRINTERS["describe_topic"](Console(file=printed, width=80), [partition])
    (row,) = (line for line in printed.getvalue().splitlines() if "not running" in line)
    assert row.split() == ["0", "2", "not", "running", "no"]
    running.restart(2)
    running.wait_for(isr=("dead", 0, [0, 1, 2]))


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, "0:a 0:b 0:c 0:d 1:e 1:f"),
        ({"partition": 1}, "1:e 1:f"),
        ({"offset": 1}, "0:b 0:c 0:d 1:f"),
        ({"offset": 2, "partition": 1}, ""),
        ({"offset": -1}, "0:d 1:f"),
        ({"offset": -3, "partition": 0, "limit": 2}, "0:b 0:c"),
        ({"offset": -10}, "0:a 0:b 0:c 0:d 1:e 1:f"),
        ({"limit": 5}, "0:a 0:b 0:c 0:d 1:e"),
        ({"limit": 100}, "0:a 0:b 0:c 0:d 1:e 1:f"),
    ],
    ids=str,
)
def test_records_are_those_that_are_asked_for(
    running: ClusterClient, connect: Connect, arguments: dict[str, int], found: str
) -> None:
    topic = f"bounded-{'-'.join(f'{name}{value}' for name, value in arguments.items())}"
    running.create_topic(topic, partitions=2)
    for partition, batches in enumerate([((b"a", b"b", b"c"), (b"d",)), ((b"e", b"f"),)]):
        leader = running.describe_topic(topic)[partition]["leader"]
        client = connect(running.bootstrap_servers.split(",")[leader])
        for values in batches:
            produce(client, topic, *values, partition=partition)
    running.wait_for(records=(topic, 6))
    records = running.records(topic, **arguments)
    assert " ".join(f"{each.partition}:{(each.value or b'').decode()}" for each in records) == found


def test_deleted_and_unreplicated_records_are_not_shown() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"deleted", b"readable").get()
        await harness.cluster.wait_for(records=("orders", 2))
        for node in (1, 2):
            harness.cluster.pause_replication(node)
        harness.produce(0, b"unreplicated")
        harness.log(0).advance_log_start_offset(1)
        assert [each.value for each in await harness.cluster.records("orders")] == [b"readable"]
        with pytest.raises(ClusterTimeoutError, match="expected 2 records in orders, got 1 "):
            await harness.cluster.wait_for(records=("orders", 2), timeout=1)

    run_scenario(scenario)


def _commits(consumer: Any, offsets: dict[Any, Any]) -> bool:
    """Commit offsets of a consumer of kafka-python; return False during a rebalance."""
    errors = pytest.importorskip("kafka.errors")
    try:
        consumer.commit(offsets)
    except (errors.RebalanceInProgressError, errors.CommitFailedError):
        return False
    return True


def test_group_is_seen_from_its_forming_to_its_commits(
    running: ClusterClient, connect: Connect
) -> None:
    kafka = pytest.importorskip("kafka")
    running.create_topic("grouped", partitions=2)
    with pytest.raises(ClusterTimeoutError, match="'readers' to be Stable, there is no such group"):
        running.wait_for(group_stable="readers", timeout=0)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=running.bootstrap_servers,
        group_id="readers",
        client_id="reader",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    # With the metadata before it joins: kafka-python 3.0.12 may join again otherwise, and drops the
    # assignment if a poll times out during that.
    consumer.subscribe(["grouped"])
    assert consumer.partitions_for_topic("grouped") == {0, 1}
    offsets = {kafka.TopicPartition("grouped", 1): kafka.structs.OffsetAndMetadata(0, "", -1)}
    until = time.monotonic() + TIME_LIMIT
    with ThreadPoolExecutor(1) as pool:
        stable = pool.submit(running.wait_for, group_stable="readers", timeout=TIME_LIMIT)
        while not stable.done():
            consumer.poll(100)
        stable.result()
    # It may join once more, when it has newer metadata.
    while consumer.assignment() != {kafka.TopicPartition("grouped", each) for each in (0, 1)} or (
        not _commits(consumer, offsets)
    ):
        assert time.monotonic() < until
        consumer.poll(100)
    found = running.groups()["readers"]
    assert (found.state, found.protocol_type) == ("Stable", "consumer")
    (member,) = found.members
    assert (member.client_id, member.assignment) == ("reader", {"grouped": [0, 1]})
    assert (found.leader_id, found.offsets) == (member.member_id, {"grouped": {1: 0}})
    consumer.close()
    assert running.groups()["readers"].state == "Empty"


def test_groups_of_a_former_coordinator_are_left_out() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_offsets_topic()
        await harness.settle()
        first = harness.cluster.nodes[0].groups
        partition = first.partition_for("g")
        key = TopicPartition(OFFSETS_TOPIC, partition)
        state = harness.cluster.controller.partition(key)
        assert state is not None
        old = harness.node(state.leader)
        shard_owner = old.groups
        shard = shard_owner._shards.shard_of("g")
        shard.add_group("g", 0)
        assert harness.cluster.groups()["g"].coordinator == old.node_id
        harness.cluster.partition_node(old.node_id)
        await harness.until(lambda: state.leader != old.node_id)
        assert [each.group_id for each in old.groups.groups] == ["g"]
        assert harness.cluster.groups() == {}

    run_scenario(scenario)


def test_too_many_records_need_a_limit(running: ClusterClient, connect: Connect) -> None:
    running.create_topic("large")
    client = leader_client(running, "large", connect)
    for values in ([b"x"] * 10_000, [b"y"]):
        send(client, "large", batch(*values))
    with pytest.raises(InvalidArgumentError, match="limit must be given for more than 10000 rec"):
        running.records("large")
    assert [each.value for each in running.records("large", offset=-2)] == [b"x", b"y"]
    assert len(running.records("large", limit=20_000)) == 10_001
    with pytest.raises(InvalidArgumentError, match=r"limit must be at least 1, got 0"):
        running.records("large", limit=0)
    with pytest.raises(
        InvalidArgumentError, match=r"partition must be between 0 and 0 for topic '\w+', got 1"
    ):
        running.records("large", partition=1)


def test_records_of_many_bytes_need_a_limit() -> None:
    sizes = {"key": b"k" * MAX_BYTES, "headers": ()}, {"key": None, "headers": (("h", b""),)}
    fields = {"partition": 0, "timestamp_ms": 0, "value": None, "producer_id": -1}
    records = [
        TopicRecord(offset=offset, **fields, **size)  # type: ignore[arg-type]
        for offset, size in enumerate(sizes)
    ]
    assert asyncio.run(take_records(records[:1], None)) == records[:1]
    assert asyncio.run(take_records(records, 2)) == records
    with pytest.raises(InvalidArgumentError, match=f"or {MAX_BYTES} bytes of them"):
        asyncio.run(take_records(records, None))


def test_what_does_not_exist_is_refused(running: ClusterClient) -> None:
    """With Kafka's error where there is one."""
    with pytest.raises(ClusterError, match="records: there is no topic 'none'"):
        running.records("none")
    with pytest.raises(ClusterError, match="truncate: there is no topic 'none'") as refused:
        running.truncate("none")
    assert refused.value.code == "UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(ClusterError, match="high_watermark: there is no topic 'none'"):
        running.high_watermark("none")
    running.create_topic("small")
    with pytest.raises(
        InvalidArgumentError, match=r"partition must be between 0 and 0 for topic '\w+', got 1"
    ):
        running.high_watermark("small", 1)


@pytest.mark.parametrize(
    "assignment",
    [
        b"\0",
        b"\0\0\0\0\0\x01\0\x05ab",
        b"\0\0\x7f\xff\xff\xff\xff\xfa\0\0\0\0",
        b"\0\0\0\0\0\x01\0\x01a\xff\xff\xff\xff",
    ],
    ids=["short", "torn", "negative length", "negative count"],
)
def test_invalid_assignments_are_refused(assignment: bytes) -> None:
    with pytest.raises(ValueError, match=r"assignment|bytes"):
        assigned_partitions(assignment)


def test_requests_show_what_was_asked_and_answered(
    running: ClusterClient, connect: Connect
) -> None:
    running.create_topic("asked")
    client = leader_client(running, "asked", connect)
    before = len(running.requests(api="Produce"))
    produce(client, "asked", b"text")
    running.wait_for(request=("produce", before + 1))
    running.inject_request_error("Produce", "KAFKA_STORAGE_ERROR")
    produce(client, "asked", b"refused")
    handled, refused = running.requests(api="Produce")[before:]
    assert handled.request is not None
    assert handled.response is not None
    assert refused.response is not None
    assert handled.request["acks"] == -1
    assert handled.request["topic_data"][0]["name"] == "asked"
    answers = [
        each["responses"][0]["partition_responses"][0]["error_code"]
        for each in (handled.response, refused.response)
    ]
    assert answers == [0, 56]
    assert handled.answered_ms is not None
    assert handled.received_ms <= handled.answered_ms <= refused.received_ms
    assert (handled.api, handled.version) == ("Produce", 9)
    assert running.requests(client_id=handled.client_id, api="Produce")[-1] == refused
    assert running.requests(client_id="nobody") == []
    assert all(each.request is not None for each in running.requests())
    with pytest.raises(ClusterTimeoutError, match="expected 1000 Produce requests, got"):
        running.wait_for(request=("Produce", 1000), timeout=0)


def test_requests_have_the_bytes_that_went_over_the_wire(
    running: ClusterClient, connect: Connect
) -> None:
    topic = "raw-bytes"
    running.create_topic(topic)
    client = leader_client(running, topic, connect)
    sent = batch(b"text", b"\xff\xfe\\xff")
    send(client, topic, sent)
    fetched = bytes(fetch(client, topic, 0).records)
    (produced,) = running.requests(api="Produce")[-1:]
    (answered,) = running.requests(api="Fetch")[-1:]
    assert produced.request is not None
    assert answered.response is not None
    assert produced.request["topic_data"][0]["partition_data"][0]["records"] == sent
    assert answered.response["responses"][0]["partitions"][0]["records"] == fetched
    as_json = running.call("requests", api="Produce")[-1]["request"]
    assert as_json["topic_data"][0]["partition_data"][0] == {
        "index": 0,
        "records": {"base64": base64.b64encode(sent).decode()},
    }


def test_requests_of_an_async_cluster_have_bytes() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        header = Header(find_api("JoinGroup"), 5, 7, "app", 0, is_supported=True)
        frame = encoded_example(find_api("JoinGroup"), 5)
        harness.cluster._parts.request_log.received(0, header, frame)
        (found,) = await harness.cluster.requests()
        assert found.request is not None
        assert found.request["protocols"] == [{"name": "x", "metadata": b"x"}]

    run_scenario(scenario)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_requests_of_every_api_are_the_same_after_json(api: ServedApi) -> None:
    for version in range(api.min_version, api.max_version + 1):
        frame = encoded_example(api, version)
        header = Header(api, version, 7, "app", 0, is_supported=True)
        found = client_request(LoggedRequest(0, header, 0, frame, len(frame)))
        assert found.request is not None
        returned = from_json(json.loads(json.dumps(to_json(found))), ClientRequest)
        assert returned == found, version
        shown, sent = repr(found.request), repr(request_class(api).decode(frame, version=version))
        assert shown.count("b'x'") + shown.count("[hidden]") == sent.count("b'x'"), version


def test_response_with_more_elements_than_a_request_may_have_is_shown() -> None:
    api = find_api("DeleteGroups")
    header = Header(api, 1, 7, "app", 0, is_supported=True)
    results = [DeletableGroupResult()] * (MAX_ELEMENTS + 1)
    frame = encode_response(header, DeleteGroupsResponse(results=results))
    response = client_request(LoggedRequest(0, header, 0, None, 0, 1, frame)).response
    assert response is not None
    assert len(response["results"]) == MAX_ELEMENTS + 1
