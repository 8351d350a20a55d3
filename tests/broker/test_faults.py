"""Faults of requests and responses, as a client meets them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory.broker import Cluster
from request_purgatory.broker.wire.apis import API_VERSIONS, APIS, Api
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.error_response import error_response
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce

Connect = Callable[[str], RawClient]


@pytest.fixture
def client(cluster: Cluster, connect: Connect) -> RawClient:
    """A connection to who leads the topic `t`."""
    cluster.create_topic("t")
    return connect(cluster.bootstrap.split(",")[cluster.describe("t")[0]["leader"]])


def test_error_is_answered_so_many_times_and_nothing_is_done(
    cluster: Cluster, client: RawClient
) -> None:
    """The request is not handled: nothing is appended."""
    cluster.fail_requests("Produce", "KAFKA_STORAGE_ERROR", times=2)
    assert [produce(client, "t", b"x").error_code for _ in range(3)] == [56, 56, 0]
    assert fetch(client, "t", 0).high_watermark == 1


def test_error_of_one_node_is_not_that_of_others(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    """And -1 is as often as there are requests, until all faults are cleared."""
    leader = cluster.describe("t")[0]["leader"]
    other = connect(cluster.bootstrap.split(",")[(leader + 1) % 3])
    cluster.fail_requests("metadata", "BROKER_NOT_AVAILABLE", times=-1, node=leader)
    codes = [
        client.call("Metadata", 4, topics=[{"name": "t"}]).topics[0].error_code for _ in range(3)
    ]
    assert codes == [8, 8, 8]
    assert other.call("Metadata", 4, topics=[{"name": "t"}]).topics[0].error_code == 0
    cluster.clear_faults()
    assert client.call("Metadata", 4, topics=[{"name": "t"}]).topics[0].error_code == 0


def test_delayed_response_comes_after_its_delay(cluster: Cluster, client: RawClient) -> None:
    """What it answers was done at once."""
    cluster.befall_responses("Produce", "delay", delay_ms=300)
    began = time.monotonic()
    assert produce(client, "t", b"x").error_code == 0
    assert time.monotonic() - began >= 0.3


def test_dropped_response_never_comes(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    """Nothing else on its connection is answered either; other connections are."""
    cluster.befall_responses("Fetch", "drop")
    client.start("Fetch", 11, **fetch_fields("t", 0))
    with pytest.raises(TimeoutError):
        client.read(timeout=0.2)
    assert produce(connect(client.address), "t", b"x").error_code == 0


def test_disconnected_response_ends_the_connection(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    """What the request did is done."""
    cluster.befall_responses("Produce", "disconnect")
    with pytest.raises(ConnectionClosedError):
        produce(client, "t", b"x")
    assert fetch(connect(client.address), "t", 0).high_watermark == 1


def test_corrupted_response_is_another_of_the_same_size(
    cluster: Cluster, client: RawClient
) -> None:
    """The same one for the same seed."""
    frames = []
    for seed in (7, 7, None):
        if seed is not None:
            cluster.befall_responses("ListOffsets", "corrupt", seed=seed)
        wanted = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        client.start("ListOffsets", 2, replica_id=-1, isolation_level=0, topics=wanted)
        frames.append(client.read_frame()[4:])
        client._awaited.clear()
    assert frames[0] == frames[1] != frames[2]
    assert len(frames[0]) == len(frames[2])


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_has_an_answer_for_an_error(api: Api) -> None:
    """At each version that is served: it can be written and read, and the code is in it."""
    for version in range(api.min_version, api.max_version + 1):
        request = example(api, version)
        answer = error_response(api, request, ErrorCode.KAFKA_STORAGE_ERROR)
        encoded = bytes(answer.encode(version=version))
        if api is API_VERSIONS:
            # The library reads every error of this API as if it were of the first version.
            assert encoded.startswith(b"\0\x38")
            continue
        decoded = api.response.decode(encoded, version=version)
        assert "error_code=56" in repr(decoded), (version, decoded)


def example(api: Api, version: int) -> Any:
    """A request with one element in each of its arrays."""
    made = api.request(
        **{
            name: part(field)
            for name, field in api.request.fields.items()
            if field.for_version_q(version)
        }
    )
    return api.request.decode(bytes(made.encode(version=version)), version=version)


def part(field: Any) -> Any:
    """A value that a field may have."""
    if field.is_struct_array() or field.is_struct():
        made = field.data_class(**{name: part(each) for name, each in field.fields.items()})
        return [made] if field.is_struct_array() else made
    kind = field._type_str.removeprefix("[]")
    value = {
        "string": "x",
        "bytes": b"x",
        "records": b"x",
        "uuid": uuid.UUID(int=7),
        "bool": True,
    }.get(kind, 1)
    return [value] if field._type_str.startswith("[]") else value
