"""Which schemas are compatible, by format and level."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.text_format import Parse

from purgatory_broker.schema_registry.formats.avro_format import AvroFormat
from purgatory_broker.schema_registry.formats.protobuf_format import ProtobufFormat
from purgatory_broker.schema_registry.registry_error import InvalidSchemaError
from tests.broker.schema_registry.test_subjects import avro, refused

_NAME = {"name": "name", "type": "string"}
_AGE = {"name": "age", "type": "int"}
_OPTIONAL_AGE = {**_AGE, "default": 0}


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "User", "fields": fields})


@pytest.mark.parametrize(
    ("writer", "reader", "problem"),
    [
        (record(_NAME), record(_NAME, _OPTIONAL_AGE), None),
        (record(_NAME, _AGE), record(_NAME), None),
        (record(_NAME), record(_NAME, _AGE), "reader_field_missing_default_value"),
        ('"int"', '"long"', None),
        ('"long"', '"int"', "type_mismatch"),
        ('"string"', '["null", "string"]', None),
        ('["null", "string"]', '"string"', "type_mismatch"),
        (
            '{"type": "enum", "name": "E", "symbols": ["A", "B"]}',
            '{"type": "enum", "name": "E", "symbols": ["A"]}',
            "missing_enum_symbols",
        ),
    ],
)
def test_avro_reader_reads_what_the_writer_writes(
    writer: str, reader: str, problem: str | None
) -> None:
    schemas = AvroFormat()
    problems = schemas.incompatibilities(schemas.parse(reader, {}), schemas.parse(writer, {}))
    assert [problem in each for each in problems] == ([] if problem is None else [True])


#: What a message was, what it is, and the problem.
PROTOBUF_CHANGES = [
    ("optional int32 a = 1;", "optional int64 a = 1; optional string b = 2;", None),
    ("optional int32 a = 1;", "", None),
    ("optional int32 a = 1;", "optional int32 other = 1;", None),
    ("optional int32 a = 1;", "optional sint32 a = 1;", "the type of Order.a"),
    ("optional int32 a = 1;", "optional string a = 1;", "the type of Order.a"),
    ("optional string a = 1;", "repeated bytes a = 1;", None),
    ("optional int32 a = 1;", "repeated int32 a = 1;", "a single and a repeated"),
    ("", "required int32 a = 1;", "required field Order.a was added"),
    ("required int32 a = 1;", "", "required field Order.a was removed"),
    ("message Line {}", "", "message Order.Line was removed"),
    (
        "message A {} message B {} optional A a = 1;",
        "message A {} message B {} optional B a = 1;",
        "the type of Order.a",
    ),
    ("oneof o { int32 a = 1; }", "", "the field Order.a of a oneof"),
    ("optional int32 a = 1;", "oneof o { int32 a = 1; }", None),
    (
        "optional int32 a = 1; optional int32 b = 2;",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "2 fields were moved into the oneof Order.o",
    ),
    (
        "oneof o { int32 a = 1; } optional int32 b = 2;",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "1 fields were moved into the oneof Order.o",
    ),
    ("map<string, int32> a = 1;", "map<string, string> a = 1;", "the type of Order.AEntry"),
]


@cache
def messages() -> dict[str, FileDescriptorProto]:
    """Return files with a message each, by its body; compiling each alone would take 0.1 s."""
    bodies = sorted({body for *both, _ in PROTOBUF_CHANGES for body in both})
    outer = "".join(
        f"message M{number} {{ message Order {{ {body} }} }}" for number, body in enumerate(bodies)
    )
    file = ProtobufFormat().parse(f'syntax = "proto2"; {outer}', {})
    found = {}
    for body, message in zip(bodies, file.message_type, strict=True):
        plain = re.sub(r"\.M\d+\.", ".", str(message.nested_type[0]))
        found[body] = FileDescriptorProto(message_type=[Parse(plain, DescriptorProto())])
    return found


@pytest.mark.parametrize(("writer", "reader", "problem"), PROTOBUF_CHANGES)
def test_protobuf_reader_reads_what_the_writer_writes(
    writer: str, reader: str, problem: str | None
) -> None:
    problems = ProtobufFormat().incompatibilities(messages()[reader], messages()[writer])
    assert [problem in each for each in problems] == ([] if problem is None else [True])


def test_protobuf_text_may_import_text_and_descriptors() -> None:
    size = FileDescriptorProto(name="other.proto", syntax="proto3")
    size.message_type.add(name="Size")
    references = {
        "sizes.proto": base64.b64encode(size.SerializeToString()).decode(),
        "shop/lines.proto": 'syntax = "proto3"; import "sizes.proto"; message Line { Size s = 1; }',
    }
    text = """syntax = "proto3";
        import "shop/lines.proto"; import "google/protobuf/timestamp.proto";
        message Order { Line line = 1; google.protobuf.Timestamp at = 2; }"""
    schemas = ProtobufFormat()
    file = schemas.parse(text, references)
    assert [field.type_name for field in file.message_type[0].field] == [
        ".Line",
        ".google.protobuf.Timestamp",
    ]
    with pytest.raises(InvalidSchemaError, match=r"shop/lines\.proto"):
        schemas.parse(text, {})
    with pytest.raises(InvalidSchemaError, match="outside of its folder"):
        schemas.parse(text, {"../lines.proto": text})


def test_protobuf_descriptor_imports_what_is_referred_to() -> None:
    file = FileDescriptorProto(name="orders.proto", dependency=["sizes.proto"])
    text = base64.b64encode(file.SerializeToString()).decode()
    schemas = ProtobufFormat()
    assert schemas.parse(text, {"sizes.proto": 'syntax = "proto3";'}) == file
    with pytest.raises(InvalidSchemaError, match=r"sizes\.proto"):
        schemas.parse(text, {})


#: Each can read what the one before it has written; the last one not what the first has.
_NONE, _ADDED, _REQUIRED = (
    {"schema": record(_NAME)},
    {"schema": record(_NAME, _OPTIONAL_AGE)},
    {"schema": record(_NAME, _AGE)},
)


@pytest.mark.parametrize(
    ("level", "old", "new", "is_compatible"),
    [
        ("NONE", [_NONE], _REQUIRED, True),
        ("BACKWARD", [_NONE], _REQUIRED, False),
        ("BACKWARD", [_NONE, _ADDED], _REQUIRED, True),
        ("BACKWARD_TRANSITIVE", [_NONE, _ADDED], _REQUIRED, False),
        ("FORWARD", [_NONE], _REQUIRED, True),
        ("FORWARD", [_REQUIRED], _NONE, False),
        ("FORWARD", [_REQUIRED, _ADDED], _NONE, True),
        ("FORWARD_TRANSITIVE", [_REQUIRED, _ADDED], _NONE, False),
        ("FULL", [_NONE], _REQUIRED, False),
        ("FULL", [_REQUIRED], _NONE, False),
        ("FULL", [_NONE], _ADDED, True),
        ("FULL_TRANSITIVE", [_NONE, _ADDED], _REQUIRED, False),
        ("BACKWARD", [{"schema": "{}", "schemaType": "JSON"}], _NONE, False),
    ],
)
def test_level_says_which_versions_a_schema_is_compared_with(
    client: Any, level: str, old: list[Any], new: Any, is_compatible: bool
) -> None:
    post = client._rest_client.post
    client.set_compatibility("s", "NONE")
    for schema in old:
        post("subjects/s/versions", schema)
    client.set_compatibility("s", level)
    found = post("compatibility/subjects/s/versions?verbose=true", new)
    assert found["is_compatible"] is is_compatible
    assert bool(found["messages"]) is not is_compatible
    if is_compatible:
        post("subjects/s/versions", new)
    else:
        assert refused(post, "subjects/s/versions", new) == 409
    assert len(client.get_versions("s")) == len(old) + is_compatible


def test_schema_is_compared_with_one_version(client: Any) -> None:
    post = client._rest_client.post
    for schema in (_NONE, _ADDED):
        post("subjects/s/versions", schema)

    def is_compatible(version: str) -> bool:
        answer = post(f"compatibility/subjects/s/versions/{version}", _REQUIRED)
        assert answer.keys() == {"is_compatible"}
        return bool(answer["is_compatible"])

    assert [is_compatible(version) for version in ("1", "2", "latest")] == [False, True, True]
    assert refused(is_compatible, "3") == 40402


def test_nothing_is_incompatible_with_an_unknown_subject(client: Any) -> None:
    assert client.test_compatibility("none", avro())
    assert client.test_compatibility_all_versions("none", avro())
    assert refused(client.test_compatibility, "none", avro(), 1) == 40401
