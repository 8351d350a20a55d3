"""Avro, by Apache's library."""

from __future__ import annotations

import json
from typing import Any

import avro.compatibility
import avro.errors
import avro.name
import avro.schema

from purgatory_broker.schema_registry.formats.schema_format import References
from purgatory_broker.schema_registry.registry_error import InvalidSchemaError


class AvroFormat:
    def canonical(self, text: str, *, normalize: bool) -> str:
        value = json_value(text)
        if isinstance(value, dict) and value.keys() == {"type"} and isinstance(value["type"], str):
            value = value["type"]
        return json_text(value, normalize=normalize)

    def parse(self, text: str, references: References) -> avro.schema.Schema:
        # Those of the references, which the schema uses by name.
        names = avro.name.Names()
        for referenced in references.values():
            _parse(referenced, names)
        return _parse(text, names)

    def incompatibilities(self, reader: Any, writer: Any, /) -> list[str]:
        library: Any = avro.compatibility  # without types
        checker = library.ReaderWriterCompatibilityChecker()
        result = checker.get_compatibility(reader, writer)
        if result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
            return []
        kinds = ", ".join(dict.fromkeys(kind.name for kind in result.incompatibilities))
        messages, places = ", ".join(sorted(result.messages)), ", ".join(sorted(result.locations))
        return [f"{kinds} ({messages}) at {places}"]


def _parse(text: str, names: avro.name.Names) -> avro.schema.Schema:
    try:
        return avro.schema.make_avsc_object(json_value(text), names)
    except (avro.errors.AvroException, RecursionError) as error:
        raise InvalidSchemaError(f"Invalid schema {text}: {error}") from error


def json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"Invalid schema {text}: {error}") from error


def json_text(value: Any, *, normalize: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=normalize)
