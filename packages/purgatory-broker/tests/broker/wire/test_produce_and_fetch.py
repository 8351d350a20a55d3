"""The codecs of Produce and Fetch do what kafka-python's codec does, which knows the schemas."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs import EncodeBuffer, TaggedFields, UnsignedVarInt32

from purgatory_broker._wire import (
    fetch_response,
    leaders,
    limits,
    produce_response,
)
from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.messages import (
    Header,
    check_nullability,
    encode_response,
    read_header,
    read_request,
)
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.registry import APIS
from tests.broker.apis import FETCH, PRODUCE
from tests.broker.hostile.mutations import BYTE_MUTATIONS, mutate_fields
from tests.broker.hostile.sample_requests import header
from tests.broker.wire.generated import message_of, plain
from tests.support.profiles import examples

every_version = pytest.mark.parametrize(
    ("api", "version"),
    [
        pytest.param(api, version, id=f"{api.name}-{version}")
        for api in (PRODUCE, FETCH)
        for version in range(api.min_version, api.max_version + 1)
    ],
)


def strict_tagged_fields(fields: TaggedFields, data: Any, version: int) -> dict[str, Any]:
    """Do what `TaggedFields.decode` does, but refuse fields that have not the size they say."""
    found = {}
    for _ in range(UnsignedVarInt32.decode(data)):
        tag, size = UnsignedVarInt32.decode(data), UnsignedVarInt32.decode(data)
        end = data.tell() + size
        known = fields._tags.get(tag)
        if known is None:
            found[f"_{tag}"] = data.read(size)
        else:
            found[known.name] = known.decode(data, version=version, compact=True, tagged=None)
        if data.tell() != end:
            raise ValueError(f"tagged field {tag} ends at {data.tell()} and not at {end}")
    return found


def by_schema(frame: bytes, *, strict: bool) -> dict[str, Any]:
    """Return a request as kafka-python decodes it, as a dict.

    Args:
        frame: The request with its header.
        strict: Scan the frame first, as the broker does with large ones of other APIs, and refuse
            tagged fields with a wrong size.

    Raises:
        WireError: The request is refused.
    """
    found = read_header(frame, APIS)
    api, version = found.api, found.version
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SMALL_FRAME_BYTES", 0 if strict else len(frame))
        limits.check_limits(frame, found.body_offset, api, version)
        if strict:
            patch.setattr(TaggedFields, "decode", strict_tagged_fields)
        try:
            request, end = api.request_decoder(version)(memoryview(frame), found.body_offset)
        except Exception as error:
            raise WireError(repr(error)) from error
    if end > len(frame):
        raise WireError(f"{end} exceeds {len(frame)}")
    check_nullability(api, request, version)
    return plain(request, api.request._struct, version)


def by_codec(frame: bytes) -> dict[str, Any]:
    """Return a request as the broker decodes it, as a dict."""
    found = read_header(frame, APIS)
    return plain(read_request(frame, found), found.api.request._struct, found.version)


def own(message: Any, struct_field: Any, version: int, module: Any) -> Any:
    """Return kafka-python's message or part of one as an object of this package's class."""
    values = {}
    for field in struct_field.fields.values():
        value = getattr(message, field.name)
        if field.is_struct_array() and value is not None:
            value = [own(each, field, version, module) for each in value]
        elif field.is_struct() and value is not None:
            value = own(value, field, version, module)
        values[field.name] = value
    name = type(message).__name__
    return getattr(leaders, name, None or getattr(module, name, None))(**values)


def encoded_by_schema(api: Api, version: int, response: Any) -> bytes:
    """Return a response without its header as kafka-python encodes it."""
    buffer = EncodeBuffer(1_024)
    api.response_encoder(version)(response, buffer)
    return bytes(buffer.result())


def encoded_by_codec(api: Api, version: int, response: Any) -> bytes:
    """Return a response without its header as the broker encodes it."""
    frame = encode_response(Header(api, version, 7, None, 0, is_supported=True), response)
    return bytes(frame[8 + api.is_flexible(version) :])


@every_version
@examples(25)
@given(data=st.data())
def test_requests_are_read_as_by_schema(api: Api, version: int, data: st.DataObject) -> None:
    request = data.draw(message_of(api.request, version))
    frame = header(api.key, version, flexible=api.is_flexible(version)) + bytes(
        request.encode(version=version)
    )
    assert by_codec(frame) == by_schema(frame, strict=True)


@every_version
@examples(60)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_mutated_requests_are_read_or_refused_as_by_schema(
    api: Api, version: int, seed: int, data: st.DataObject
) -> None:
    """What kafka-python refuses is refused, and what it accepts with `strict` is read.

    Between the two are integers of more than five bytes, strings of more than 32,767 bytes and
    unknown tagged fields that exceed the frame, which Kafka refuses, too; and known tagged fields
    with a wrong size, which it reads.
    """
    chance = random.Random(seed)
    if chance.random() < 0.3:
        frame = mutate_fields(chance, api, version, chance.randint(1, 3))
        if frame[:4] != header(api.key, version, flexible=False)[:4]:
            return  # Its mutation is of another API or version.
    else:
        request = data.draw(message_of(api.request, version))
        body = bytes(request.encode(version=version))
        for _ in range(chance.randint(1, 2)):
            body = chance.choice(BYTE_MUTATIONS)(chance, body)
        frame = header(api.key, version, flexible=api.is_flexible(version)) + body
    found = _outcome(by_codec, frame)
    if found is None:
        assert _outcome(lambda raw: by_schema(raw, strict=True), frame) is None
    else:
        assert found == by_schema(frame, strict=False)


def _outcome(read: Any, frame: bytes) -> dict[str, Any] | None:
    """Return what a reader returns, or None if it refuses the frame."""
    try:
        found: dict[str, Any] = read(frame)
    except WireError:
        return None
    return found


@every_version
@examples(25)
@given(data=st.data())
def test_responses_are_written_as_by_schema(api: Api, version: int, data: st.DataObject) -> None:
    """Every byte is equal, of this package's classes and of kafka-python's."""
    response = data.draw(message_of(api.response, version))
    expected = encoded_by_schema(api, version, response)
    assert encoded_by_codec(api, version, response) == expected
    module = {PRODUCE: produce_response, FETCH: fetch_response}[api]
    assert encoded_by_codec(api, version, own(response, api.response._struct, version, module)) == (
        expected
    )
