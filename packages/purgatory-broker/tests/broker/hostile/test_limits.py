"""Limits on the memory and time of decoding."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from purgatory_broker._wire.apis import MAX_PLAIN_REQUEST_BYTES
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.messages import (
    Header,
    encode_response,
    read_header,
    read_request,
)
from purgatory_broker._wire.protocol.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from purgatory_broker._wire.protocol.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from purgatory_broker._wire.reader import MAX_ELEMENTS, MAX_TEXT_BYTES
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker._wire.writer import Writer
from purgatory_broker.api.registry import APIS
from tests.broker import apis
from tests.broker.hostile.corpus import request
from tests.broker.hostile.sample_requests import frame, header

#: The limit on the memory of decoding, including two copies of the frame.
MAX_DECODE_BYTES = 64 * 2**20


@pytest.fixture
def limited_memory() -> Iterator[None]:
    """Fail if more than MAX_DECODE_BYTES are allocated inside."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_DECODE_BYTES, f"{peak:,} bytes"


#: Functions, since some of the frames are large.
OVERSIZED: dict[str, Callable[[], bytes]] = {
    "endless integer": lambda: frame(apis.METADATA, 12, b"\xff" * 2_000_000),
    "endless integer in Produce": lambda: frame(apis.PRODUCE, 9, b"\xff" * 50_000_000),
    "array of nulls": lambda: frame(
        apis.DESCRIBE_GROUPS, 5, b"\x80\x80\x80\x01" + bytes(2_000_000)
    ),
    "array of short strings": lambda: frame(
        apis.DESCRIBE_GROUPS, 0, struct.pack(">i", 1_000_000) + bytes(2_000_000)
    ),
    "array of integers": lambda: frame(
        apis.OFFSET_FETCH, 1, struct.pack(">hihi", 0, 1, 0, 900_000) + bytes(3_600_000)
    ),
    "arrays in an array": lambda: frame(
        apis.FETCH, 11, bytes(25) + struct.pack(">i", 500_000) + bytes(3_000_000)
    ),
    "array longer than the frame": lambda: frame(
        apis.METADATA, 1, struct.pack(">i", 2**31 - 1) + b"\0\1a" * 2_000
    ),
    "partitions of Produce": lambda: frame(
        apis.PRODUCE, 3, struct.pack(">hhiihi", -1, 1, 0, 1, 0, 2_000_000) + bytes(16_000_000)
    ),
    "tagged fields of every element": lambda: frame(
        apis.METADATA, 12, b"\xc1\xb8\x02" + (bytes(17) + b"\1\x63\0") * 40_000 + b"\0\0\0\0"
    ),
    "tagged fields of one element": lambda: frame(
        apis.METADATA, 12, b"\2" + bytes(17) + b"\xff\xff\xff\xff\x07" + b"\x63\0" * 500_000
    ),
    "tagged fields of a header": lambda: (
        header(0, 9, flexible=False) + b"\xff\xff\xff\x7f" + b"\0\0" * 10_000_000
    ),
    "string that is too long": lambda: frame(
        apis.METADATA, 12, b"\2" + bytes(16) + b"\xa1\x8d\x06" + b"a" * 100_000 + b"\0\0\0\0\0"
    ),
    "request that is too large": lambda: frame(apis.METADATA, 1, bytes(MAX_PLAIN_REQUEST_BYTES)),
}


@pytest.fixture
def oversized(request: pytest.FixtureRequest) -> bytes:
    """Return one of `OVERSIZED`, built before its memory is measured."""
    made: bytes = OVERSIZED[request.param]()
    return made


@pytest.mark.parametrize("oversized", OVERSIZED, indirect=True)
def test_oversized_request_is_refused_before_it_is_decoded(
    oversized: bytes, limited_memory: None
) -> None:
    """Decoding would take hours, or fill the memory."""
    with pytest.raises(WireError):
        read_request(oversized, read_header(oversized, APIS))


@pytest.mark.usefixtures("limited_memory")
def test_largest_request_is_decoded() -> None:
    raw = request(apis.DESCRIBE_GROUPS, 0, groups=["a"] * MAX_ELEMENTS)
    assert len(read_request(raw, read_header(raw, APIS)).groups) == MAX_ELEMENTS


def test_longest_string_is_decoded() -> None:
    """As in Kafka, one byte more is refused, although a compact length could encode it."""
    for length, is_taken in ((MAX_TEXT_BYTES, True), (MAX_TEXT_BYTES + 1, False)):
        raw = request(apis.DESCRIBE_GROUPS, 5, groups=["a" * length])
        if is_taken:
            assert len(read_request(raw, read_header(raw, APIS)).groups[0]) == length
        else:
            with pytest.raises(WireError, match="32,768 bytes exceeds the limit of 32,767"):
                read_request(raw, read_header(raw, APIS))


def test_nulls_are_refused_where_the_protocol_has_none() -> None:
    join = (
        struct.pack(">h1siih", 1, b"g", 6_000, 0, 0)
        + struct.pack(">h8si", 8, b"consumer", 1)
        + struct.pack(">hi", -1, 0)
    )
    for raw, name in (
        (frame(apis.METADATA, 0, struct.pack(">i", -1)), "topics"),
        (frame(apis.JOIN_GROUP, 1, join), "name"),
        (frame(apis.DELETE_GROUPS, 0, struct.pack(">ih", 1, -1)), "groups_names"),
    ):
        with pytest.raises(WireError, match=name):
            read_request(raw, read_header(raw, APIS))


def test_oversized_response_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "limit", 10_000)
    api = apis.DELETE_GROUPS
    answer = DeleteGroupsResponse(results=[DeletableGroupResult(group_id="a" * 30_000)])
    with pytest.raises(WireError, match="10,000 bytes"):
        encode_response(Header(api, 0, 1, None, 0, is_supported=True), answer)


@pytest.mark.parametrize("version", [0, 2])
def test_text_that_clients_refuse_is_not_encoded(version: int) -> None:
    answered = Header(apis.DELETE_GROUPS, version, 1, None, 0, is_supported=True)

    def response(length: int) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id="a" * length)])

    assert len(encode_response(answered, response(MAX_TEXT_BYTES))) > MAX_TEXT_BYTES
    with pytest.raises((WireError, struct.error)):
        encode_response(answered, response(MAX_TEXT_BYTES + 1))


def test_oversized_produce_response_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "limit", 10_000)
    partitions = [PartitionProduceResponse(index, 3, -1) for index in range(10)]
    topic = TopicProduceResponse("a" * 9_000, None, partitions)
    answered = Header(apis.PRODUCE, 9, 1, None, 0, is_supported=True)
    assert len(encode_response(answered, ProduceResponse([topic]))) < 10_000
    with pytest.raises(WireError, match="10,000 bytes"):
        encode_response(answered, ProduceResponse([topic, topic]))


def test_long_error_messages_are_truncated() -> None:
    assert (truncate_message(None), truncate_message("short")) == (None, "short")
    assert len(truncate_message("²" * 100_000) or "") < 2_000
