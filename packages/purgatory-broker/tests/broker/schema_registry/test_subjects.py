"""Subjects, versions, ids, settings and modes, by confluent-kafka's client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, ServerConfig
from confluent_kafka.schema_registry.error import SchemaRegistryError


def avro(name: str = "a", *fields: str, references: list[SchemaReference] | None = None) -> Schema:
    shown = ", ".join(f'{{"name": "{field}", "type": "int", "default": 0}}' for field in fields)
    text = f'{{"type": "record", "name": "{name}", "fields": [{shown}]}}'
    return Schema(text, "AVRO", references or [])


A, B = avro("a"), avro("a", "f")


def put(client: Any, path: str, body: Any) -> Any:
    return client._rest_client.put(path, body=body)


def refused(call: Callable[..., Any], *arguments: Any, **options: Any) -> int:
    """Return the code with which the registry refuses a call."""
    with pytest.raises(SchemaRegistryError) as raised:
        call(*arguments, **options)
    code = raised.value.error_code
    assert raised.value.http_status_code == int(str(code)[:3])
    return int(code)


def test_equal_schemas_have_one_id(client: Any) -> None:
    assert client.register_schema("s", A) == 1
    assert client.register_schema("s", B) == 2
    client.clear_caches()
    spaced = Schema(A.schema_str.replace(" ", "  "), "AVRO")
    assert client.register_schema("s", spaced) == 1
    assert client.register_schema("t", A) == 1
    assert client.get_subjects() == ["s", "t"]
    assert (client.get_versions("s"), client.get_versions("t")) == ([1, 2], [1])
    assert client.get_subjects_by_schema_id(1) == ["s", "t"]
    found = client.get_schema_versions(1)
    assert [(each.subject, each.version) for each in found] == [("s", 1), ("t", 1)]
    assert [each.version for each in client.get_schema_versions(1, "t")] == [1]


def test_normalized_schemas_are_equal_in_another_order(client: Any) -> None:
    turned = Schema('{"fields": [], "name": "a", "type": "record"}', "AVRO")
    assert client.register_schema("s", A, normalize_schemas=True) == 1
    assert client.register_schema("s", turned, normalize_schemas=True) == 1
    put(client, "config/t", {"normalize": True})
    assert client.register_schema("t", turned) == 1
    assert client.register_schema("u", A) == 2


def test_latest_version_and_others_are_read(client: Any) -> None:
    client.register_schema("s", A)
    client.register_schema("s", B)
    latest = client.get_latest_version("s")
    assert (latest.version, latest.schema_id, latest.subject) == (2, 2, "s")
    first = client.get_version("s", 1)
    assert (first.version, first.schema_id) == (1, 1)
    assert client.get_schema(1).schema_str == first.schema.schema_str
    found = client.lookup_schema("s", B)
    assert (found.version, found.schema_id) == (2, 2)


def test_what_is_not_there_is_not_found(client: Any) -> None:
    client.register_schema("s", A)
    assert refused(client.get_versions, "none") == 40401
    assert refused(client.get_latest_version, "none") == 40401
    assert refused(client.lookup_schema, "none", A) == 40401
    assert refused(client.get_version, "s", 2) == 40402
    assert refused(client.lookup_schema, "s", B) == 40403
    assert refused(client.get_schema, 9) == 40403
    assert refused(client.get_schema_by_guid, "none") == 40403
    assert refused(client.get_subjects_by_schema_id, 9) == 40403
    assert refused(client.get_compatibility, "s") == 40408
    assert refused(client.get_mode, "s") == 40409
    assert refused(client.delete_config, "none") == 40401
    assert refused(client.delete_mode, "none") == 40401
    assert refused(client.delete_subject, "none") == 40401
    assert refused(client.delete_version, "s", 2) == 40402


@pytest.mark.parametrize(
    "schema",
    [
        Schema("{", "AVRO"),
        Schema("", "AVRO"),
        Schema('{"type": "record"}', "AVRO"),
        Schema('"unknown"', "AVRO"),
        Schema('{"type": "nothing"}', "JSON"),
        Schema("[]", "JSON"),
        Schema('{"$ref": "#/$defs/none"}', "JSON"),
        Schema("message {", "PROTOBUF"),
        Schema("{}", "XML"),
        avro(references=[SchemaReference("b", "none", 1)]),
    ],
)
def test_invalid_schemas_are_refused(client: Any, schema: Schema) -> None:
    assert refused(client.register_schema, "s", schema) == 42201
    assert refused(client.test_compatibility, "s", schema) == 42201


def test_invalid_arguments_are_refused(client: Any) -> None:
    client.register_schema("s", A)
    for version in ("0", "-2", "x", str(2**31)):
        assert refused(client.get_version, "s", version) == 42202
    assert refused(client.set_compatibility, "s", "SIDEWAYS") == 42203
    assert refused(client.update_mode, "s", "SLEEPING") == 42204
    assert refused(client.set_config, "s", ServerConfig(compatibility_group="g")) == 42205
    assert refused(client.register_schema, "__GLOBAL", A) == 42208


def test_subject_is_deleted_softly_and_then_permanently(client: Any) -> None:
    client.register_schema("s", A)
    client.register_schema("s", B)
    client.set_compatibility("s", "NONE")
    client.update_mode("s", "READWRITE")
    assert refused(client.delete_subject, "s", permanent=True) == 40405
    assert client.delete_subject("s") == [1, 2]
    assert refused(client.get_versions, "s") == 40401
    assert refused(client.get_version, "s", 1) == 40402
    assert client.get_version("s", 1, deleted=True).schema_id == 1
    assert client.get_versions("s", deleted=True) == [1, 2]
    assert client.get_subjects() == []
    assert client.get_subjects(deleted=True) == ["s"]
    assert client.get_schema(1).schema_type == "AVRO"
    assert refused(client.get_compatibility, "s") == 40408
    assert refused(client.get_mode, "s") == 40409
    assert refused(client.delete_subject, "s") == 40404
    assert client.delete_subject("s", permanent=True) == [1, 2]
    client.clear_caches()
    assert refused(client.get_schema, 1) == 40403
    assert client.register_schema("s", A) == 3
    assert client.get_versions("s") == [1]


def test_version_is_deleted_softly_and_then_permanently(client: Any) -> None:
    client.register_schema("s", A)
    client.register_schema("s", B)
    assert refused(client.delete_version, "s", 2, permanent=True) == 40407
    assert client.delete_version("s", 2) == 2
    assert refused(client.delete_version, "s", 2) == 40406
    assert client.get_latest_version("s").version == 1
    assert client.get_versions("s") == [1]
    client.clear_caches()
    assert client.register_schema("s", B) == 2
    assert client.get_versions("s") == [1, 3]
    assert client.delete_version("s", 2, permanent=True) == 2
    assert client.get_versions("s", deleted=True) == [1, 3]


def test_schema_that_others_refer_to_is_not_deleted(client: Any) -> None:
    client.register_schema("s", A)
    user = Schema(
        '{"type": "record", "name": "b", "fields": [{"name": "f", "type": "a"}]}',
        "AVRO",
        [SchemaReference("a", "s", 1)],
    )
    client.register_schema("t", user)
    assert client.get_referenced_by("s", 1) == [2]
    assert refused(client.delete_subject, "s") == 42206
    assert refused(client.delete_version, "s", 1) == 42206
    client.delete_subject("t")
    assert client.delete_subject("s") == [1]


def test_settings_of_a_subject_come_before_those_of_all(client: Any) -> None:
    assert client.get_compatibility() == "BACKWARD"
    assert client.set_compatibility(level="full")["compatibility"] == "FULL"
    client.set_compatibility("s", "NONE")
    assert client.get_compatibility("s") == "NONE"
    assert client.delete_config("s").compatibility_level == "NONE"
    assert refused(client.get_compatibility, "s") == 40408
    assert client.get_compatibility() == "FULL"
    client.delete_config()
    assert client.get_compatibility() == "BACKWARD"


def test_read_only_subject_takes_no_schema(client: Any) -> None:
    client.register_schema("s", A)
    assert client.get_global_mode() == "READWRITE"
    client.update_mode("s", "READONLY")
    client.clear_caches()
    assert refused(client.register_schema, "s", B) == 42205
    assert refused(client.delete_subject, "s") == 42205
    assert client.register_schema("t", B) == 2
    assert client.delete_mode("s") == "READONLY"
    assert client.register_schema("s", B) == 2
    client.update_global_mode("READONLY")
    assert refused(client.register_schema, "u", A) == 42205


def test_schemas_are_imported_with_their_ids(client: Any) -> None:
    client.register_schema("s", A)
    assert refused(client.update_mode, "s", "IMPORT") == 42205
    client.update_mode("t", "IMPORT")
    post = client._rest_client.post
    imported = {"schema": B.schema_str, "id": 77, "version": 5}
    assert post("subjects/t/versions", imported)["id"] == 77
    assert client.get_versions("t") == [5]
    assert refused(post, "subjects/t/versions", {"schema": '"int"', "id": 77}) == 42205
    assert refused(post, "subjects/s/versions", {"schema": '"int"', "id": 78}) == 42205
    assert refused(post, "subjects/t/versions", {"schema": '"int"', "id": "x"}) == 42201
    client.update_mode("s", "IMPORT", force=True)
    client.delete_mode("t")
    assert client.register_schema("t", avro("a", "f", "g")) == 78


def test_subject_may_have_a_slash(client: Any) -> None:
    client.register_schema("a/b c", A)
    assert client.get_latest_version("a/b c").subject == "a/b c"
    assert client.get_subjects(subject_prefix="a/") == ["a/b c"]
    assert client.get_subjects(subject_prefix="b") == []
