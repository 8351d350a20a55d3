"""Kafka's definitions of messages, as JSON files with comments have them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: The struct module's code of each type of a fixed size.
CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
}
SIZES = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8}
UUID_BYTES = 16
_TYPES = frozenset({*CODES, "string", "bytes", "records", "uuid"})
_LAST = 32_767


class Versions(NamedTuple):
    """Some versions of a message, from the first to the last; none if the last is below."""

    first: int
    last: int

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def covers(self, other: Versions) -> bool:
        return self & other == other

    @property
    def is_empty(self) -> bool:
        return self.last < self.first


NONE = Versions(0, -1)


def parse_versions(text: str | None) -> Versions:
    """Return versions that are written as "3", "3+", "3-5" or "none"."""
    if text is None or text == "none":
        return NONE
    if text.endswith("+"):
        return Versions(int(text[:-1]), _LAST)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@dataclass(kw_only=True, eq=False)
class Field:
    """A field of a struct.

    Attributes:
        type: The name of a type or of a struct, without the brackets of an array.
        versions: The versions of the message that have the field.
        default: As in the schema; None if the schema has none.
        struct: The struct of the field or of its elements.
    """

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions
    default: Any
    tag: int | None
    entity: str | None
    struct: Struct | None

    @property
    def attribute(self) -> str:
        return snake_case(self.name)

    @property
    def code(self) -> str | None:
        """The struct module's code of a field of a fixed size; None for other fields."""
        return None if self.is_array else CODES.get(self.type)


@dataclass(eq=False)
class Struct:
    name: str
    versions: Versions
    flexible: Versions
    #: In the order of the schema.
    fields: list[Field] = field(default_factory=list)
    #: What the schema says of the fields.
    source: Any = None

    @property
    def layout(self) -> Any:
        """What two structs with the same class have in common."""
        return self.source, self.versions, self.flexible

    @property
    def untagged(self) -> list[Field]:
        return [field for field in self.fields if field.tag is None]

    @property
    def tagged(self) -> list[Field]:
        tagged = [field for field in self.fields if field.tag is not None]
        return sorted(tagged, key=lambda field: field.tag or 0)

    def structs(self) -> Iterator[Struct]:
        """Yield the structs of the fields, at any depth and the inner ones first, and this one."""
        for each in self.fields:
            if each.struct is not None:
                yield from each.struct.structs()
        yield self

    def wire_bytes(self) -> int:
        """Return the size of the smallest struct on the wire."""
        versions = range(self.versions.first, self.versions.last + 1)
        return max(min((self._wire_bytes(version) for version in versions), default=1), 1)

    def _wire_bytes(self, version: int) -> int:
        flexible = version in self.flexible
        size = int(flexible)
        for each in self.untagged:
            if version not in each.versions:
                continue
            if each.is_array or each.type in ("bytes", "records"):
                size += 1 if flexible else 4
            elif each.type == "string":
                size += 1 if flexible else 2
            elif each.type == "uuid":
                size += UUID_BYTES
            elif each.code is not None:
                size += SIZES[each.code]
            else:
                size += 1  # A struct, or its absence.
        return size


@dataclass(eq=False)
class Message:
    key: int
    name: str
    is_request: bool
    struct: Struct


def load_message(text: str) -> Message:
    """Return the message of a definition; `//` comments out the rest of a line."""
    source = json.loads(re.sub(r"(^|\s)//.*$", "", text, flags=re.MULTILINE))
    versions = parse_versions(source["validVersions"])
    loader = _Loader(
        versions,
        parse_versions(source["flexibleVersions"]),
        {each["name"]: each for each in source.get("commonStructs", ())},
    )
    struct = loader.struct(source["name"], source["fields"], versions)
    return Message(source["apiKey"], source["name"], source["type"] == "request", struct)


@dataclass(frozen=True)
class _Loader:
    #: Of the message.
    versions: Versions
    flexible: Versions
    #: The structs that several fields may have, by name.
    common: Mapping[str, Any]

    def struct(self, name: str, fields: list[dict[str, Any]], versions: Versions) -> Struct:
        made = Struct(name, versions, self.flexible, source=_without_comments(fields))
        for each in fields:
            has = parse_versions(each["versions"]) & versions
            tagged = parse_versions(each.get("taggedVersions")) & versions
            if has.is_empty:
                continue
            if "flexibleVersions" in each or (not tagged.is_empty and tagged != has):
                raise NotImplementedError(f"{name}.{each['name']}: {each}")
            kind = each["type"].removeprefix("[]")
            struct = self._struct_of(kind, each, has)
            if struct is None and kind not in _TYPES:
                raise NotImplementedError(f"{name}.{each['name']} of type {kind}")
            is_array = each["type"].startswith("[]")
            nullable = parse_versions(each.get("nullableVersions")) & has
            if struct is not None and not is_array and not (nullable & tagged).is_empty:
                # Kafka marks its absence otherwise than that of an untagged one.
                raise NotImplementedError(
                    f"{name}.{each['name']}: a tagged struct that may be null"
                )
            made.fields.append(
                Field(
                    name=each["name"],
                    type=kind,
                    is_array=is_array,
                    versions=has,
                    nullable=nullable,
                    default=each.get("default"),
                    tag=None if tagged.is_empty else each["tag"],
                    entity=each.get("entityType"),
                    struct=struct,
                )
            )
        return made

    def _struct_of(self, kind: str, field: dict[str, Any], has: Versions) -> Struct | None:
        if "fields" in field:
            return self.struct(kind, field["fields"], has)
        if kind not in self.common:
            return None
        # Each field of such a struct has the same one, of all its versions.
        common = self.common[kind]
        return self.struct(
            kind, common["fields"], parse_versions(common["versions"]) & self.versions
        )


def _without_comments(fields: list[dict[str, Any]]) -> Any:
    dropped = ("about", "ignorable", "mapKey", "entityType")
    return [
        {
            key: _without_comments(value) if key == "fields" else value
            for key, value in each.items()
            if key not in dropped
        }
        for each in fields
    ]
