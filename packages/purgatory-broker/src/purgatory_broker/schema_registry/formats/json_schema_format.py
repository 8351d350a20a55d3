"""JSON Schema: schemas are checked by `jsonschema`, and compared as sets of valid values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from purgatory_broker.schema_registry.formats.avro_format import json_text, json_value
from purgatory_broker.schema_registry.formats.json_schema_inclusion import Inclusion, JsonSchema
from purgatory_broker.schema_registry.formats.schema_format import References
from purgatory_broker.schema_registry.registry_error import InvalidSchemaError


def _references(value: Any) -> Iterator[str]:
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if key == "$ref" and isinstance(part, str):
            yield part
        elif isinstance(part, (dict, list)):
            yield from _references(part)


class JsonSchemaFormat:
    def canonical(self, text: str, *, normalize: bool) -> str:
        return json_text(json_value(text), normalize=normalize)

    def parse(self, text: str, references: References) -> JsonSchema:
        root = json_value(text)
        if not isinstance(root, (dict, bool)):
            raise InvalidSchemaError(f"Invalid schema {text}: expected an object or a boolean")
        try:
            kind = validator_for(root, default=jsonschema.Draft202012Validator)
            kind.check_schema(root)
        except (jsonschema.SchemaError, RecursionError) as error:
            raise InvalidSchemaError(f"Invalid schema {text}: {error}") from error
        resources = {name: json_value(referenced) for name, referenced in references.items()}
        registry: Registry[Any] = Registry().with_resources(
            (name, Resource.from_contents(value, default_specification=DRAFT202012))
            for name, value in resources.items()
        )
        parsed = JsonSchema(root, resources, kind(root, registry=registry))
        for document in (root, *resources.values()):
            for reference in _references([document]):
                parsed.resolve(document, reference)
        return parsed

    def incompatibilities(self, reader: JsonSchema, writer: JsonSchema) -> list[str]:
        return Inclusion(reader, writer).problems()
