"""What a request may make of its bytes."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from request_purgatory.broker.wire import apis, limits
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.limits import (
    MAX_ELEMENTS,
    MAX_PLAIN_REQUEST_BYTES,
    MAX_TEXT_BYTES,
    told,
)
from request_purgatory.broker.wire.messages import (
    Header,
    read_header,
    read_request,
    response_frame,
)
from tests.broker.hostile.corpus import request
from tests.broker.hostile.requests import every_api_and_version, frame, header

#: What decoding may take up beside the frame, of which there are two copies then.
MOST_BYTES = 64 * 2**20


@pytest.fixture
def all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small frames are walked over, too."""
    monkeypatch.setattr(limits, "SMALL_FRAME_BYTES", 0)


@pytest.fixture
def bounded() -> Iterator[None]:
    """No more than MOST_BYTES are taken up meanwhile."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES, f"{peak:,} bytes"


@pytest.mark.usefixtures("all_looked_at")
def test_walk_ends_where_the_request_does() -> None:
    """At each version of each API.

    A whole request is let through, and one that lacks its last byte is not.
    """
    for api, version in every_api_and_version():
        raw = frame(api, version)
        found = read_header(raw)
        limits.require_bounds(raw, found.body, api, version)
        if len(raw) > found.body:
            with pytest.raises(WireError):
                limits.require_bounds(raw[:-1], found.body, api, version)


#: Made where they are used, as some are large.
ENDLESS: dict[str, Callable[[], bytes]] = {
    "number without an end": lambda: frame(apis.METADATA, 12, b"\xff" * 2_000_000),
    "number without an end in Produce": lambda: frame(apis.PRODUCE, 9, b"\xff" * 50_000_000),
    "array of nulls": lambda: frame(
        apis.DESCRIBE_GROUPS, 5, b"\x80\x80\x80\x01" + bytes(2_000_000)
    ),
    "array of short texts": lambda: frame(
        apis.DESCRIBE_GROUPS, 0, struct.pack(">i", 1_000_000) + bytes(2_000_000)
    ),
    "array of numbers": lambda: frame(
        apis.OFFSET_FETCH, 1, struct.pack(">hihi", 0, 1, 0, 900_000) + bytes(3_600_000)
    ),
    "arrays in an array": lambda: frame(
        apis.FETCH, 11, bytes(25) + struct.pack(">i", 500_000) + bytes(3_000_000)
    ),
    "array that is announced": lambda: frame(
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
    "text that is too long": lambda: frame(
        apis.METADATA, 12, b"\2" + bytes(16) + b"\xa1\x8d\x06" + b"a" * 100_000 + b"\0\0\0\0\0"
    ),
    "request that is too large": lambda: frame(apis.METADATA, 1, bytes(MAX_PLAIN_REQUEST_BYTES)),
}


@pytest.fixture
def endless(request: pytest.FixtureRequest) -> bytes:
    """One of `ENDLESS`, made before what it takes up is measured."""
    made: bytes = ENDLESS[request.param]()
    return made


@pytest.mark.parametrize("endless", ENDLESS, indirect=True)
def test_request_of_too_much_is_refused_before_anything_is_made_of_it(
    endless: bytes, bounded: None
) -> None:
    """In no time, and within the bound.

    Its decoder would be at it for hours, or fill the memory.
    """
    with pytest.raises(WireError):
        read_request(endless, read_header(endless))


@pytest.mark.usefixtures("bounded")
def test_largest_request_that_is_taken_is_read() -> None:
    """As many elements as there may be."""
    raw = request(apis.DESCRIBE_GROUPS, 0, groups=["a"] * MAX_ELEMENTS)
    assert len(read_request(raw, read_header(raw)).groups) == MAX_ELEMENTS


def test_text_of_the_longest_length_is_read() -> None:
    """And one that is longer by a byte is not, as in Kafka, though a compact length could tell it."""
    for length, is_taken in ((MAX_TEXT_BYTES, True), (MAX_TEXT_BYTES + 1, False)):
        raw = request(apis.DESCRIBE_GROUPS, 5, groups=["a" * length])
        if is_taken:
            assert len(read_request(raw, read_header(raw)).groups[0]) == length
        else:
            with pytest.raises(WireError, match="32,768 bytes, where 32,767"):
                read_request(raw, read_header(raw))


def test_nulls_where_there_are_none_are_refused() -> None:
    """A null array, a null text in an element, a null among texts; and with the field's name."""
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
            read_request(raw, read_header(raw))


def test_answer_that_is_too_large_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends its connection; a fetch's has limits of its own."""
    monkeypatch.setattr("request_purgatory.broker.wire.messages.MAX_PLAIN_RESPONSE_BYTES", 10_000)
    large = "a" * 30_000
    result = apis.DELETE_GROUPS.response.DeletableGroupResult
    answer = apis.DELETE_GROUPS.response(
        throttle_time_ms=0, results=[result(group_id=large, error_code=0)]
    )
    with pytest.raises(WireError, match="10,000 bytes"):
        response_frame(Header(apis.DELETE_GROUPS, 0, 1, None, 0, is_served=True), answer)


def test_messages_of_errors_are_cut_to_what_every_version_can_tell() -> None:
    """Short ones are as they were."""
    assert (told(None), told("short")) == (None, "short")
    assert len(told("²" * 100_000) or "") < 2_000
