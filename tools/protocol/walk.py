"""Writes what follows from the names of fields: error responses, and what a request names.

A response repeats what the request names, such as topics and partitions, each with an error code.
What differs in Kafka is in `overrides.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tools.protocol.schema import Field, Struct, snake_case

#: Fields that identify an element of an array, under the names that they have; each line is one
#: meaning.
_IDENTITIES = (
    ("name", "topic", "topic_name"),
    ("topic_id",),
    ("index", "partition", "partition_index", "partition_id"),
    ("group_id",),
    ("key",),
    ("resource_type",),
    ("resource_name",),
    ("entity_type",),
    ("entity_name",),
    ("user", "name"),
)
_ERROR_CODE = "error_code"
_PARTITIONS = frozenset(_IDENTITIES[2])


def _same(response: Field, request: Field) -> bool:
    """Return whether fields of a request and of its response identify the same thing."""
    names = {response.attribute, request.attribute}
    return response.type == request.type and any(names <= set(same) for same in _IDENTITIES)


def _has_error(struct: Struct) -> bool:
    return any(
        each.attribute == _ERROR_CODE or (each.struct is not None and _has_error(each.struct))
        for each in struct.fields
    )


# -- error responses


def error_response(request: Struct, response: Struct, overrides: Mapping[str, Any]) -> list[str]:
    """Return the function that makes the response with an error for every part of a request."""
    made = _ErrorResponse(overrides).make(response, request, "request", depth=0)
    return [
        "",
        "",
        f"def _error_response(request: {request.name}, code: int) -> {response.name}:",
        f"    return {made}",
    ]


@dataclass
class _ErrorResponse:
    overrides: Mapping[str, Any]

    def make(self, response: Struct, request: Struct | Field, source: str, depth: int) -> str:
        """Return a struct of the response as code; `source` is its part of the request."""
        values = self.overrides.get("error", {})
        arguments = []
        for each in response.fields:
            given = values.get(f"{response.name}.{each.attribute}")
            if given is not None:
                value: str | None = given
            elif each.attribute == _ERROR_CODE:
                value = "code"
            elif each.is_array and each.struct is not None:
                value = self._array(each, response, request, source, depth)
            else:
                value = _identity(each, request, source) if depth else None
            if value is not None:
                arguments.append(f"{each.attribute}={value}")
        return f"{response.name}({', '.join(arguments)})"

    def _array(
        self, each: Field, response: Struct, request: Struct | Field, source: str, depth: int
    ) -> str | None:
        assert each.struct is not None
        if self.overrides.get("top_level_error") or isinstance(request, Field):
            return None
        if not _has_error(each.struct) and not _repeats(each, request):
            return None
        names = self.overrides.get("parts", {}).get(f"{response.name}.{each.attribute}")
        arrays = [field for field in request.fields if field.is_array]
        if names is not None:
            arrays = [field for field in arrays if field.attribute in names]
        elif any(field.attribute == each.attribute for field in arrays):
            arrays = [field for field in arrays if field.attribute == each.attribute]
        if not arrays:
            return None
        if len(arrays) > 1 and names is None:
            raise ValueError(f"{response.name}.{each.attribute}: of {[a.name for a in arrays]}?")
        parts = [self._parts(each.struct, array, source, depth) for array in arrays]
        return f"[{parts[0]}]" if len(parts) == 1 else f"[{', '.join(f'*({p})' for p in parts)}]"

    def _parts(self, struct: Struct, array: Field, source: str, depth: int) -> str:
        element = _element(array)
        inner: Struct | Field = array if array.struct is None else array.struct
        made = self.make(struct, inner, element, depth + 1)
        name = element if re.search(rf"\b{element}\b", made) else "_"
        elements = f"{source}.{array.attribute}"
        if not array.nullable.is_empty:
            elements = f"({elements} or ())"
        return f"{made} for {name} in {elements}"


def _element(array: Field) -> str:
    return "value" if array.struct is None else snake_case(array.struct.name)


def _identity(response: Field, request: Struct | Field, source: str) -> str | None:
    if isinstance(request, Field):
        # An element of an array of strings or numbers, which is nothing but the identity.
        is_identity = any(response.attribute in same for same in _IDENTITIES)
        return source if is_identity and response.type == request.type else None
    for each in request.fields:
        if not each.is_array and _same(response, each):
            value = f"{source}.{each.attribute}"
            if response.type == "string" and not response.nullable.covers(each.nullable):
                return f'{value} or ""'
            return value
    return None


def _repeats(each: Field, request: Struct) -> bool:
    """Return whether an array of the response is one of the request's, as it is."""
    assert each.struct is not None
    for field in request.fields:
        if field.attribute == each.attribute and field.struct is not None:
            theirs = field.struct.fields
            return all(any(_same(mine, its) for its in theirs) for mine in each.struct.fields)
    return False


