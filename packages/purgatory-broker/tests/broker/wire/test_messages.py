"""Requests and responses of every API and version, encoded and decoded."""

from __future__ import annotations

import struct
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.messages import (
    Header,
    encode_response,
    read_header,
    read_request,
)
from purgatory_broker._wire.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from purgatory_broker._wire.protocol.produce import ProduceResponse, TopicProduceResponse
from purgatory_broker._wire.protocol.sasl_authenticate import SaslAuthenticateRequest
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.registry import APIS
from purgatory_broker.api.served_api import ServedApi
from tests.broker.hostile.sample_requests import header
from tests.broker.wire.generated import INTEGERS, messages, plain
from tests.broker.wire.schemas import own, request_class, response_class
from tests.support.profiles import examples

every_api = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


def framed(
    api: Api, version: int, request: Any, correlation: int = 7, client_id: bytes | None = None
) -> bytes:
    """Return a request's frame, without its size."""
    begin = header(
        api.key,
        version,
        flexible=api.is_flexible(version),
        correlation=correlation,
        client_id=client_id,
    )
    return begin + bytes(request.encode(version=version))


@every_api
@examples(12)
@given(
    data=st.data(),
    correlation=INTEGERS["int32"],
    client_id=st.none() | st.text(max_size=20),
)
def test_requests_are_decoded_as_they_were_encoded(
    api: Api, data: st.DataObject, correlation: int, client_id: str | None
) -> None:
    version, request = data.draw(messages(api, request_class(api)))
    frame = framed(
        api, version, request, correlation, None if client_id is None else client_id.encode()
    )
    found = read_header(frame, APIS)
    read = read_request(frame, found)
    assert (found.api, found.version, found.is_supported) == (api, version, True)
    assert (found.correlation_id, found.client_id) == (correlation, client_id)
    assert read == own(request, request_class(api)._struct, api.messages.request)


@every_api
@examples(12)
@given(data=st.data())
def test_torn_requests_are_refused(api: Api, data: st.DataObject) -> None:
    frame = framed(api, *data.draw(messages(api, request_class(api))))
    last = len(frame) - 1
    torn = frame[: data.draw(st.integers(0, last) | st.integers(max(last - 8, 0), last), "length")]
    with pytest.raises(WireError):
        read_request(torn, read_header(torn, APIS))


@every_api
@examples(12)
@given(data=st.data(), correlation=INTEGERS["int32"])
def test_responses_are_decoded_as_they_were_encoded(
    api: Api, data: st.DataObject, correlation: int
) -> None:
    """kafka-python's client decodes every field and the correlation id."""
    version, response = data.draw(messages(api, response_class(api)))
    ours = own(response, response_class(api)._struct, api.messages.response)
    read = sent(api, version, ours, correlation)
    assert plain(read, response_class(api)._struct, version) == plain(
        response, response_class(api)._struct, version
    )


@every_api
@examples(8)
@given(data=st.data(), code=st.sampled_from(ErrorCode))
def test_error_response_of_any_request_can_be_encoded(
    api: ServedApi, data: st.DataObject, code: ErrorCode
) -> None:
    version, request = data.draw(messages(api, request_class(api)))
    frame = framed(api, version, request)
    header = read_header(frame, APIS)
    response = api.error_response(read_request(frame, header), code, version)
    if response is None:
        assert (api.name, request.acks) == ("Produce", 0)
        return
    read = sent(api, version, response, 7)
    again = own(read, response_class(api)._struct, api.messages.response)
    answered = Header(api, version, 7, None, 0, is_supported=True)
    assert encode_response(answered, again) == encode_response(answered, response)


def sent(api: Api, version: int, response: Any, correlation: int) -> Any:
    """Return a response as a client decodes it."""
    frame = encode_response(Header(api, version, correlation, None, 0, is_supported=True), response)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, correlation)
    # Not the `decode` of ApiVersionsResponse, which decodes every error as version 0.
    return ApiMessage.decode.__func__(
        response_class(api), frame, version=version, header=True, framed=True
    )


def test_structs_compare_and_show_their_fields() -> None:
    one, same, other = (HeartbeatRequest("g", number, "m") for number in (1, 1, 2))
    assert one == same
    assert one != other
    assert one != HeartbeatResponse()
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert repr(one) == (
        "HeartbeatRequest(group_id='g', generation_id=1, member_id='m', group_instance_id=None)"
    )
    assert replace(one, generation_id=2) == other
    assert "secret" not in repr(SaslAuthenticateRequest(b"secret"))


def test_structs_are_dataclasses_for_who_asks() -> None:
    kinds = [
        kind for api in APIS.values() for kind in (api.messages.request, api.messages.response)
    ]
    assert all(map(is_dataclass, kinds))
    made = {each.name: (each.type, each.default) for each in fields(HeartbeatRequest)}
    assert made == {
        "group_id": ("str", ""),
        "generation_id": ("int", 0),
        "member_id": ("str", ""),
        "group_instance_id": ("str | None", None),
    }
    assert [each.repr for each in fields(SaslAuthenticateRequest)] == [False]
    assert asdict(SaslAuthenticateRequest(b"1")) == {"auth_bytes": b"1"}


def test_each_struct_has_lists_of_its_own() -> None:
    first, second = ProduceResponse(), ProduceResponse()
    first.responses.append(TopicProduceResponse("orders"))
    assert second.responses == []
    assert replace(first, responses=[]) == second
