"""Whether all that is valid by one JSON Schema is valid by another, as far as keywords tell.

What it takes for included is, but for two of Confluent's rules: a property that becomes required
may have a default, and `oneof` counts as `anyOf`. What it can't tell counts as not included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag

from purgatory_broker.schema_registry.registry_error import InvalidSchemaError

#: Keywords that allow every value.
_ANNOTATIONS = (
    frozenset(
        ("$anchor", "$comment", "$defs", "$id", "$schema", "contentEncoding", "contentMediaType")
    )
    | {"contentSchema", "default", "definitions", "deprecated", "description", "examples"}
    | {"format", "id", "readOnly", "title", "writeOnly"}
)
_TYPES = frozenset(("null", "boolean", "object", "array", "number", "string"))
#: Keywords with numbers by the type that they are of: the larger, the less is allowed, or the more.
_LEAST = {"minLength": "string", "minItems": "array", "minProperties": "object"}
_MOST = {"maxLength": "string", "maxItems": "array", "maxProperties": "object"}
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_PROPERTIES = frozenset(("properties", "patternProperties", "additionalProperties", "required"))
_ITEMS = frozenset(("items", "prefixItems", "additionalItems"))
_UNIONS = ("anyOf", "oneOf")
_CHECKED = (
    {"type", "enum", "const", "pattern", "multipleOf", "uniqueItems", "allOf", "$ref"}
    | {*_BOUNDS, *_UNIONS}
    | _LEAST.keys()
    | _MOST.keys()
    | _PROPERTIES
    | _ITEMS
    | _ANNOTATIONS
)
#: Beyond these a schema is refused as too complex to compare.
_MAX_DEPTH = 60
_MAX_COMPARISONS = 20_000

#: What no value is valid by.
_NOTHING: dict[str, Any] = {"not": {}}

#: A schema inside of a document: the document's root, and the schema.
Place = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class JsonSchema:
    root: Any
    #: The documents that it refers to, by name.
    resources: dict[str, Any]
    validator: Any

    def resolve(self, root: Any, reference: str) -> Place:
        document, pointer = urldefrag(reference)
        if document:
            if document not in self.resources:
                raise InvalidSchemaError(f"no reference is named {document!r}")
            root = self.resources[document]
        found = root
        for part in filter(None, pointer.split("/")):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise InvalidSchemaError(f"$ref {reference!r} refers to nothing") from None
        return root, found

    def conjuncts(self, place: Place) -> Iterator[Place]:
        """Iterate over the schemas, without `$ref` and `allOf`, that all have to hold."""
        pending, followed = [place], set()
        while pending:
            root, schema = pending.pop()
            if isinstance(schema, bool):
                yield root, {} if schema else _NOTHING
                continue
            rest = dict(schema)
            pending += [(root, part) for part in rest.pop("allOf", ())]
            reference = rest.pop("$ref", None)
            if reference is not None:
                target = self.resolve(root, reference)
                if id(target[1]) not in followed:
                    followed.add(id(target[1]))
                    pending.append(target)
            yield root, rest

    def is_valid(self, value: Any, place: Place) -> bool:
        """Return whether a value is valid; False if that can't be told."""
        root, schema = place
        if root is not self.root:  # The validator looks up references in its own.
            return False
        try:
            return bool(self.validator.evolve(schema=schema).is_valid(value))
        except RecursionError:  # The schema refers to itself, without a value in between.
            return False


