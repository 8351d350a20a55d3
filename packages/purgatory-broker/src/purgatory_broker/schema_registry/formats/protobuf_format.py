"""Protobuf, as text or as the base64 of a file descriptor; confluent-kafka sends the latter."""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message import DecodeError

from purgatory_broker.schema_registry.formats.schema_format import References
from purgatory_broker.schema_registry.registry_error import InvalidSchemaError

#: Files that clients have, and do not register.
_KNOWN_FOLDERS = ("google/protobuf/", "google/type/", "confluent/")
_PROTOC_TIMEOUT_S = 30
_Field: TypeAlias = FieldDescriptorProto
#: The types of each group are the same on the wire. Enums and messages are compared by name.
_WIRE_GROUPS = (
    {
        _Field.TYPE_INT32,
        _Field.TYPE_INT64,
        _Field.TYPE_UINT32,
        _Field.TYPE_UINT64,
        _Field.TYPE_BOOL,
    },
    {_Field.TYPE_SINT32, _Field.TYPE_SINT64},
    {_Field.TYPE_FIXED32, _Field.TYPE_SFIXED32},
    {_Field.TYPE_FIXED64, _Field.TYPE_SFIXED64},
    {_Field.TYPE_STRING, _Field.TYPE_BYTES},
)
_TEXTS = {_Field.TYPE_STRING, _Field.TYPE_BYTES}


class ProtobufFormat:
    def canonical(self, text: str, *, normalize: bool) -> str:  # noqa: ARG002 - of the other formats
        return text.strip()

    def parse(self, text: str, references: References) -> FileDescriptorProto:
        return _parse(text, tuple(references.items()))

    def incompatibilities(
        self, reader: FileDescriptorProto, writer: FileDescriptorProto
    ) -> list[str]:
        read = dict(_messages("", reader.message_type))
        return [
            problem
            for name, message in _messages("", writer.message_type)
            for problem in (
                _message_problems(name, message, read[name])
                if name in read
                else [f"the message {name} was removed"]
            )
        ]


def serialized(file: FileDescriptorProto) -> str:
    """Return what clients call the serialized format of a schema."""
    return base64.b64encode(file.SerializeToString()).decode()


@lru_cache(maxsize=1_000)
def _parse(text: str, references: tuple[tuple[str, str], ...]) -> FileDescriptorProto:
    file = _descriptor(text)
    if file is None:
        return _compile(text, references)
    for name in file.dependency:
        if name not in dict(references) and not name.startswith(_KNOWN_FOLDERS):
            raise InvalidSchemaError(f"no reference is named {name!r}, which the schema imports")
    return file


def _descriptor(text: str) -> FileDescriptorProto | None:
    """Return the file descriptor that a text is the base64 of; None for any other text."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compile(text: str, references: tuple[tuple[str, str], ...]) -> FileDescriptorProto:
    with TemporaryDirectory() as name:
        folder = Path(name)
        descriptors = FileDescriptorSet()
        for reference, referenced in references:
            file = _descriptor(referenced)
            if file is not None:
                file.name = reference
                descriptors.file.append(file)
                continue
            path = (folder / reference).resolve()
            if not path.is_relative_to(folder.resolve()):
                raise InvalidSchemaError(f"the reference {reference!r} is outside of its folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(referenced)
        (folder / "schema.proto").write_text(text)
        given = folder / "given.descriptors"
        given.write_bytes(descriptors.SerializeToString())
        compiled = folder / "compiled.descriptors"
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{folder}"]
        command += [f"--descriptor_set_in={given}"] if descriptors.file else []
        command += [f"--descriptor_set_out={compiled}", "schema.proto"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROTOC_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise InvalidSchemaError(f"Invalid schema {text}: {done.stderr.strip()}")
        return FileDescriptorSet.FromString(compiled.read_bytes()).file[0]


def _messages(prefix: str, messages: Any) -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:
        name = f"{prefix}{message.name}"
        yield name, message
        yield from _messages(f"{name}.", message.nested_type)


def _message_problems(name: str, old: DescriptorProto, new: DescriptorProto) -> Iterator[str]:
    old_fields = {field.number: field for field in old.field}
    new_fields = {field.number: field for field in new.field}
    for number, field in new_fields.items():
        if number not in old_fields and field.label == _Field.LABEL_REQUIRED:
            yield f"the required field {name}.{field.name} was added"
    for number, field in old_fields.items():
        where = f"{name}.{field.name}"
        if number in new_fields:
            yield from _field_problems(where, field, new_fields[number])
        elif field.label == _Field.LABEL_REQUIRED:
            yield f"the required field {where} was removed"
        elif _oneof(old, field):
            yield f"the field {where} of a oneof was removed"
    yield from _moves_to_oneofs(name, old, new, old_fields)


def _field_problems(where: str, old: _Field, new: _Field) -> Iterator[str]:
    if not _same_on_the_wire(old, new):
        yield f"the type of {where} was changed"
    was_repeated, is_repeated = (each.label == _Field.LABEL_REPEATED for each in (old, new))
    if was_repeated != is_repeated and not {old.type, new.type} <= _TEXTS:
        yield f"{where} was changed between a single and a repeated field"


def _same_on_the_wire(old: _Field, new: _Field) -> bool:
    if old.type == new.type:
        return bool(old.type_name == new.type_name)
    return any({old.type, new.type} <= group for group in _WIRE_GROUPS)


def _moves_to_oneofs(
    name: str, old: DescriptorProto, new: DescriptorProto, old_fields: dict[int, _Field]
) -> Iterator[str]:
    before = {_oneof(old, field) for field in old.field}
    moved: dict[str, int] = {}
    for field in new.field:
        was = old_fields.get(field.number)
        oneof = _oneof(new, field)
        if oneof and was is not None and not _oneof(old, was):
            moved[oneof] = moved.get(oneof, 0) + 1
    for oneof, count in moved.items():
        if oneof in before or count > 1:
            yield f"{count} fields were moved into the oneof {name}.{oneof}"


def _oneof(message: DescriptorProto, field: _Field) -> str:
    """Return the name of a field's oneof; "" without one, as that of an optional field."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return str(message.oneof_decl[field.oneof_index].name)
