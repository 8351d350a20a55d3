"""The mutants of a Python module, made from its syntax tree.

They are changes of what functions do. Constants of modules and classes, and default values of
arguments, have no mutants: tests of their own compare them with what documents promise.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

#: Methods that assert invariants for the tests: a weaker assertion is no fault of the product.
_CHECKS = {"check", "check_invariants"}

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_NAMES = {"ceil_ms": "floor_ms", "floor_ms": "ceil_ms", "max": "min", "min": "max"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes:
        file: The module's path below the package.
        function: The qualified name of the outermost function around the change.
        line: The source line of the change, stripped.
        change: The change as "before -> after".
        lines: The first and the last line of the statement, of whose tests one has to fail.
        number: The number among the module's mutants.
    """

    file: str
    function: str
    line: str
    change: str
    lines: tuple[int, int]
    number: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names the mutant wherever its line moves."""
        return self.file, self.function, self.line, self.change

    def __str__(self) -> str:
        return f"{self.file}:{self.lines[0]} {self.function}\n    {self.line}\n    {self.change}"


@dataclass
class _Place:
    """Where a node hangs in the tree, and what comes there."""

    parent: ast.AST
    field: str
    index: int | None
    replacement: ast.AST


class Mutations:
    """All mutants of one module.

    Attributes:
        mutants: The mutants, in the order of the source.
    """

    def __init__(self, path: Path, file: str) -> None:
        """Make the mutants of the module at `path`, named `file` in reports."""
        self._path = path
        self._file = file
        source = path.read_text(encoding="utf-8")
        self._lines = source.splitlines()
        self._tree = ast.parse(source, str(path))
        self._places: list[_Place] = []
        self.mutants: list[Mutant] = []
        self._function = ""
        self._span = (1, 1)
        self._bound: set[str] = set()
        self._body(self._tree, "body", "")

    def code(self, number: int) -> CodeType:
        """Return the compiled module with one mutant in it; the module keeps the change."""
        place = self._places[number]
        if place.index is None:
            setattr(place.parent, place.field, place.replacement)
        else:
            getattr(place.parent, place.field)[place.index] = place.replacement
        ast.fix_missing_locations(self._tree)
        return compile(self._tree, str(self._path), "exec", dont_inherit=True)

    # -- the walk

    def _body(self, parent: ast.AST, field: str, scope: str) -> None:
        for index, statement in enumerate(getattr(parent, field)):
            self._statement(parent, field, index, statement, scope)

    def _statement(
        self, parent: ast.AST, field: str, index: int, node: ast.stmt, scope: str
    ) -> None:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            self._definition(node, scope)
            return
        if _is_left_alone(node):
            return
        self._span = _header(node)
        for replacement, text in _statement_changes(node, self._bound):
            self._add(_Place(parent, field, index, replacement), node, text)
        if isinstance(node, ast.Assign):
            self._bound.update(name.id for name in node.targets if isinstance(name, ast.Name))
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._expression(node, "value", None, node.value)
            return
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody", "handlers"):
                continue
            self._values(node, name, value)
        for name in ("body", "orelse", "finalbody"):
            if getattr(node, name, None):
                self._body(node, name, scope)
        for handler in getattr(node, "handlers", []):
            self._body(handler, "body", scope)

    def _definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: str
    ) -> None:
        outer = self._function, self._bound
        name = f"{scope}.{node.name}" if scope else node.name
        if isinstance(node, _FUNCTIONS):
            if node.name in _CHECKS:
                return
            if not self._function:
                self._function = name
                self._bound = set()
        self._body(node, "body", name)
        self._function, self._bound = outer

    def _values(self, parent: ast.AST, field: str, value: object) -> None:
        if isinstance(value, ast.AST):
            self._expression(parent, field, None, value)
        elif isinstance(value, list):
            for index, each in enumerate(value):
                if isinstance(each, ast.AST):
                    self._expression(parent, field, index, each)

    def _expression(self, parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue)):
            return  # Texts for people.
        changes = list(_expression_changes(node))
        if field == "test" and not isinstance(node, (ast.Compare, ast.UnaryOp)):
            changes.append(ast.UnaryOp(ast.Not(), node))  # type: ignore[arg-type]
        for replacement in changes:
            text = f"{ast.unparse(node)} -> {ast.unparse(replacement)}"
            self._add(_Place(parent, field, index, replacement), node, text)
        for name, value in ast.iter_fields(node):
            if name != "annotation":
                self._values(node, name, value)

    def _add(self, place: _Place, node: ast.AST, change: str) -> None:
        if not self._function:
            return  # Constants, which documents promise: tests of their own compare them.
        line = getattr(node, "lineno", self._span[0])
        ast.copy_location(place.replacement, node)
        self.mutants.append(
            Mutant(
                self._file,
                self._function,
                self._lines[line - 1].strip(),
                " ".join(change.split()),
                self._span,
                len(self._places),
            )
        )
        self._places.append(place)


def _is_left_alone(node: ast.stmt) -> bool:
    """Tell what has no mutants.

    Returns:
        True for docstrings, imports, assertions, and what only type checkers read.
    """
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if [ast.unparse(target) for target in targets] in (["__slots__"], ["__all__"], ["logger"]):
            return True
    return isinstance(
        node, (ast.Import, ast.ImportFrom, ast.Assert, ast.Global, ast.Nonlocal, ast.Pass)
    )


def _header(node: ast.stmt) -> tuple[int, int]:
    """Return the lines of a statement, of a compound one without its body."""
    body = getattr(node, "body", None)
    if isinstance(body, list):
        return node.lineno, max(node.lineno, body[0].lineno - 1)
    return node.lineno, node.end_lineno or node.lineno


def _statement_changes(node: ast.stmt, bound: set[str]) -> Iterator[tuple[ast.AST, str]]:
    text = ast.unparse(node)
    if isinstance(node, ast.Break):
        yield ast.Continue(), "break -> continue"
    elif isinstance(node, ast.Continue):
        yield ast.Break(), "continue -> break"
    elif isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield ast.Return(ast.Constant(None)), f"{text} -> return None"
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        changed = copy.copy(node)
        changed.op = _ARITHMETIC[type(node.op)]()
        yield changed, f"{text} -> {ast.unparse(changed)}"
    if _is_removable(node, bound):
        # `if 0:` keeps what the compiler derives from the statement: cells, locals, generators.
        yield ast.If(ast.Constant(0), [node], []), f"{text} -> (nothing)"


def _is_removable(node: ast.stmt, bound: set[str]) -> bool:
    """Tell a statement without which the function still makes sense.

    A name that is not bound is found by any test.

    Returns:
        True if it can be left out.
    """
    if isinstance(node, ast.Assign):
        return all(
            isinstance(target, (ast.Attribute, ast.Subscript))
            or (isinstance(target, ast.Name) and target.id in bound)
            for target in node.targets
        )
    if isinstance(node, ast.AnnAssign):
        return node.value is not None and isinstance(node.target, ast.Attribute)
    if isinstance(node, ast.Return):
        return node.value is None
    return isinstance(node, (ast.Expr, ast.AugAssign, ast.Delete, ast.Raise))


def _expression_changes(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator in _COMPARISONS[type(node.ops[0])]:
            yield ast.Compare(node.left, [operator()], node.comparators)
    elif isinstance(node, ast.Compare):
        for index, old in enumerate(node.ops):
            for operator in _COMPARISONS[type(old)]:
                ops = list(node.ops)
                ops[index] = operator()
                yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BinOp):
        if type(node.op) in _ARITHMETIC and not _is_text(node):
            yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            rest = node.values[:index] + node.values[index + 1 :]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, (int, float)):
            yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Name) and node.id in ("min", "max"):
        yield ast.Name(_NAMES[node.id], ast.Load())
    elif isinstance(node, ast.Attribute) and node.attr in ("floor_ms", "ceil_ms"):
        yield ast.Attribute(node.value, _NAMES[node.attr], ast.Load())


def _is_text(node: ast.BinOp) -> bool:
    """Tell a sum of texts from one of numbers.

    Returns:
        True if one side is a text.
    """
    return any(
        isinstance(side, (ast.JoinedStr, ast.Constant))
        and not isinstance(getattr(side, "value", None), (int, float))
        for side in (node.left, node.right)
    )
