"""Frames, API versions, and the order of responses."""

from __future__ import annotations

import struct
import time
from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, fetch_fields, produce_fields
from tests.broker.parity.raw import REQUESTS, ConnectionClosedError, RawClient

_METADATA, _API_VERSIONS = 3, 18
#: What clients need.
_NAMES = {request.API_KEY: name for name, request in REQUESTS.items()}


def _header(
    api: int, version: int, *, correlation: int = 7, client_id: bytes | None = b"parity"
) -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", api, version, correlation, length) + (client_id or b"")


def _answer(client: RawClient, frame: bytes) -> str:
    client.write_frame(frame)
    try:
        answer = client.read_frame(timeout=5)
    except ConnectionClosedError:
        return "closed"
    except TimeoutError:
        return "no answer"
    return f"answered, correlation {struct.unpack_from('>i', answer)[0]}"


@case
def api_versions_at_each_version(harness: CaseHarness) -> Any:
    seen = {}
    for version in range(5):
        answer = harness.node_0.call(
            "ApiVersions", version, client_software_name="parity", client_software_version="1"
        )
        own = [each for each in answer.api_keys if each.api_key == _API_VERSIONS]
        seen[version] = {
            "error_code": answer.error_code,
            "ApiVersions": own,
            "throttle_time_ms": answer.throttle_time_ms,
        }
    return seen


@case
def api_versions_lowest_of_each_api(harness: CaseHarness) -> Any:
    """List the advertised versions; a broker may handle others."""
    return {_NAMES[each.api_key]: each.min_version for each in _versions(harness)}


@case
def api_versions_highest_of_each_api(harness: CaseHarness) -> Any:
    return {_NAMES[each.api_key]: each.max_version for each in _versions(harness)}


def _versions(harness: CaseHarness) -> list[Any]:
    answer = harness.node_0.call("ApiVersions", 0)
    return sorted(
        (each for each in answer.api_keys if each.api_key in _NAMES), key=lambda each: each.api_key
    )


@case
def api_versions_too_new_is_answered_in_version_0(harness: CaseHarness) -> Any:
    harness.node_0.write_frame(_header(_API_VERSIONS, 99) + b"\0" + b"\7parity\0021\0"[1:])
    answer = harness.node_0.read_frame()
    correlation, error, count = struct.unpack_from(">ihi", answer)
    keys = [struct.unpack_from(">hhh", answer, 10 + 6 * each) for each in range(count)]
    return {
        "correlation": correlation,
        "error_code": error,
        "keys": keys,
        "rest": len(answer) - 10 - 6 * count,
    }


@case
def api_versions_with_a_bad_client_name(harness: CaseHarness) -> Any:
    seen = {}
    for name in ("", " ", "-a", "a-", "a b", "a" * 1000):
        software = (
            bytes([len(name) + 1]) + name.encode() if len(name) < 127 else b"\xe9\7" + name.encode()
        )
        harness.node_0.write_frame(_header(_API_VERSIONS, 3) + b"\0" + software + b"\0021\0")
        seen[name[:9]] = {"error_code": struct.unpack_from(">h", harness.node_0.read_frame(), 4)[0]}
    return seen


@case
def unknown_api_closes_the_connection(harness: CaseHarness) -> Any:
    return _answer(harness.node_0, _header(9_999, 0))


@case
def unsupported_version_closes_the_connection(harness: CaseHarness) -> Any:
    return [
        _answer(harness.connect_like(harness.node_0), _header(_METADATA, version) + bytes(8))
        for version in (99, -1)
    ]


@case
def unsupported_old_versions_close_the_connection(harness: CaseHarness) -> Any:
    olds = {
        "Produce": (0, 2),
        "Fetch": (1, 3),
        "ListOffsets": (2, 0),
        "OffsetCommit": (8, 1),
        "OffsetFetch": (9, 0),
        "CreateTopics": (19, 1),
    }
    return {
        name: _answer(harness.connect_like(harness.node_0), _header(*each) + bytes(40))
        for name, each in olds.items()
    }


@case
def garbage_for_a_body_closes_the_connection(harness: CaseHarness) -> Any:
    bodies = {
        "huge array": b"\x7f\xff\xff\xff",
        "torn string": b"\0\0\0\1\0\x10abc",
        "negative array": b"\xff\xff\xff\xf0",
    }
    return {
        name: _answer(harness.connect_like(harness.node_0), _header(_METADATA, 1) + body)
        for name, body in bodies.items()
    }


@case
def lengths_below_null_are_null(harness: CaseHarness) -> Any:
    """Send arrays and strings of length -2."""
    apis = {each.__name__: each.API_KEY for each in REQUESTS.values()}
    bodies = {
        ("MetadataRequest", 1): b"\xff\xff\xff\xfe",
        ("DeleteGroupsRequest", 0): b"\xff\xff\xff\xfe",
        ("InitProducerIdRequest", 0): b"\xff\xfe" + bytes(4),
        ("FindCoordinatorRequest", 0): b"\xff\xfe",
    }
    return {
        name: _answer(harness.connect_like(harness.node_0), _header(apis[name], version) + body)
        for (name, version), body in bodies.items()
    }