# -- subjects


def subject_functions(request: Struct, overrides: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the functions that find what a request names, and the arguments that pass them."""
    lines: list[str] = []
    arguments: list[str] = []
    ignored = frozenset(overrides.get("unnamed", ()))
    topics, with_partitions = _topics(request, "request", ignored)
    if topics:
        lines += ["", "", f"def _topics(request: {request.name}) -> Iterator[NamedTopic]:"]
        lines += [f"    {line}" for line in topics]
        arguments.append("topics=_topics,")
        if with_partitions:
            arguments.append("names_partitions=True,")
    for entity, name in (("groupId", "groups"), ("transactionalId", "transactional_ids")):
        values = list(_values(request, "request", entity, ignored))
        if values:
            lines += ["", "", f"def _{name}(request: {request.name}) -> Iterable[str]:"]
            lines.append(
                f"    return {values[0]}"
                if len(values) == 1
                else f"    return [{', '.join(f'*{value}' for value in values)}]"
            )
            arguments.append(f"{name}=_{name},")
    return lines, arguments


def _topics(struct: Struct, source: str, ignored: frozenset[str]) -> tuple[list[str], bool]:
    """Return the statements that yield the topics of a struct, and whether with partitions."""
    lines: list[str] = []
    has_partitions = False
    for each in struct.fields:
        if not each.is_array or each.attribute in ignored:
            continue
        element = _element(each)
        elements = f"{source}.{each.attribute}"
        if not each.nullable.is_empty:
            elements = f"{elements} or ()"
        if each.struct is None:
            if each.entity == "topicName":
                lines += [f"for name in {elements}:", "    yield NamedTopic(name, None)"]
            continue
        plain = [field for field in each.struct.fields if not field.is_array]
        name = next((field for field in plain if field.entity == "topicName"), None)
        topic_id = next((field for field in plain if field.attribute == "topic_id"), None)
        if name is None and topic_id is None:
            inner, found = _topics(each.struct, element, ignored)
            if inner:
                lines += [f"for {element} in {elements}:", *(f"    {line}" for line in inner)]
                has_partitions |= found
            continue
        values = [f"{element}.{f.attribute}" if f is not None else "None" for f in (name, topic_id)]
        partitions = _partitions(each.struct, element)
        if partitions is not None:
            has_partitions = True
            values.append(partitions)
        lines += [f"for {element} in {elements}:", f"    yield NamedTopic({', '.join(values)})"]
    return lines, has_partitions


def _partitions(topic: Struct, source: str) -> str | None:
    """Return the numbers of partitions of a topic's struct as code, if it has any."""
    for each in topic.fields:
        elements = f"{source}.{each.attribute}"
        if not each.is_array or not each.attribute.startswith("partition"):
            continue
        if each.struct is None:
            return elements
        for inner in each.struct.fields:
            if inner.attribute in _PARTITIONS:
                return f"[partition.{inner.attribute} for partition in {elements}]"
    return None


def _values(struct: Struct, source: str, entity: str, ignored: frozenset[str]) -> Iterator[str]:
    """Yield the lists of values of the fields of an entity as code."""
    for each in struct.fields:
        value = f"{source}.{each.attribute}"
        if each.attribute in ignored:
            continue
        if each.entity == entity:
            if each.is_array:
                yield value
            elif source == "request":
                # What a version does not have is empty.
                partial = not each.versions.covers(struct.versions)
                if partial or not each.nullable.is_empty:
                    yield f"([{value}] if {value} else [])"
                else:
                    yield f"[{value}]"
            else:
                yield value
        elif each.is_array and each.struct is not None and source == "request":
            element = _element(each)
            for inner in _values(each.struct, element, entity, ignored):
                yield f"[{inner} for {element} in {value}]"
