"""The program that makes the messages of Kafka's protocol from its schemas."""

from __future__ import annotations

import json
import re
import sys
import types
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from purgatory_broker._wire.api_messages import NamedTopic
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.registry import APIS as SERVED_APIS
from tests.broker.kafka_server import (
    NEXT_VERSION,
    VERSION,
    broker_libraries,
    next_broker_libraries,
)
from tools.limits_page import PURPOSES
from tools.protocol.__main__ import APIS, MODULES, made_modules
from tools.protocol.python_code import module
from tools.protocol.schema import Versions, load_message, parse_versions, snake_case

_TOPICS = {
    "name": "Topics",
    "type": "[]Topic",
    "versions": "0+",
    "fields": [
        {"name": "Name", "type": "string", "versions": "0-2", "entityType": "topicName"},
        {"name": "TopicId", "type": "uuid", "versions": "3+"},
        {
            "name": "Partitions",
            "type": "[]Partition",
            "versions": "0+",
            "fields": [
                {"name": "Index", "type": "int32", "versions": "0+"},
                {"name": "Limit", "type": "int64", "versions": "1+", "default": "-1"},
                {"name": "Strict", "type": "bool", "versions": "0+"},
                {
                    "name": "Note",
                    "type": "string",
                    "versions": "2+",
                    "nullableVersions": "3+",
                    "default": "null",
                },
            ],
        },
    ],
}
_RESULTS = {
    "name": "Results",
    "type": "[]TopicResult",
    "versions": "0+",
    "fields": [
        {"name": "Name", "type": "string", "versions": "0-2", "entityType": "topicName"},
        {"name": "TopicId", "type": "uuid", "versions": "3+"},
        {
            "name": "Partitions",
            "type": "[]PartitionResult",
            "versions": "0+",
            "fields": [
                {"name": "Index", "type": "int32", "versions": "0+"},
                {"name": "ErrorCode", "type": "int16", "versions": "0+"},
                {"name": "Low", "type": "int64", "versions": "0+"},
            ],
        },
    ],
}


def schema(kind: str, *fields: dict[str, Any], **given: Any) -> str:
    source = {
        "apiKey": 7,
        "type": kind.lower(),
        "name": f"Sample{kind}",
        "validVersions": "0-3",
        "flexibleVersions": "2+",
        "fields": fields,
        **given,
    }
    return "// A licence.\n" + json.dumps(source).replace("{", "{ // a note\n", 1)


_LEADER = {
    "name": "Leader",
    "type": "int32",
    "versions": "2+",
    "taggedVersions": "2+",
    "tag": 0,
    "default": "-1",
}


@contextmanager
def made_module(request: str, response: str, **overrides: Any) -> Iterator[types.ModuleType]:
    """Make the module of an API, and run it."""
    text = module(load_message(request), load_message(response), overrides, "4.1.1")
    made = types.ModuleType("sample_messages")
    sys.modules[made.__name__] = made  # Where dataclasses look types up.
    try:
        exec(compile(text, "sample_messages.py", "exec"), vars(made))
        yield made
    finally:
        del sys.modules[made.__name__]


@pytest.fixture
def sample() -> Iterator[types.ModuleType]:
    """Return the module of an API with a tagged field and an override."""
    error = {"PartitionResult.low": "-1"}
    request, response = schema("Request", _TOPICS), schema("Response", _RESULTS, _LEADER)
    with made_module(request, response, error=error) as made:
        yield made


def read(sample: Any, version: int, body: bytes) -> Any:
    messages = sample.SAMPLE_MESSAGES
    return messages.read_request(messages.reader(body, 0, version), version)


_BODIES = {
    0: b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\5" + b"\1",
    1: b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\5" + bytes(7) + b"\x09" + b"\1",
    2: b"\2" + b"\2t" + b"\2" + b"\0\0\0\5" + bytes(7) + b"\x09" + b"\1" + b"\3no" + b"\0\0\0",
}


def test_each_version_has_its_fields(sample: Any) -> None:
    parts = {
        0: sample.Partition(5, -1, True, None),
        1: sample.Partition(5, 9, True, None),
        2: sample.Partition(5, 9, True, "no"),
    }
    for version, body in _BODIES.items():
        expected = sample.SampleRequest([sample.Topic("t", None, [parts[version]])])
        assert read(sample, version, body) == expected


def test_null_is_read_in_the_versions_that_allow_it(sample: Any) -> None:
    begin = b"\2" + b"%s" + b"\2" + b"\0\0\0\5" + bytes(8) + b"\0" + b"\0" + b"\0\0\0"
    (topic,) = read(sample, 3, begin % bytes(16)).topics
    assert topic == sample.Topic("", None, [sample.Partition(5, 0, False, None)])
    with pytest.raises(WireError, match="note must not be null"):
        read(sample, 2, begin % b"\2t")


def test_count_beyond_the_bytes_that_are_left_is_refused(sample: Any) -> None:
    with pytest.raises(WireError, match="topics has 40,000 elements, and 20 bytes are left"):
        read(sample, 0, b"\0\0\x9c\x40" + bytes(20))


def test_error_response_repeats_what_the_request_names(sample: Any) -> None:
    request = read(sample, 1, _BODIES[1])
    response = sample.SAMPLE_MESSAGES.error_response(request, 3)
    assert response == sample.SampleResponse(
        [sample.TopicResult("t", None, [sample.PartitionResult(5, 3, -1)])], -1
    )


def test_named_topics_are_found(sample: Any) -> None:
    request = read(sample, 0, _BODIES[0])
    assert list(sample.SAMPLE_MESSAGES.topics(request)) == [NamedTopic("t", None, [5])]
    assert sample.SAMPLE_MESSAGES.names_partitions
    assert sample.SAMPLE_MESSAGES.groups is None