class Inclusion:
    """Looks for values that are valid by `writer` and not by `reader`."""

    def __init__(self, reader: JsonSchema, writer: JsonSchema) -> None:
        self._reader, self._writer = reader, writer
        #: The pairs that are being compared, or have been: a schema may refer to itself.
        self._pairs: set[tuple[int, int]] = set()
        #: Keeps what was made, so that no other object has its id.
        self._made: list[Any] = []
        self._depth = self._comparisons = 0

    def problems(self) -> list[str]:
        reader, writer = self._reader.root, self._writer.root
        return list(dict.fromkeys(self._compare((writer, writer), (reader, reader), "#")))

    def _compare(self, old: Place, new: Place, at: str) -> list[str]:
        pair = id(old[1]), id(new[1])
        if pair in self._pairs:
            return []
        self._comparisons += 1
        if self._depth == _MAX_DEPTH or self._comparisons > _MAX_COMPARISONS:
            return [f"{at} is too complex to compare"]
        self._pairs.add(pair)
        self._depth += 1
        try:
            place = self._merged(old)
            merged = place[1]
            if merged.get("not") == {}:
                return []
            if "const" in merged or "enum" in merged:
                return self._compare_values(merged, new, at)
            parts = self._reader.conjuncts(new)
            return [problem for part in parts for problem in self._compare_part(place, part, at)]
        finally:
            self._depth -= 1

    def _merged(self, place: Place) -> Place:
        """Return a schema that allows at least what a schema does, without `allOf` and `$ref`."""
        merged: dict[str, Any] = {}
        merged_root = place[0]
        for root, part in self._writer.conjuncts(place):
            if not merged:
                merged_root = root
            elif root is not merged_root:
                continue  # Its references would be looked up in another document.
            for key, value in part.items():
                if key in ("properties", "patternProperties"):
                    merged[key] = {**value, **merged.get(key, {})}
                elif key == "required":
                    merged[key] = [*merged.get(key, ()), *value]
                else:
                    merged.setdefault(key, value)
        self._made.append(merged)
        return merged_root, merged

    def _compare_values(self, old: dict[str, Any], new: Place, at: str) -> list[str]:
        values = [old["const"]] if "const" in old else old["enum"]
        return [
            f"the value {value!r} of {at} is not allowed any more"
            for value in values
            if not self._reader.is_valid(value, new)
        ]

    def _compare_part(self, old: Place, new: Place, at: str) -> list[str]:
        """Compare with one conjunct; if that fails, with each alternative of what was allowed."""
        if not new[1].keys() - _ANNOTATIONS:
            return []
        if new[1] == _NOTHING:
            return [f"{at} is not allowed any more"]
        before = set(self._pairs)
        problems = self._compare_plain(old, new, at)
        union = next((key for key in _UNIONS if key in old[1]), None)
        if not problems or union is None:
            return problems
        self._pairs = before
        rest = {key: value for key, value in old[1].items() if key != union}
        found = []
        for alternative in old[1][union]:
            both = {"allOf": [alternative, rest]}
            self._made.append(both)
            found += self._compare((old[0], both), new, at)
        return found

    def _compare_plain(self, old_place: Place, new_place: Place, at: str) -> list[str]:
        old, new = old_place[1], new_place[1]
        types = _types(old)
        problems = list(_compare_limits(old, new, types, at))
        if "type" in new and (surplus := _surplus_types(types, _types(new))):
            problems.append(f"{at} may not be of type {', '.join(surplus)} any more")
        if "const" in new or "enum" in new:
            problems.append(f"{at} allows certain values only")
        problems += [
            f"{at} has no alternative in {key} for all that was allowed"
            for key in _UNIONS
            if key in new and not self._has_alternative(old_place, new_place[0], new[key], at)
        ]
        problems += [
            f"{key} of {at} was added or changed"
            for key in sorted(new.keys() - _CHECKED)
            if key not in old or old[key] != new[key] or old_place[0] != new_place[0]
        ]
        if "array" in types and _ITEMS & new.keys():
            problems += self._compare_items(old_place, new_place, at)
        if "object" in types and _PROPERTIES & new.keys():
            problems += self._compare_properties(old_place, new_place, at)
        return problems

    def _has_alternative(self, old: Place, root: Any, alternatives: list[Any], at: str) -> bool:
        for alternative in alternatives:
            before = set(self._pairs)
            if not self._compare(old, (root, alternative), at):
                return True
            # What it has compared may not hold.
            self._pairs = before
        return False

    def _compare_items(self, old: Place, new: Place, at: str) -> list[str]:
        longest = max(len(_prefix(old[1])), len(_prefix(new[1])))
        pairs: list[tuple[Any, Any, object]] = [
            (_item(old[1], index), _item(new[1], index), index) for index in range(longest)
        ]
        pairs.append((_further_items(old[1]), _further_items(new[1]), "items"))
        return [
            problem
            for was, part, name in pairs
            for problem in self._compare((old[0], was), (new[0], part), f"{at}/{name}")
        ]

    def _compare_properties(self, old_place: Place, new_place: Place, at: str) -> list[str]:
        old, new = old_place[1], new_place[1]
        problems = [
            f"{at}/{name} is required"
            for name in new.get("required", ())
            if name not in old.get("required", ()) and not _has_default(new, name)
        ]
        pairs = [
            (next(_property_schemas(old, name)), part, name)
            for name in {**old.get("properties", {}), **new.get("properties", {})}
            for part in _property_schemas(new, name)
        ]
        # Other properties, by all that was allowed for them.
        old_patterns = old.get("patternProperties", {})
        new_patterns = new.get("patternProperties", {})
        others = [*old_patterns.values(), old.get("additionalProperties", True)]
        for pattern, part in new_patterns.items():
            known = [old_patterns[pattern]] if pattern in old_patterns else others
            pairs += [(was, part, pattern) for was in known]
        rest = [part for pattern, part in old_patterns.items() if pattern not in new_patterns]
        rest.append(old.get("additionalProperties", True))
        pairs += [(was, new.get("additionalProperties", True), "*") for was in rest]
        return problems + [
            problem
            for was, part, name in pairs
            for problem in self._compare((old_place[0], was), (new_place[0], part), f"{at}/{name}")
        ]


