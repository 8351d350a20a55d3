"""Mutations of a request: of its bytes, or of the values of its fields."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable
from typing import Any

from purgatory_broker._wire.apis import Api
from tests.broker.hostile.sample_requests import body, frame, sample_request, untagged_fields
from tests.broker.wire.schemas import request_class

#: Numbers at the limits of each type, and next to special values.
EXTREMES = {
    "int8": (-128, -1, 2, 127),
    "int16": (-32_768, -2, -1, 0, 2, 32_767),
    "int32": (-(2**31), -2, -1, 0, 1, 2**31 - 1),
    "int64": (-(2**63), -(2**62), -3, -2, -1, 0, 2**62, 2**63 - 1),
}
TEXTS = (
    "",
    " ",
    "\0",
    "²",
    "٣",
    "a" * 255,
    "é" * 300,
    "__consumer_offsets",
    "..",
    "1_0",
    "nan",
    "-1",
    "9" * 5_000,
    "a" * 32_767,
)
_LENGTHS = (
    struct.pack(">i", 2**31 - 1),
    struct.pack(">i", -(2**31)),
    struct.pack(">i", -1),
    struct.pack(">h", 32_767),
    struct.pack(">h", -1),
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\0",
)

Mutation = Callable[[random.Random, bytes], bytes]


def flip_bits(chance: random.Random, raw: bytes) -> bytes:
    """Change some bits."""
    changed = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def truncate(chance: random.Random, raw: bytes) -> bytes:
    """Remove the end."""
    return raw[: chance.randrange(len(raw) + 1)]


def extend(chance: random.Random, raw: bytes) -> bytes:
    """Append bytes."""
    return raw + chance.randbytes(chance.choice((1, 2, 7, 64)))


def lengthen(chance: random.Random, raw: bytes) -> bytes:
    """Replace bytes that may be a length by an extreme length."""
    length = chance.choice(_LENGTHS)
    at = chance.randrange(len(raw) + 1)
    return raw[:at] + length + raw[at + len(length) :]


def insert(chance: random.Random, raw: bytes) -> bytes:
    """Repeat a part."""
    begin = chance.randrange(len(raw) + 1)
    end = min(len(raw), begin + chance.randint(1, 16))
    return raw[:end] + raw[begin:end] * chance.choice((1, 2, 50)) + raw[end:]


def randomize(chance: random.Random, raw: bytes) -> bytes:
    """Replace a part by random bytes."""
    at = chance.randrange(len(raw) + 1)
    noise = chance.randbytes(chance.randint(1, 8))
    return raw[:at] + noise + raw[at + len(noise) :]


BYTE_MUTATIONS: tuple[Mutation, ...] = (flip_bits, truncate, extend, lengthen, insert, randomize)


def mutate_bytes(chance: random.Random, api: Api, version: int) -> bytes:
    """Return the frame of a sample with mutated bytes, mostly after API key and version."""
    raw = frame(api, version)
    kept = chance.choice((0, 4, 4, 4, 8, 17, 17))
    mutate = chance.choice(BYTE_MUTATIONS)
    return raw[:kept] + mutate(chance, raw[kept:])


def mutate_fields(chance: random.Random, api: Api, version: int, times: int = 1) -> bytes:
    """Return a frame that is well-formed, but has values that no client sends."""
    request = copy.deepcopy(sample_request(api, version))
    for _ in range(times):
        places: list[tuple[Any, Any]] = []
        _collect(request, request_class(api)._struct, version, places)
        if places:
            _mutate_field(chance, *chance.choice(places))
    try:
        return frame(api, version, body(api, version, request))
    except (struct.error, AttributeError, TypeError, ValueError):
        return mutate_bytes(chance, api, version)  # kafka-python can't encode the values.


def _collect(part: Any, struct_field: Any, version: int, places: list[tuple[Any, Any]]) -> None:
    for field in untagged_fields(struct_field, version):
        places.append((part, field))
        if field.is_struct_array():
            for each in getattr(part, field.name) or []:
                _collect(each, field, version, places)


def _mutate_field(chance: random.Random, part: Any, field: Any) -> None:
    value = getattr(part, field.name)
    kind = field._type_str.removeprefix("[]")
    if field.is_array():
        choices: list[Any] = [None, []]
        if value:
            choices.append(value[:1] * chance.choice((2, 300)))
        if not field.is_struct_array():
            choices += [
                [_element(chance, kind)],
                [_element(chance, kind)] * 2,
                [None] if kind == "string" else [],
            ]
        setattr(part, field.name, chance.choice(choices))
    elif kind in ("bytes", "records"):
        setattr(
            part,
            field.name,
            chance.choice(
                (
                    None,
                    b"",
                    chance.randbytes(61),
                    flip_bits(chance, value or b"\0"),
                    truncate(chance, value or b"\0"),
                )
            ),
        )
    elif kind != "uuid":
        setattr(
            part,
            field.name,
            None if kind == "string" and chance.random() < 0.2 else _element(chance, kind),
        )


def _element(chance: random.Random, kind: str) -> Any:
    if kind in EXTREMES:
        return chance.choice(EXTREMES[kind])
    if kind == "string":
        return chance.choice(TEXTS)
    return chance.choice((True, False)) if kind == "bool" else None
