"""Hashes of what a record of Kafka depends on: the case, the code it uses, and Kafka's settings.

A definition is a function, a class or a constant of a module. A hash is taken over every
definition that can be reached by name from the case and from what starts Kafka, in the modules of
`FOLLOWED`. Comments, docstrings, formatting, and the annotations of arguments and results do not
count. The installed version of kafka-python does not count either: both brokers are used by
the same client, so a difference shows when this broker is compared with the record.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.parity.case import Case

#: The packages whose definitions are followed; whatever else is imported is taken as it is.
FOLLOWED = ("tests.broker", "purgatory_broker._wire")

#: A module, and the name of a definition in it.
Definition = tuple[str, str]
#: What every record depends on beside its case: what observes a case, and what starts Kafka.
EVERY_CASE = ("tests.broker.parity.case", "Case")
KAFKA_OF_THREE_NODES = ("tests.broker.parity.real", "kafka_of_three_nodes")


def read_source(module: str) -> str:
    """Return the source of a module that can be imported."""
    found = importlib.util.find_spec(module)
    assert found is not None, f"there is no module {module}"
    assert found.origin is not None, f"{module} has no source"
    return Path(found.origin).read_text()


@dataclass
class _Module:
    #: The statements that bind a name.
    definitions: dict[str, list[ast.stmt]] = field(default_factory=lambda: defaultdict(list))
    #: Names from other modules: the module, and the name there; None means the module itself.
    imported: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    #: What else is run with the import.
    loose: list[ast.stmt] = field(default_factory=list)


_Definition = tuple[str, str | None]


class Fingerprints:
    """Hashes definitions together with all that they use."""

    def __init__(self, read: Callable[[str], str] = read_source) -> None:
        """Take the sources of modules from `read`, which is given their dotted names."""
        self._read = read
        self._modules: dict[str, _Module] = {}
        self._parts: dict[_Definition, tuple[str, set[_Definition]]] = {}

    def of_case(self, case: Case, started_by: Definition = KAFKA_OF_THREE_NODES) -> str:
        """Return the hash of what the record of a case depends on."""
        return self.of((case.look.__module__, case.look.__name__), EVERY_CASE, started_by)

    def of(self, *definitions: tuple[str, str]) -> str:
        """Return the hash of definitions, each given by its module and its name.

        Raises:
            LookupError: A module has no such definition.
        """
        for module, name in definitions:
            if name not in self._module(module).definitions:
                raise LookupError(f"{module} defines no {name}")
        reached: set[_Definition] = set()
        waiting: list[_Definition] = list(definitions)
        while waiting:
            each = waiting.pop()
            if each not in reached:
                reached.add(each)
                waiting.extend(self._part(each)[1])
        # The sorted hashes of the definitions: their modules do not count.
        return _digest("\n".join(sorted({self._part(each)[0] for each in reached})))[:16]

    def _part(self, definition: _Definition) -> tuple[str, set[_Definition]]:
        """Return the hash of a definition or a whole module, and the definitions that it uses."""
        if definition not in self._parts:
            module, name = definition
            found = self._module(module)
            named = found.definitions.values() if name is None else [found.definitions[name]]
            statements = [each for several in named for each in several] + found.loose
            names = {
                node.id
                for each in statements
                for node in ast.walk(each)
                if isinstance(node, ast.Name)
            }
            used = {target for each in names if (target := self._resolve(module, each)) is not None}
            self._parts[definition] = (_digest("\n".join(_text(each) for each in statements)), used)
        return self._parts[definition]

    def _resolve(self, module: str, name: str) -> _Definition | None:
        """Return the definition that a module's name stands for, or None if it is not followed."""
        found = self._module(module)
        if name in found.definitions:
            return module, name
        source, original = found.imported.get(name, ("", None))
        if not _is_followed(source):
            return None
        known = self._module(source)
        if original is None or original in known.definitions:
            return source, original
        return (
            self._resolve(source, original)
            if original in known.imported
            else (f"{source}.{original}", None)
        )

    def _module(self, name: str) -> _Module:
        if name not in self._modules:
            self._modules[name] = _taken_apart(self._read(name))
        return self._modules[name]


def _is_followed(module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in FOLLOWED)


def _taken_apart(source: str) -> _Module:
    tree = _Cleaner().visit(ast.parse(source))
    made = _Module()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None, "a relative import can't be followed"
            made.imported |= {
                each.asname or each.name: (node.module, each.name) for each in node.names
            }
        elif isinstance(node, ast.Import):
            for each in node.names:
                assert each.asname or not _is_followed(each.name), (
                    f"import {each.name} can't be followed: use from"
                )
                made.imported[each.asname or each.name] = (each.name, None)
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            made.definitions[statement.name].append(statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for node in (node for target in targets for node in ast.walk(target)):
                # Also of `NAMES[0] += 1`, which changes the value of the name.
                if isinstance(node, ast.Name):
                    made.definitions[node.id].append(statement)
        elif not isinstance(statement, (ast.Import, ast.ImportFrom)):
            made.loose.append(statement)
    return made


class _Cleaner(ast.NodeTransformer):
    """Remove what changes nothing when the code runs."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Remove docstrings, and whatever else is a mere constant."""
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Remove an argument's annotation."""
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Remove the annotation of the result."""
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 (ast's name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(node: object) -> str:
    """Return a node as text; without what is empty, it is the same in each version of Python."""
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            shown = ", ".join(_text(each) for each in value)
            parts += [f"{name}=[{shown}]"] if shown else []
        elif value is not None and name not in ("ctx", "kind", "type_comment"):
            parts.append(f"{name}={_text(value)}")
    return f"({' '.join(parts)})"
