"""Writes the Python module of an API: its messages, their readers and its response's writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.protocol.schema import (
    CODES,
    SIZES,
    UUID_BYTES,
    Field,
    Message,
    Struct,
    Versions,
    snake_case,
)
from tools.protocol.walk import error_response, subject_functions

_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
    "uuid": "UUID | None",
}
#: The letters of the struct module's codes in names of constants.
_LETTERS = {"?": "T", "b": "B", "h": "H", "H": "U", "i": "I", "I": "J", "q": "Q", "d": "D"}
#: Names that readers use themselves.
_USED = {"count", "reader", "version", "tag", "out", "data", "value", "tagged"}


def module(request: Message, response: Message, overrides: Mapping[str, Any], kafka: str) -> str:
    """Return the module of an API. Its formatting is left to ruff."""
    name = request.name.removesuffix("Request")
    _rename(request.struct, response.struct)
    secrets = frozenset(overrides.get("secrets", ()))
    code = _Code(secrets)
    structs = {struct.name: struct for struct in request.struct.structs()}
    own = {struct.name: struct for struct in response.struct.structs()}
    lines = [f'"""The messages of {name}.', "", f"Made from Kafka {kafka}'s schemas: do not edit."]
    lines += ['"""', "", *_IMPORTS, ""]
    body: list[str] = []
    for struct in (structs | own).values():
        body += code.data_class(struct)
    for struct in (structs | own).values():
        body += code.reader(struct)
    for struct in own.values():
        body += code.writer(struct)
    body += error_response(request.struct, response.struct, overrides)
    subjects, arguments = subject_functions(request.struct, overrides)
    body += subjects
    flexible = request.struct.flexible
    names = ", ".join(f'"{secret}"' for secret in sorted(secrets))
    body += [
        "",
        f"{snake_case(name).upper()}_MESSAGES = ApiMessages(",
        f"key={request.key},",
        f'name="{name}",',
        f"versions=({request.struct.versions.first}, {request.struct.versions.last}),",
        f"flexible_since={None if flexible.is_empty else flexible.first},",
        f"request={request.name},",
        f"response={response.name},",
        f"read_request={_function('read', request.struct)},",
        f"read_response={_function('read', response.struct)},",
        f"write_response={_function('write', response.struct)},",
        "error_response=_error_response,",
        *(f"fields={{{_partial_fields(structs | own)}}},",),
        *arguments,
        *([f"secrets=frozenset({{{names}}}),"] if secrets else []),
        ")",
    ]
    return "\n".join([*lines, *code.constants(), *body]) + "\n"


_IMPORTS = (
    "from __future__ import annotations",
    "import struct",
    "from collections.abc import Iterable, Iterator",
    "from uuid import UUID",
    "from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct",
    "from purgatory_broker._wire.api_messages import NamedTopic",
    "from purgatory_broker._wire.reader import Reader, refused_tag",
    "from purgatory_broker._wire.writer import Writer, not_null",
)


def _rename(request: Struct, response: Struct) -> None:
    """Rename structs of both messages that have one name and different fields."""
    ours = {struct.name: struct for struct in request.structs()}
    theirs = {struct.name: struct for struct in response.structs()}
    for name in ours.keys() & theirs.keys():
        if ours[name].layout != theirs[name].layout:
            for message, prefix in ((request, "Request"), (response, "Response")):
                for struct in message.structs():
                    if struct.name == name:
                        struct.name = prefix + name


def _partial_fields(structs: Mapping[str, Struct]) -> str:
    """Return the fields that only some versions of their struct have, as code."""
    classes = []
    for struct in structs.values():
        fields = ", ".join(
            f'"{each.attribute}": ({each.versions.first}, {each.versions.last})'
            for each in struct.fields
            if not each.versions.covers(struct.versions)
        )
        if fields:
            classes.append(f"{struct.name}: {{{fields}}}")
    return ", ".join(classes)


def _function(verb: str, struct: Struct) -> str:
    return f"_{verb}_{snake_case(struct.name)}"


def _type(each: Field) -> str:
    kind = each.struct.name if each.struct is not None else _TYPES.get(each.type, "int")
    if each.is_array:
        kind = f"list[{kind}]"
    absent = each.struct is not None and not each.is_array
    if (not each.nullable.is_empty or absent) and "None" not in kind:
        kind += " | None"
    return kind


def _default(each: Field) -> str:
    """Return the default as code: None for a struct and for an id, which is one of zeros."""
    default = each.default
    if each.is_array:
        return "None" if default == "null" else "NEW_LIST"
    if each.struct is not None or each.type == "uuid" or default == "null":
        return "None"
    if each.type == "string":
        return f'"{default or ""}"'
    if each.type in ("bytes", "records"):
        return 'b""'
    if each.type == "bool":
        return str(default in (True, "true"))
    if each.type == "float64":
        return str(float(default or 0))
    return str(int(str(default or 0), 0))


