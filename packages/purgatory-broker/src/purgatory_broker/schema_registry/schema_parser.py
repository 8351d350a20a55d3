"""Parses the schemas of all formats, with those that they refer to, and compares them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from purgatory_broker.schema_registry.formats.avro_format import AvroFormat
from purgatory_broker.schema_registry.formats.json_schema_format import JsonSchemaFormat
from purgatory_broker.schema_registry.formats.protobuf_format import ProtobufFormat, serialized
from purgatory_broker.schema_registry.formats.schema_format import SchemaFormat
from purgatory_broker.schema_registry.registry_error import InvalidSchemaError
from purgatory_broker.schema_registry.registry_state import RegistryState
from purgatory_broker.schema_registry.schema import (
    AVRO,
    JSON,
    PROTOBUF,
    Schema,
    Version,
    schema_from,
)

FORMATS: dict[str, SchemaFormat] = {
    JSON: JsonSchemaFormat(),
    PROTOBUF: ProtobufFormat(),
    AVRO: AvroFormat(),
}


def canonical_schema(body: Any, *, normalize: bool) -> Schema:
    """Read the schema of a request, as it is stored."""
    if not isinstance(body, dict):
        raise InvalidSchemaError(f"expected an object with a schema, got {body!r}")
    schema = schema_from(body)
    if schema.type not in FORMATS:
        raise InvalidSchemaError(
            f"Invalid schema type {schema.type}: expected one of {', '.join(FORMATS)}"
        )
    return replace(schema, text=FORMATS[schema.type].canonical(schema.text, normalize=normalize))


def parse(state: RegistryState, schema: Schema) -> Any:
    return FORMATS[schema.type].parse(schema.text, _references(state, schema))


def serialized_text(state: RegistryState, schema: Schema) -> str:
    """Return the text in the format that clients call serialized, which Protobuf alone has."""
    return serialized(parse(state, schema)) if schema.type == PROTOBUF else schema.text


def _references(state: RegistryState, schema: Schema) -> dict[str, str]:
    """Return the texts of what a schema refers to, each after those that it refers to."""
    texts: dict[str, str] = {}
    pending: set[str] = set()

    def add(used_by: Schema) -> None:
        for name, subject, number in used_by.references:
            if name in texts or name in pending:  # Imported schemas may refer to each other.
                continue
            found = state.subjects.get(subject, {}).get(number)
            if found is None:
                raise InvalidSchemaError(
                    f"No schema reference found for subject '{subject}' and version {number}"
                )
            pending.add(name)
            add(found.schema)
            texts[name] = found.schema.text

    add(schema)
    return texts


def incompatibilities(
    state: RegistryState, level: str, schema: Schema, versions: list[Version]
) -> list[str]:
    """Return why a schema is not compatible with versions, by one of the levels."""
    direction = level.removesuffix("_TRANSITIVE")
    new = parse(state, schema)
    if direction == "NONE":
        return []
    compare = FORMATS[schema.type].incompatibilities
    problems: list[str] = []
    for version in reversed(versions):
        if version.schema.type != schema.type:
            problems.append(f"the type was {version.schema.type} and is {schema.type}")
            continue
        old = parse(state, version.schema)
        if direction in ("BACKWARD", "FULL"):
            problems += compare(new, old)
        if direction in ("FORWARD", "FULL"):
            problems += compare(old, new)
    return problems
