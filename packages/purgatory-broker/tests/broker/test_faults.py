"""Injected faults of requests and responses, as clients see them."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from purgatory_broker import Cluster
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.messages import Header, encode_response
from purgatory_broker.api.registry import APIS
from purgatory_broker.api.served_api import ServedApi
from tests.broker.conftest import Connect
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.raw_requests import fetch, fetch_fields, produce
from tests.broker.wire.schemas import read_body, request_class, response_class


def test_request_error_is_answered_the_given_number_of_times(
    cluster: Cluster, client: RawClient
) -> None:
    cluster.inject_request_error("Produce", "KAFKA_STORAGE_ERROR", times=2)
    assert [produce(client, "t", b"x").error_code for _ in range(3)] == [56, 56, 0]
    assert fetch(client, "t", 0).high_watermark == 1


def test_request_error_can_be_limited_to_one_node(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    leader = cluster.describe_topic("t")[0]["leader"]
    other = connect(cluster.bootstrap_servers.split(",")[(leader + 1) % 3])
    cluster.inject_request_error("metadata", "BROKER_NOT_AVAILABLE", times=None, node=leader)
    codes = [
        client.call("Metadata", 4, topics=[{"name": "t"}]).topics[0].error_code for _ in range(3)
    ]
    assert codes == [8, 8, 8]
    assert other.call("Metadata", 4, topics=[{"name": "t"}]).topics[0].error_code == 0
    cluster.clear_faults()
    assert client.call("Metadata", 4, topics=[{"name": "t"}]).topics[0].error_code == 0


def test_request_without_a_place_for_the_error_is_handled(
    cluster: Cluster, client: RawClient
) -> None:
    cluster.inject_request_error("Metadata", "CLUSTER_AUTHORIZATION_FAILED")
    for version, topics in ((4, None), (4, []), (12, None)):
        fields = {"include_topic_authorized_operations": False} if version > 7 else {}
        assert len(client.call("Metadata", version, topics=topics, **fields).brokers) == 3
    assert cluster.faults()[0]["hits"] == 0
    answer = client.call("Metadata", 13, topics=[], include_topic_authorized_operations=False)
    assert answer.error_code == 31
    assert cluster.faults()[0]["hits"] == 1


def test_delayed_response_arrives_after_its_delay(cluster: Cluster, client: RawClient) -> None:
    cluster.inject_response_fault("Produce", "delay", delay_ms=300)
    began = time.monotonic()
    assert produce(client, "t", b"x").error_code == 0
    assert time.monotonic() - began >= 0.3


def test_dropped_response_never_arrives(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    cluster.inject_response_fault("Fetch", "drop")
    client.start("Fetch", 11, **fetch_fields("t", 0))
    with pytest.raises(TimeoutError):
        client.read(timeout=0.2)
    assert produce(connect(client.address), "t", b"x").error_code == 0


def test_disconnected_response_closes_the_connection(
    cluster: Cluster, client: RawClient, connect: Connect
) -> None:
    cluster.inject_response_fault("Produce", "disconnect")
    with pytest.raises(ConnectionClosedError):
        produce(client, "t", b"x")
    assert fetch(connect(client.address), "t", 0).high_watermark == 1


def test_corrupted_response_has_its_original_size(cluster: Cluster, client: RawClient) -> None:
    frames = []
    for seed in (7, 7, None):
        if seed is not None:
            cluster.inject_response_fault("ListOffsets", "corrupt", seed=seed)
        wanted = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        client.start("ListOffsets", 2, replica_id=-1, isolation_level=0, topics=wanted)
        frames.append(client.read_frame()[4:])
        client._awaited.clear()
    assert frames[0] == frames[1] != frames[2]
    assert len(frames[0]) == len(frames[2])


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_has_an_error_response(api: ServedApi) -> None:
    for version in range(api.min_version, api.max_version + 1):
        header = Header(api, version, 7, None, 0, is_supported=True)
        request = example(api, version)
        answer = api.error_response(request, ErrorCode.KAFKA_STORAGE_ERROR, version)
        has_tagged_fields = api.has_tagged_header and api.is_flexible(version)
        encoded = bytes(encode_response(header, answer))[8 + has_tagged_fields :]
        if api.name == "ApiVersions":
            # The library reads every error of this API as if it were of the first version.
            assert encoded.startswith(b"\0\x38")
            continue
        decoded = response_class(api).decode(encoded, version=version)
        assert "error_code=56" in repr(decoded), (version, decoded)


def example(api: ServedApi, version: int) -> Any:
    """Return a request with one element in each of its arrays."""
    body = encoded_example(api, version)
    return read_body(api, version, body)


def encoded_example(api: ServedApi, version: int) -> bytes:
    """Return the bytes of such a request, without its header."""
    made = request_class(api)(
        **{
            name: field_value(field)
            for name, field in request_class(api).fields.items()
            if field.for_version_q(version)
        }
    )
    return bytes(made.encode(version=version))


def field_value(field: Any) -> Any:
    """Return a valid value of a field."""
    if field.is_struct_array() or field.is_struct():
        made = field.data_class(**{name: field_value(each) for name, each in field.fields.items()})
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