def _condition(versions: Versions, among: Versions) -> str | None:
    """Return the test for some versions among others, as code; None if all of them pass."""
    if versions.covers(among):
        return None
    if versions.last >= among.last:
        return f"version >= {versions.first}"
    if versions.first <= among.first:
        return f"version <= {versions.last}"
    return f"{versions.first} <= version <= {versions.last}"


def _variable(each: Field) -> str:
    return each.attribute + "_" * (each.attribute in _USED)


def _runs(fields: Iterable[Field]) -> Iterator[list[Field]]:
    """Yield consecutive fields of fixed sizes together, and each other field alone."""
    run: list[Field] = []
    for each in fields:
        if each.code is not None:
            run.append(each)
            continue
        if run:
            yield run
            run = []
        yield [each]
    if run:
        yield run


def _layouts(run: list[Field], among: Versions) -> list[tuple[Versions, list[Field]]]:
    """Return the fields of a run by versions, the newest ones first."""
    starts = {among.first}
    for each in run:
        starts |= {each.versions.first, each.versions.last + 1}
    firsts = sorted(start for start in starts if start in among)
    layouts = [
        (Versions(first, last), [each for each in run if first in each.versions])
        for first, last in zip(
            firsts, [*(first - 1 for first in firsts[1:]), among.last], strict=True
        )
    ]
    return layouts[::-1]


def _chain(branches: list[tuple[Versions, list[str]]]) -> list[str]:
    """Return an if-chain over versions, the newest ones first; a branch may have no statement."""
    if len(branches) == 1:
        return branches[0][1]
    lines: list[str] = []
    keyword = "if"
    for index, (versions, statements) in enumerate(branches):
        is_last = index == len(branches) - 1
        if is_last and not statements:
            break
        lines.append("else:" if is_last else f"{keyword} version >= {versions.first}:")
        lines += [f"    {statement}" for statement in statements or ["pass"]]
        keyword = "elif"
    return lines


def _under(condition: str | None, statements: list[str]) -> list[str]:
    if condition is None:
        return statements
    return [f"if {condition}:", *(f"    {statement}" for statement in statements)]


def _merged(lines: list[str]) -> list[str]:
    """Return statements where consecutive ones with the same condition are under one of it."""
    merged: list[str] = []
    condition = ""
    for line in lines:
        if line == condition:
            continue
        merged.append(line)
        if not line.startswith(" "):
            is_test = line.startswith("if version")
            condition = line if is_test else ""
    return merged


