"""The readers and writers made from Kafka's schemas do what kafka-python's codec does."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs import TaggedFields, UnsignedVarInt32

from purgatory_broker._wire import protocol
from purgatory_broker._wire.api_messages import ApiMessages
from purgatory_broker._wire.wire_error import WireError
from tests.broker.hostile.mutations import BYTE_MUTATIONS
from tests.broker.wire.generated import message_of
from tests.broker.wire.schemas import own, request_class, response_class
from tests.support.profiles import examples

MESSAGES: dict[str, ApiMessages[Any, Any]] = {
    value.name: value
    for found in pkgutil.iter_modules(protocol.__path__, f"{protocol.__name__}.")
    for value in vars(importlib.import_module(found.name)).values()
    if isinstance(value, ApiMessages)
}
every_api = pytest.mark.parametrize("api", MESSAGES.values(), ids=MESSAGES.keys())
#: The fast tier has the first and the last version of each.
every_version = pytest.mark.parametrize(
    ("api", "version"),
    [
        pytest.param(
            api,
            version,
            id=f"{api.name}-{version}",
            marks=[] if version in api.versions else [pytest.mark.slow],
        )
        for api in MESSAGES.values()
        for version in range(api.versions[0], api.versions[1] + 1)
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


def by_schema(api: ApiMessages[Any, Any], version: int, body: bytes, *, strict: bool) -> Any:
    """Return a request as kafka-python decodes it, as an object of the class made for it.

    It raises whatever the bytes lead to; `strict` refuses tagged fields with a wrong size, too.
    """
    kind, flexible = request_class(api), api.is_flexible(version)
    with pytest.MonkeyPatch.context() as patch:
        if strict:
            patch.setattr(TaggedFields, "decode", strict_tagged_fields)
        decode = kind._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=kind
        )
        request, end = decode(memoryview(body), 0)
    if end > len(body):
        raise ValueError(f"{end} exceeds {len(body)}")
    return own(request, kind._struct, api.request)


def by_reader(api: ApiMessages[Any, Any], version: int, body: bytes) -> Any:
    """Return a request as its reader reads it."""
    return api.read_request(api.reader(body, 0, version), version)


def encoded(message: Any, version: int) -> bytes:
    return bytes(message.encode(version=version))


def encoded_by_writer(api: ApiMessages[Any, Any], version: int, response: Any) -> bytes:
    out = api.writer(version)
    api.write_response(out, response, version)
    return bytes(out)


@every_version
@examples(6)
@given(data=st.data())
def test_requests_are_read_as_they_were_encoded(
    api: ApiMessages[Any, Any], version: int, data: st.DataObject
) -> None:
    kind = request_class(api)
    request = data.draw(message_of(kind, version))
    body = encoded(request, version)
    reader = api.reader(b"header" + body, len(b"header"), version)
    assert api.read_request(reader, version) == own(request, kind._struct, api.request)
    assert reader.position == len(b"header" + body)


@every_version
@examples(6)
@given(data=st.data())
def test_torn_requests_are_refused(
    api: ApiMessages[Any, Any], version: int, data: st.DataObject
) -> None:
    body = encoded(data.draw(message_of(request_class(api), version)), version)
    if body:
        last = len(body) - 1
        length = data.draw(st.integers(0, last) | st.integers(max(last - 8, 0), last), "length")
        assert outcome(by_reader, api, version, body[:length]) is None


@every_version
@examples(6)
@given(data=st.data())
def test_responses_are_written_as_by_schema_and_read_again(
    api: ApiMessages[Any, Any], version: int, data: st.DataObject
) -> None:
    """Every byte is equal."""
    kind = response_class(api)
    theirs = data.draw(message_of(kind, version))
    response = own(theirs, kind._struct, api.response)
    body = encoded(theirs, version)
    assert encoded_by_writer(api, version, response) == body
    reader = api.reader(body, 0, version)
    assert api.read_response(reader, version) == response
    assert reader.position == len(body)


@every_version
@examples(12)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_mutated_requests_are_read_or_refused_as_by_schema(
    api: ApiMessages[Any, Any], version: int, seed: int, data: st.DataObject
) -> None:
    """What kafka-python refuses is refused, and what is read is what kafka-python decodes.

    Beyond that nulls, more elements than bytes, unknown tagged fields that exceed the frame and
    others are refused as in Kafka.
    """
    chance = random.Random(seed)
    body = encoded(data.draw(message_of(request_class(api), version)), version)
    for _ in range(chance.randint(1, 2)):
        body = chance.choice(BYTE_MUTATIONS)(chance, body)
    found = outcome(by_reader, api, version, body)
    if found is not None:
        read = by_schema(api, version, body, strict=False)
        assert _without_empty(dataclasses.asdict(found)) == _without_empty(dataclasses.asdict(read))


def _without_empty(value: Any) -> Any:
    """Return a value with None for empty arrays.

    An array with a length below -1 is null, as in Kafka; kafka-python has an empty one.
    """
    if isinstance(value, dict):
        return {name: _without_empty(field) for name, field in value.items()}
    return (
        [_without_empty(element) for element in value] or None if isinstance(value, list) else value
    )


def outcome(read: Any, *arguments: Any) -> Any:
    """Return what a reader returns; None if it refuses the bytes by an error that it may raise."""
    try:
        return read(*arguments)
    except (WireError, ValueError, IndexError, struct.error):
        return None


@every_api
def test_defaults_are_those_of_kafka_python(api: ApiMessages[Any, Any]) -> None:
    for kind, theirs in ((api.request, request_class(api)), (api.response, response_class(api))):
        made = theirs()
        if api.name == "ListOffsets" and kind is api.request:
            made.replica_id = 0  # kafka-python has -1, of its own.
        assert own(made, theirs._struct, kind) == kind()


@every_version
@examples(6)
@given(data=st.data(), code=st.integers(-1, 133))
def test_error_response_of_any_request_can_be_written(
    api: ApiMessages[Any, Any], version: int, data: st.DataObject, code: int
) -> None:
    body = encoded(data.draw(message_of(request_class(api), version)), version)
    response = api.error_response(by_reader(api, version, body), code)
    assert encoded_by_writer(api, version, response)
