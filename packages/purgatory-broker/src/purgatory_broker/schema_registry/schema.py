"""A schema as clients send it, and its versions in a subject."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from purgatory_broker.schema_registry.registry_error import InvalidSchemaError

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"


class Reference(NamedTuple):
    """What a schema calls `name` is a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema; equal ones have the same id.

    `metadata` and `rule_set` are JSON, which the registry keeps and does not read.
    """

    type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    rule_set: str | None = None

    @property
    def guid(self) -> str:
        parts = [self.type, self.text, self.references, self.metadata, self.rule_set]
        return str(uuid.UUID(bytes=hashlib.md5(json.dumps(parts).encode()).digest()))

    def fields(self) -> dict[str, Any]:
        """Return the schema's fields in responses and records; AVRO is the type without one."""
        found: dict[str, Any] = {"schema": self.text}
        if self.type != AVRO:
            found["schemaType"] = self.type
        if self.references:
            found["references"] = [reference._asdict() for reference in self.references]
        if self.metadata is not None:
            found["metadata"] = json.loads(self.metadata)
        if self.rule_set is not None:
            found["ruleSet"] = json.loads(self.rule_set)
        return found


@dataclass(frozen=True, slots=True)
class Version:
    subject: str
    number: int
    id: int
    schema: Schema
    #: Softly: the id can still be read.
    is_deleted: bool = False

    def fields(self) -> dict[str, Any]:
        return {"subject": self.subject, "version": self.number, "id": self.id} | (
            self.schema.fields()
        )


def schema_from(fields: Mapping[str, Any]) -> Schema:
    """Read a schema of a request or of a record; the text is not parsed.

    Raises:
        InvalidSchemaError: a field has another type.
    """
    text, kind = fields.get("schema"), fields.get("schemaType") or AVRO
    if not isinstance(text, str) or not text.strip():
        raise InvalidSchemaError(f"schema must be a text that is not empty, got {text!r}")
    if not isinstance(kind, str):
        raise InvalidSchemaError(f"schemaType must be a text, got {kind!r}")
    references: list[Reference] = []
    listed = fields.get("references") or []
    if not isinstance(listed, list):
        raise InvalidSchemaError(f"references must be a list, got {listed!r}")
    for given in listed:
        try:
            reference = Reference(given["name"], given["subject"], given["version"])
        except (KeyError, TypeError):
            reference = Reference("", "", 0)
        if not (
            isinstance(reference.name, str)
            and isinstance(reference.subject, str)
            and type(reference.version) is int
            and reference.name
        ):
            raise InvalidSchemaError(
                f"a reference must have a name, a subject and a version, got {given!r}"
            )
        references.append(reference)
    return Schema(
        kind,
        text,
        tuple(references),
        _kept(fields.get("metadata")),
        _kept(fields.get("ruleSet")),
    )


def _kept(value: Any) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True)