@dataclass
class _Code:
    """The code of a module, with the formats that it uses."""

    #: The names of fields that are not shown.
    _secrets: frozenset[str]
    _formats: set[str] = field(default_factory=set)

    def constants(self) -> list[str]:
        return [f'{_name(code)} = struct.Struct(">{code}")' for code in sorted(self._formats)]

    def _constant(self, fields: list[Field]) -> str:
        code = "".join(each.code or "" for each in fields)
        self._formats.add(code)
        return _name(code)

    def data_class(self, struct: Struct) -> list[str]:
        # Each import of the broker makes these classes. `dataclass` would compile a constructor for
        # each, which takes ten times as long as loading this one.
        names = [each.attribute for each in struct.fields]
        hidden = [name for name in names if name in self._secrets]
        lines = ["", "", f"class {struct.name}(MessageStruct):"]
        lines += [f'    """{struct.name} of Kafka."""', "", f"    __slots__ = {_tuple(names)}"]
        lines += [f"    {each.attribute}: {_type(each)}" for each in struct.fields]
        if hidden:
            lines.append(f"    hidden_fields = {_tuple(hidden)}")
        if not names:
            return lines
        parameters = [
            f"{each.attribute}: {_type(each)} = {_default(each)}" for each in struct.fields
        ]
        lines += ["", f"    def __init__(self, {', '.join(parameters)}) -> None:"]
        for name, each in zip(names, struct.fields, strict=True):
            value = (
                f"[] if {name} is NEW_LIST else {name}" if _default(each) == "NEW_LIST" else name
            )
            lines.append(f"        self.{name} = {value}")
        return lines

    # -- reading

    def reader(self, struct: Struct) -> list[str]:
        lines: list[str] = []
        for each in struct.fields:
            if each.tag is not None or not each.versions.covers(struct.versions):
                default = _default(each)
                if default == "NEW_LIST":
                    default = "[]"
                lines.append(f"{_variable(each)}: {_type(each)} = {default}")
        for run in _runs(struct.untagged):
            if run[0].code is None:
                lines += self._read_one(run[0], struct)
            else:
                lines += self._read_run(run, struct)
        lines += self._read_tagged(struct)
        arguments = ", ".join(map(_variable, struct.fields))
        lines.append(f"return {struct.name}({arguments})")
        begin = f"def {_function('read', struct)}(reader: Reader, version: int) -> {struct.name}:"
        return ["", "", begin, *(f"    {line}" for line in _merged(lines))]

    def _read_run(self, run: list[Field], struct: Struct) -> list[str]:
        branches = []
        for versions, fields in _layouts(run, struct.versions):
            statements = []
            if fields:
                targets = ", ".join(map(_variable, fields)) + "," * (len(fields) == 1)
                target = f"({targets})" if len(fields) == 1 else targets
                format_ = self._constant(fields)
                size = sum(SIZES[each.code or ""] for each in fields)
                statements = [
                    f"{target} = {format_}.unpack_from(reader.frame, reader.position)",
                    f"reader.position += {size}",
                ]
            branches.append((versions, statements))
        return _chain(branches)

    def _read_one(self, each: Field, struct: Struct) -> list[str]:
        if each.is_array and each.struct is not None and each.nullable.is_empty:
            # A comprehension is a call of its own before Python 3.12.
            size = each.struct.wire_bytes()
            element = f"{_function('read', each.struct)}(reader, version)"
            statements = [
                f"{_variable(each)}: {_type(each)} = []",
                f'for _ in range(reader.count("{each.attribute}", {size})):',
                f"    {_variable(each)}.append({element})",
            ]
            if not each.versions.covers(struct.versions):
                del statements[0]  # It is empty before.
            return _under(_condition(each.versions, struct.versions), statements)
        statement = f"{_variable(each)} = {_read(each, struct.versions)}"
        return _under(_condition(each.versions, struct.versions), [statement])

    def _read_tagged(self, struct: Struct) -> list[str]:
        if (struct.flexible & struct.versions).is_empty:
            return []
        statements = ["reader.skip_tagged_fields()"]
        if struct.tagged:
            statements = ["for _ in range(reader.tagged_fields()):", "    tag = reader.tag()"]
            keyword = "if"
            among = struct.flexible & struct.versions
            for each in struct.tagged:
                condition = _condition(each.versions, among)
                test = f"tag == {each.tag}" + (f" and {condition}" if condition else "")
                statements.append(f"    {keyword} {test}:")
                statements.append(f"        {_variable(each)} = {self._read_value(each)}")
                keyword = "elif"
                if condition:
                    # Kafka skips tags that it does not know, and refuses those of other versions.
                    statements.append(f"    elif tag == {each.tag}:")
                    statements.append("        raise refused_tag(tag, version)")
            statements += ["    else:", "        reader.skip_value()"]
        return _under(_condition(struct.flexible, struct.versions), statements)

    def _read_value(self, each: Field) -> str:
        if each.code is not None:
            return f"reader.unpack({self._constant([each])})[0]"
        return _read(each, each.versions)

    # -- writing

    def writer(self, struct: Struct) -> list[str]:
        lines: list[str] = []
        for run in _runs(struct.untagged):
            if run[0].code is None:
                lines += self._write_one(run[0], struct)
                continue
            branches = []
            for versions, fields in _layouts(run, struct.versions):
                statements = []
                if fields:
                    values = ", ".join(f"data.{each.attribute}" for each in fields)
                    statements = [f"out += {self._constant(fields)}.pack({values})"]
                branches.append((versions, statements))
            lines += _chain(branches)
        lines += self._write_tagged(struct)
        begin = f"def {_function('write', struct)}"
        arguments = f"out: Writer, data: {struct.name}, version: int"
        return [
            "",
            "",
            f"{begin}({arguments}) -> None:",
            *(f"    {line}" for line in _merged(lines)),
        ]

    def _write_one(self, each: Field, struct: Struct) -> list[str]:
        return _under(
            _condition(each.versions, struct.versions), self._write(each, "out", struct.versions)
        )

    def _write(self, each: Field, out: str, among: Versions) -> list[str]:
        """Return the statements that write a field in the versions that have it."""
        value = f"data.{each.attribute}"
        if each.code is not None:
            return [f"{out} += {self._constant([each])}.pack({value})"]
        present = each.versions & among
        if each.nullable.is_empty:
            return _write_present(each, out, value)
        null = _write_null(each, out)
        checked = f'not_null({value}, "{each.attribute}")'
        if each.nullable.covers(present):
            return _write_nullable(each, out, value, null)
        if each.type == "string" and not each.is_array:
            test = _condition(each.nullable, present)
            return [
                f"if {test}:",
                f"    {out}.nullable_string({value})",
                "else:",
                f"    {out}.string({checked})",
            ]
        raise NotImplementedError(f"{each}: written with null in some versions only")

    def _write_tagged(self, struct: Struct) -> list[str]:
        among = struct.flexible & struct.versions
        if among.is_empty:
            return []
        statements = ["out.append(0)"]
        if struct.tagged:
            statements = ["tagged: list[tuple[int, bytes | bytearray]] = []"]
            for each in struct.tagged:
                value = f"data.{each.attribute}"
                test = f"{value} != {_default(each)}"
                if _default(each) == "None":
                    test = f"{value} is not None"
                elif each.is_array:
                    test = value
                elif each.type == "bool":
                    test = value if _default(each) == "False" else f"not {value}"
                condition = _condition(each.versions, among)
                statements.append(f"if {f'{condition} and ' if condition else ''}{test}:")
                statements.append("    value = out.value()")
                statements += [f"    {line}" for line in self._write_tagged_value(each)]
                statements.append(f"    tagged.append(({each.tag}, value))")
            statements += [
                "if tagged:",
                "    out.tagged_fields(tagged)",
                "else:",
                "    out.append(0)",
            ]
        return _under(_condition(struct.flexible, struct.versions), statements)

    def _write_tagged_value(self, each: Field) -> list[str]:
        if each.struct is not None and not each.is_array:
            return [f"{_function('write', each.struct)}(value, data.{each.attribute}, version)"]
        return self._write(each, "value", each.versions)