@pytest.mark.parametrize(("leader", "tagged"), [(-1, b"\0"), (7, b"\1\0\4\0\0\0\7")])
def test_tagged_field_is_written_unless_it_is_the_default(
    sample: Any, leader: int, tagged: bytes
) -> None:
    messages = sample.SAMPLE_MESSAGES
    out = messages.writer(2)
    messages.write_response(out, sample.SampleResponse([], leader), 2)
    assert bytes(out) == b"\1" + tagged
    assert messages.read_response(messages.reader(bytes(out), 0, 2), 2).leader == leader


def test_unknown_tagged_field_is_skipped(sample: Any) -> None:
    messages = sample.SAMPLE_MESSAGES
    body = b"\1" + b"\2" + b"\x63\3abc" + b"\0\4\0\0\0\7"
    reader = messages.reader(body, 0, 2)
    assert messages.read_response(reader, 2) == sample.SampleResponse([], 7)
    assert reader.position == len(body)


def test_tagged_field_of_another_version_is_refused() -> None:
    fields = [
        dict(_LEADER, name="Old", taggedVersions="2", versions="2", tag=1),
        dict(_LEADER, name="New", taggedVersions="3+", versions="3+"),
    ]
    with made_module(schema("Request", _TOPICS), schema("Response", *fields)) as made:
        messages = made.SAMPLE_MESSAGES
        new, old, unknown = (bytes([1, tag, 4, 0, 0, 0, 7]) for tag in (0, 1, 2))
        for version, known, refused in ((2, old, new), (3, new, old)):
            messages.read_response(messages.reader(known, 0, version), version)
            messages.read_response(messages.reader(unknown, 0, version), version)
            with pytest.raises(WireError, match=f"version {version} has no tagged field"):
                messages.read_response(messages.reader(refused, 0, version), version)


def test_structs_of_one_name_and_different_fields_have_names_of_their_own() -> None:
    results = dict(_TOPICS, fields=_RESULTS["fields"])
    text = module(
        load_message(schema("Request", _TOPICS)),
        load_message(schema("Response", results)),
        {},
        "4.1.1",
    )
    assert "class RequestTopic(MessageStruct):" in text
    assert "class ResponseTopic(MessageStruct):" in text


def test_struct_that_several_fields_have_is_read_in_all_their_versions() -> None:
    """A class has one reader."""
    fields = (
        {"name": "Old", "type": "[]Topic", "versions": "0-1"},
        {"name": "New", "type": "[]Topic", "versions": "2+"},
    )
    common = [{"name": "Topic", "versions": "0+", "fields": _TOPICS["fields"]}]
    message = load_message(schema("Request", *fields, commonStructs=common))
    topics = [struct for struct in message.struct.structs() if struct.name == "Topic"]
    assert [struct.versions for struct in topics] == [Versions(0, 3)] * 2


def test_unknown_type_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"SampleRequest\.Size of type varint"):
        load_message(schema("Request", {"name": "Size", "type": "varint", "versions": "0+"}))


def test_tagged_struct_that_may_be_null_is_refused() -> None:
    struct = dict(_TOPICS, type="Topic", versions="2+", taggedVersions="2+", tag=0)
    load_message(schema("Request", struct))
    with pytest.raises(NotImplementedError, match=r"SampleRequest\.Topics: a tagged struct"):
        load_message(schema("Request", dict(struct, nullableVersions="3+")))


def test_ambiguous_array_needs_an_override() -> None:
    others = dict(_TOPICS, name="Others", type="[]Other")
    request = load_message(schema("Request", _TOPICS, others))
    response = load_message(schema("Response", _RESULTS))
    with pytest.raises(ValueError, match=r"SampleResponse\.results"):
        module(request, response, {}, "4.1.1")
    parts = {"parts": {"SampleResponse.results": ["others"]}}
    assert "in request.others" in module(request, response, parts, "4.1.1")


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3", (3, 3)), ("3-5", (3, 5)), ("3+", (3, 32_767)), ("none", (0, -1)), (None, (0, -1))],
)
def test_versions_are_parsed(text: str | None, versions: tuple[int, int]) -> None:
    assert parse_versions(text) == Versions(*versions)


def test_names_are_those_of_python() -> None:
    assert [snake_case(name) for name in ("TopicId", "timeoutMs", "Enable2Pc")] == [
        "topic_id",
        "timeout_ms",
        "enable2_pc",
    ]


def test_there_is_a_module_for_each_api() -> None:
    made = {path.stem for path in MODULES.glob("*.py")} - {"__init__"}
    assert made == set(map(snake_case, APIS))


@pytest.mark.jvm
def test_modules_are_those_that_the_schemas_make() -> None:
    jars = (
        broker_libraries() / f"kafka-clients-{VERSION}.jar",
        next_broker_libraries() / f"kafka-clients-{NEXT_VERSION}.jar",
    )
    for name, text in made_modules(*jars).items():
        assert (MODULES / name).read_text() == text, name


#: What brokers send one another.
BETWEEN_BROKERS = {
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
}


@pytest.mark.jvm
def test_every_api_of_clients_is_served_or_among_the_limits() -> None:
    jar = broker_libraries() / f"kafka-clients-{VERSION}.jar"
    sent = set()
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+Request\.json", name):
                text = re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode())
                schema = json.loads(text)
                if "broker" in schema.get("listeners", ()):
                    sent.add(schema["name"].removesuffix("Request"))
    served = {api.name for api in SERVED_APIS.values()}
    listed = {name for names in PURPOSES.values() for name in names}
    assert len(sent) > 60
    assert sent - served - BETWEEN_BROKERS <= listed
    assert listed <= sent