def _has_default(schema: dict[str, Any], name: str) -> bool:
    declared = schema.get("properties", {}).get(name)
    return isinstance(declared, dict) and "default" in declared


def _types(schema: dict[str, Any]) -> frozenset[str]:
    given = schema.get("type", _TYPES)
    return frozenset((given,) if isinstance(given, str) else given)


def _surplus_types(old: frozenset[str], new: frozenset[str]) -> list[str]:
    return sorted(old - new - ({"integer"} if "number" in new else set()))


def _compare_limits(
    old: dict[str, Any], new: dict[str, Any], types: frozenset[str], at: str
) -> Iterator[str]:
    for key, type_ in (_LEAST | _MOST).items():
        if key in new and type_ in types:
            is_least = key in _LEAST
            if key not in old or (old[key] < new[key] if is_least else old[key] > new[key]):
                yield f"{key} of {at} is stricter"
    if types & {"number", "integer"}:
        for key in _BOUNDS:
            if key in new and not _implies_bound(old, new, key):
                yield f"{key} of {at} is stricter"
        step = new.get("multipleOf")
        if step is not None and ("multipleOf" not in old or old["multipleOf"] % step):
            yield f"multipleOf of {at} is stricter"
    if "string" in types and "pattern" in new and old.get("pattern") != new["pattern"]:
        yield f"pattern of {at} was added or changed"
    if "array" in types and new.get("uniqueItems") and not old.get("uniqueItems"):
        yield f"uniqueItems of {at} is stricter"


def _implies_bound(old: dict[str, Any], new: dict[str, Any], key: str) -> bool:
    limit = new[key]
    if isinstance(limit, bool):  # In draft 4 it is of the other keyword.
        return not limit or (old.get(key) is True and _same_bound(old, new, key))
    sign = 1 if "aximum" in key else -1
    inclusive, exclusive = (
        ("maximum", "exclusiveMaximum") if sign == 1 else ("minimum", "exclusiveMinimum")
    )
    bounds = [(old[name], name == exclusive) for name in (inclusive, exclusive) if name in old]
    return any(
        not isinstance(bound, bool)
        and (sign * bound < sign * limit or (bound == limit and (is_open or key == inclusive)))
        for bound, is_open in bounds
    )


def _same_bound(old: dict[str, Any], new: dict[str, Any], key: str) -> bool:
    other = "maximum" if key == "exclusiveMaximum" else "minimum"
    return bool(old.get(other) == new.get(other))


def _prefix(schema: dict[str, Any]) -> list[Any]:
    items = schema.get("items")
    return list(items if isinstance(items, list) else schema.get("prefixItems", ()))


def _item(schema: dict[str, Any], index: int) -> Any:
    prefix = _prefix(schema)
    return prefix[index] if index < len(prefix) else _further_items(schema)


def _further_items(schema: dict[str, Any]) -> Any:
    items = schema.get("items", True)
    return schema.get("additionalItems", True) if isinstance(items, list) else items


def _property_schemas(schema: dict[str, Any], name: str) -> Iterator[Any]:
    found = [
        *([schema["properties"][name]] if name in schema.get("properties", {}) else []),
        *(
            part
            for pattern, part in schema.get("patternProperties", {}).items()
            if re.search(pattern, name)
        ),
    ]
    yield from found or [schema.get("additionalProperties", True)]
