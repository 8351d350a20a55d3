"""What one JSON Schema allows and another does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from purgatory_broker.schema_registry.formats.json_schema_format import JsonSchemaFormat
from purgatory_broker.schema_registry.formats.json_schema_inclusion import JsonSchema
from tests.support.profiles import examples

_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}
_LIST = {
    "$defs": {
        "node": {
            "anyOf": [
                {"type": "null"},
                {
                    "type": "object",
                    "properties": {"next": {"$ref": "#/$defs/node"}, "value": _INTEGER},
                    "additionalProperties": False,
                },
            ]
        }
    },
    "$ref": "#/$defs/node",
}

#: Both alternatives have the same property.
_ONE_OF_TWO = {
    "$defs": {"order": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "anyOf": [
        {"allOf": [{"$ref": "#/$defs/order"}, {"required": ["b"]}]},
        {"$ref": "#/$defs/order"},
    ],
}


def parsed(schema: Any, references: dict[str, str] | None = None) -> JsonSchema:
    return JsonSchemaFormat().parse(json.dumps(schema), references or {})


def problems(old: Any, new: Any) -> list[str]:
    return JsonSchemaFormat().incompatibilities(parsed(new), parsed(old))


def of_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def closed(**properties: Any) -> dict[str, Any]:
    return {**of_object(**properties), "additionalProperties": False}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (_LIST, _LIST),
        (False, _STRING),
        (_STRING, True),
        (_INTEGER, {"type": "number"}),
        (_STRING, {"type": ["string", "null"]}),
        (_STRING, {"anyOf": [_INTEGER, _STRING]}),
        ({"anyOf": [_INTEGER, _STRING]}, {"oneOf": [_STRING, _INTEGER]}),
        ({"enum": ["a", 1]}, {"type": ["string", "integer"]}),
        ({"const": "a"}, {"enum": ["a", "b"]}),
        ({"type": "string", "maxLength": 4}, {"type": "string", "maxLength": 5}),
        ({"type": "integer", "exclusiveMaximum": 4}, {"type": "integer", "maximum": 4}),
        ({"type": "integer", "minimum": 5}, {"type": "integer", "exclusiveMinimum": 4}),
        (closed(a=_STRING), closed(a=_STRING, b=_INTEGER)),
        (of_object(a=_STRING), of_object()),
        (of_object(), {**of_object(a={"default": 1}), "required": ["a"]}),
        ({"allOf": [_STRING, {"maxLength": 3}]}, {"type": "string", "maxLength": 4}),
        ({"items": _INTEGER}, {"items": {"type": "number"}}),
        ({"patternProperties": {"^a": _INTEGER}}, {"patternProperties": {"^a": {}}}),
        ({"not": {"type": "null"}}, {"not": {"type": "null"}}),
        ({"title": "a", "format": "date"}, {"title": "b", "format": "time"}),
    ],
)
def test_wider_schema_allows_what_the_other_does(old: Any, new: Any) -> None:
    assert problems(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (True, False, "# is not allowed any more"),
        ({"type": "number"}, _INTEGER, "# may not be of type number any more"),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, "the value 'b' of # is not allowed any more"),
        (_STRING, {"enum": ["a"]}, "# allows certain values only"),
        (_STRING, {"type": "string", "maxLength": 4}, "maxLength of # is stricter"),
        ({"minItems": 1}, {"minItems": 2}, "minItems of # is stricter"),
        (_INTEGER, {"type": "integer", "minimum": 0}, "minimum of # is stricter"),
        ({"maximum": 5}, {"exclusiveMaximum": 5}, "exclusiveMaximum of # is stricter"),
        ({"multipleOf": 2}, {"multipleOf": 4}, "multipleOf of # is stricter"),
        (_STRING, {"type": "string", "pattern": "a"}, "pattern of # was added or changed"),
        ({}, {"uniqueItems": True}, "uniqueItems of # is stricter"),
        (closed(a=_STRING), closed(), "#/a is not allowed any more"),
        (of_object(), of_object(a=_STRING), "#/a may not be of type"),
        (of_object(a=_STRING), {**of_object(a=_STRING), "required": ["a"]}, "#/a is required"),
        (of_object(a=_STRING), closed(a=_STRING), "#/* is not allowed any more"),
        ({"items": {"type": "number"}}, {"items": _INTEGER}, "#/items may not be of type number"),
        ({}, {"prefixItems": [_STRING]}, "#/0 may not be of type"),
        ({}, {"patternProperties": {"^a": _STRING}}, "#/^a may not be of type"),
        ({"anyOf": [_INTEGER, _STRING]}, _STRING, "# may not be of type integer any more"),
        (_STRING, {"anyOf": [_INTEGER, {"type": "null"}]}, "# has no alternative in anyOf"),
        ({}, {"not": {"type": "null"}}, "not of # was added or changed"),
        (
            _LIST,
            json.loads(json.dumps(_LIST).replace('"integer"', '"string"')),
            "# has no alternative in anyOf",
        ),
        # What was compared in vain is compared again.
        (of_object(a=_INTEGER), _ONE_OF_TWO, "# has no alternative in anyOf"),
        (
            {**of_object(a=_INTEGER), "anyOf": [{"minProperties": 1}, {"maxProperties": 2}]},
            of_object(a=_STRING),
            "#/a may not be of type integer any more",
        ),
        ({"anyOf": [{"$ref": "#"}, _STRING]}, _STRING, "# is too complex to compare"),
        ({"const": "a"}, {"$ref": "#"}, "the value 'a' of # is not allowed any more"),
    ],
)
def test_narrower_schema_is_told_with_its_place(old: Any, new: Any, problem: str) -> None:
    found = problems(old, new)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_schema_of_another_document_is_compared() -> None:
    schema = {"properties": {"by": {"$ref": "user.json#/$defs/user"}}}
    old, new = (
        parsed(schema, {"user.json": json.dumps({"$defs": {"user": user}})})
        for user in (_STRING, _INTEGER)
    )
    compare = JsonSchemaFormat().incompatibilities
    assert compare(old, old) == []
    assert compare(new, old) == ["#/by may not be of type string any more"]


def test_references_are_looked_up_in_their_own_document() -> None:
    other = {"$defs": {"t": _STRING}, "properties": {"b": {"$ref": "#/$defs/t"}}}
    old = {"$defs": {"t": _INTEGER}, "properties": {"a": {}}, "allOf": [{"$ref": "other.json"}]}
    found = JsonSchemaFormat().incompatibilities(
        parsed({"properties": {"b": _INTEGER}}), parsed(old, {"other.json": json.dumps(other)})
    )
    assert len(found) == 1
    assert found[0].startswith("#/b may not be of type")


NAMES = st.sampled_from(["a", "b", "ab"])
LIMITS = st.integers(0, 3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 4) | st.sampled_from(["", "a", "ab", "bbb", 1.5]),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(NAMES, parts, max_size=3),
    max_leaves=4,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _schemas(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), LIMITS),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), LIMITS),
        **dict.fromkeys(("minProperties", "maxProperties"), LIMITS),
        "multipleOf": st.sampled_from([1, 2, 4]),
        "pattern": st.sampled_from(["a", "^b"]),
        "uniqueItems": st.booleans(),
        **dict.fromkeys(("items", "additionalProperties", "not", "contains"), parts),
        "prefixItems": st.lists(parts, min_size=1, max_size=2),
        "properties": st.dictionaries(NAMES, parts, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), parts, max_size=2),
        "required": st.lists(NAMES, max_size=2, unique=True),
        **dict.fromkeys(("anyOf", "allOf"), st.lists(parts, min_size=1, max_size=2)),
        "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b"]),
    }
    return st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: fields[name] for name in chosen})
    )


PARTS = st.recursive(st.booleans() | _schemas(st.booleans()), _schemas, max_leaves=3)


@st.composite
def roots(draw: st.DrawFn) -> dict[str, Any]:
    root = draw(_schemas(PARTS))
    root["$defs"] = {"a": draw(PARTS), "b": draw(PARTS)}
    return root


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a schema and another one that is mostly like it."""
    old, other = draw(roots()), draw(roots())
    new = json.loads(json.dumps(old))
    for key in draw(st.lists(st.sampled_from(sorted({*old, *other} - {"$defs"}) or ["type"]))):
        if key in other:
            new[key] = other[key]
        else:
            new.pop(key, None)
    if draw(st.booleans()):
        new["$defs"]["a"] = other["$defs"]["a"]
    return (old, new) if draw(st.booleans()) else (new, old)


@examples(40)
@given(pair=changes(), values=st.lists(VALUES, min_size=6, max_size=6))
def test_what_is_included_is_valid_by_both(pair: tuple[Any, Any], values: list[Any]) -> None:
    old, new = map(parsed, pair)
    found = JsonSchemaFormat().incompatibilities(new, old)
    event("included" if not found else "not included")
    assume(not found)
    for value in values:
        try:
            if old.validator.is_valid(value):
                assert new.validator.is_valid(value), value
        except RecursionError:  # A schema that only refers to itself.
            assume(False)