def _tuple(names: Iterable[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return f"({', '.join(quoted)}{',' * (len(quoted) == 1)})"


def _name(code: str) -> str:
    return "_" + "".join(_LETTERS[letter] for letter in code)


def _read(each: Field, among: Versions) -> str:
    """Return the expression that reads a field in the versions that have it."""
    present = each.versions & among
    if each.nullable.is_empty:
        return _read_value(each, nullable=False)
    if each.nullable.covers(present):
        return _read_value(each, nullable=True)
    test = _condition(each.nullable, present)
    nullable = _read_value(each, nullable=True)
    return f"({nullable}) if {test} else {_read_value(each, nullable=False)}"


def _read_value(each: Field, *, nullable: bool) -> str:
    prefix = "nullable_" if nullable else ""
    name = f'"{each.attribute}"'
    if each.struct is not None:
        element = f"{_function('read', each.struct)}(reader, version)"
        if not each.is_array:
            return f"{element} if reader.is_present() else None" if nullable else element
        size = each.struct.wire_bytes()
        if nullable:
            return (
                f"None if (count := reader.nullable_count({name}, {size})) < 0 "
                f"else [{element} for _ in range(count)]"
            )
        return f"[{element} for _ in range(reader.count({name}, {size}))]"
    if each.is_array:
        if each.type == "string":
            return f"reader.{prefix}strings({name})"
        if each.type == "uuid":
            return f"[reader.topic_id({name}) for _ in range(reader.count({name}, {UUID_BYTES}))]"
        code = CODES[each.type]
        return f'reader.{prefix}numbers({name}, "{code}", {SIZES[code]})'
    if each.type == "string":
        return f"reader.{prefix}string({name})"
    if each.type == "uuid":
        return f"reader.topic_id({name})"
    return f"reader.{prefix}blob({name})"


def _write_null(each: Field, out: str) -> str:
    if each.struct is not None and not each.is_array:
        return f'{out} += b"\\xff"'
    return f"{out}.length(-1)"


def _write_nullable(each: Field, out: str, value: str, null: str) -> list[str]:
    if not each.is_array and each.struct is None:
        kind = "string" if each.type == "string" else "blob"
        return [f"{out}.nullable_{kind}({value})"]
    begin = [f"if {value} is None:", f"    {null}", "else:"]
    present = _write_present(each, out, value)
    if each.struct is not None and not each.is_array:
        present = [f'{out} += b"\\x01"', *present]
    return [*begin, *(f"    {line}" for line in present)]


def _write_present(each: Field, out: str, value: str) -> list[str]:
    if each.struct is not None:
        write, element = _function("write", each.struct), snake_case(each.struct.name)
        if not each.is_array:
            return [f'{write}({out}, not_null({value}, "{each.attribute}"), version)']
        return [
            f"{out}.length(len({value}))",
            f"for {element} in {value}:",
            f"    {write}({out}, {element}, version)",
        ]
    if each.is_array:
        if each.type == "string":
            return [f"{out}.strings({value})"]
        return [f'{out}.numbers({value}, "{CODES[each.type]}")']
    if each.type == "string":
        return [f"{out}.string({value})"]
    if each.type == "uuid":
        return [f"{out}.topic_id({value})"]
    return [f"{out}.blob({value})"]