@case
def garbage_for_a_flexible_body_closes_the_connection(harness: CaseHarness) -> Any:
    bodies = {
        "endless varint": b"\xff" * 20,
        "huge array": b"\xff\xff\xff\xff\x0f",
        "nothing": b"",
        "torn name": bytes([2, 0xF0, 65]),
    }
    return {
        name: _answer(harness.connect_like(harness.node_0), _header(_METADATA, 9) + b"\0" + body)
        for name, body in bodies.items()
    }


@case
def bytes_after_the_body(harness: CaseHarness) -> Any:
    return _answer(
        harness.node_0, _header(_METADATA, 1) + struct.pack(">i", 0) + b"more than there should be"
    )


@case
def unknown_tagged_fields_are_skipped(harness: CaseHarness) -> Any:
    header = _header(_METADATA, 9) + bytes([1, 100, 3]) + b"abc"
    return _answer(harness.node_0, header + bytes([1, 0, 0, 0, 1, 99, 2]) + b"xy")


@case
def tagged_field_of_a_later_version_closes_the_connection(harness: CaseHarness) -> Any:
    body = bytes([0] * 25) + b"\1\1\1"
    tags = {
        "a known one": b"\0\2\2a",
        "one since version 15": b"\1\2ab",
        "an unknown one": b"\x0f\2ab",
    }
    header = _header(REQUESTS["Fetch"].API_KEY, 12) + b"\0"
    return {
        name: _answer(harness.connect_like(harness.node_0), header + body + b"\1" + tag)
        for name, tag in tags.items()
    }


@case
def torn_header_closes_the_connection(harness: CaseHarness) -> Any:
    return [
        _answer(harness.connect_like(harness.node_0), frame)
        for frame in (b"", b"\0\3", _header(_METADATA, 1)[:9], _header(_METADATA, 1)[:-3])
    ]


@case
def client_id_may_be_missing(harness: CaseHarness) -> Any:
    return _answer(
        harness.node_0, _header(_METADATA, 1, client_id=None, correlation=-5) + struct.pack(">i", 0)
    )


@case
def frames_of_impossible_length_close_the_connection(harness: CaseHarness) -> Any:
    seen = {}
    for name, length in {
        "negative": -1,
        "least": -(1 << 31),
        "oversized": 104_857_601,
        "most": (1 << 31) - 1,
    }.items():
        client = harness.connect_like(harness.node_0)
        client.write_bytes(struct.pack(">i", length))
        seen[name] = "closed" if client.is_closed(within=5) else "open"
    return seen


@case
def http_closes_the_connection(harness: CaseHarness) -> Any:
    harness.node_0.write_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    client = harness.node_0
    harness.connect_like(client).call("Metadata", 9, topics=[])
    return "closed" if client.is_closed(within=5) else "open"


@case
def frame_in_pieces(harness: CaseHarness) -> Any:
    frame = _header(_METADATA, 1) + struct.pack(">i", 0)
    for each in struct.pack(">i", len(frame)) + frame:
        harness.node_0.write_bytes(bytes([each]))
    return struct.unpack_from(">i", harness.node_0.read_frame())[0]


@case
def responses_are_in_the_order_of_requests(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    client.start("Fetch", 12, **fetch_fields(topic, max_wait_ms=1_000))
    client.start("Metadata", 9, topics=[])
    before = time.monotonic()
    fetched = client.read()
    waited = (time.monotonic() - before) * 1000
    rest = harness.timed(1_000, lambda: len(client.read().brokers))
    return {"fetch": fetched.error_code, "waited": waited > 900, "metadata": rest}


@case
def requests_on_one_connection_are_handled_one_by_one(harness: CaseHarness) -> Any:
    """Queue the produce that would complete the fetch behind that fetch."""
    topic = harness.topic()
    client = harness.leader(topic)
    client.start("Fetch", 12, **fetch_fields(topic, max_wait_ms=1_000))
    client.start("Produce", 9, **produce_fields(topic, [batch(b"1")]))
    return {
        "fetch": harness.timed(1_000, lambda: client.read().responses),
        "produce": client.read().responses,
    }


@case
def produce_without_acks_is_not_answered(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    client.start("Produce", 9, answered=False, **produce_fields(topic, [batch(b"1")], acks=0))
    return {
        "next answer": client.call("ListOffsets", 7, **_end_of(topic)).topics,
        "fetched": harness.fetch(client, topic),
    }


@case
def produce_without_acks_that_fails_closes_the_connection(harness: CaseHarness) -> Any:
    topic, seen = harness.topic(), {}
    failing = {
        "unknown topic": (harness.name("none"), batch(b"1")),
        "corrupt": (topic, batch(b"1")[:-1] + b"?"),
    }
    for name, (where, records) in failing.items():
        client = harness.leader(topic)
        client.start("Produce", 9, answered=False, **produce_fields(where, [records], acks=0))
        seen[name] = "closed" if client.is_closed(within=5) else "open"
    return seen


def _end_of(topic: str) -> dict[str, Any]:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    return {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
