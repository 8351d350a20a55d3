"""Signatures, docstrings and annotations of the public interface, on either build.

The expected ones are read from the sources, which are installed beside the extension modules.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import pydoc
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import request_purgatory
import request_purgatory.aio
from request_purgatory import DelayedOperationPurgatory, PurgatoryMetrics
from request_purgatory._native import primitives
from request_purgatory.purgatory._holds_requests import DOCSTRINGS, HoldsRequests
from request_purgatory.purgatory._metric_table import OF_PURGATORIES

PACKAGE = Path(request_purgatory.__file__).parent
CONTEXT_METHODS = {"__enter__", "__exit__", "__aenter__", "__aexit__"}

#: Name, kind and default of each parameter. A default is compared by its `repr`.
Parameters = list[tuple[str, Any, str | None]]


def public_objects() -> Iterator[tuple[str, Any]]:
    for package in (request_purgatory, request_purgatory.aio):
        for name in package.__all__:
            found = getattr(package, name)
            if inspect.isclass(found) or inspect.isroutine(found):
                yield f"{package.__name__}.{name}", found


PUBLIC = dict(public_objects())
CLASSES = {name: found for name, found in PUBLIC.items() if inspect.isclass(found)}


@functools.cache
def source_of(module: str) -> ast.Module:
    path = PACKAGE.parent.joinpath(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    return ast.parse(file.read_text())


def class_source(kind: type) -> ast.ClassDef:
    return next(
        node
        for node in source_of(kind.__module__).body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )


def own_bases(kind: type) -> list[type]:
    """Return the class and its bases in this package, in the order of look-up."""
    return [base for base in kind.__mro__ if base.__module__.startswith("request_purgatory")]


def decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {
        ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in function.decorator_list
    }


@functools.cache
def is_c_only(kind: type, method: str) -> bool:
    """Return True if the compiled class has the method in C only, for this package.

    Its declaration is beside these tests: wheels leave it out.
    """
    sources = Path(__file__).parents[2] / "src"
    path = sources.joinpath(*kind.__module__.split(".")).with_suffix(".pxd")
    return path.exists() and bool(
        re.search(rf"^    cdef (\w+ )*{method}\(", path.read_text(), re.MULTILINE)
    )


def functions_of(kind: type) -> dict[str, tuple[ast.FunctionDef | ast.AsyncFunctionDef, type]]:
    """Return the source of each method and property, with the class that defines it."""
    found: dict[str, tuple[ast.FunctionDef | ast.AsyncFunctionDef, type]] = {}
    for base in own_bases(kind):
        for node in class_source(base).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not decorators(node) & {
                "overload",
                "setter",
            }:
                found.setdefault(node.name, (node, base))
    return found


def public_functions() -> Iterator[tuple[str, type, str]]:
    for name, kind in CLASSES.items():
        for method, (_, base) in functions_of(kind).items():
            if is_c_only(base, method):
                continue
            if not method.startswith("_") or method in CONTEXT_METHODS:
                yield f"{name}.{method}", kind, method


MEMBERS = {name: (kind, member) for name, kind, member in public_functions()}
METHODS = {
    name: (kind, member)
    for name, (kind, member) in MEMBERS.items()
    if not decorators(functions_of(kind)[member][0]) & {"property", "cached_property"}
}
PROPERTIES = {name: found for name, found in MEMBERS.items() if name not in METHODS}


def expected_parameters(
    function: ast.FunctionDef | ast.AsyncFunctionDef, module: ModuleType, drop_first: bool
) -> Parameters:
    arguments = function.args

    def parameter(
        argument: ast.arg, kind: Any, default: ast.expr | None
    ) -> tuple[str, Any, str | None]:
        value = None
        if default is not None:
            value = repr(eval(ast.unparse(default), dict(vars(module))))
        return argument.arg, kind, value

    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    found = [
        parameter(
            argument,
            inspect.Parameter.POSITIONAL_ONLY
            if argument in arguments.posonlyargs
            else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default,
        )
        for argument, default in zip(positional, defaults, strict=True)
    ]
    if drop_first:
        del found[0]
    if arguments.vararg is not None:
        found.append(parameter(arguments.vararg, inspect.Parameter.VAR_POSITIONAL, None))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(parameter(argument, inspect.Parameter.KEYWORD_ONLY, default))
    if arguments.kwarg is not None:
        found.append(parameter(arguments.kwarg, inspect.Parameter.VAR_KEYWORD, None))
    return found


def parameters_of(signature: inspect.Signature) -> Parameters:
    return [
        (
            parameter.name,
            parameter.kind,
            None if parameter.default is inspect.Parameter.empty else repr(parameter.default),
        )
        for parameter in signature.parameters.values()
    ]


def expected_constructor(kind: type) -> Parameters | None:
    """Return the parameters of a class; None if a base outside of this package has them."""
    if dataclasses.is_dataclass(kind):
        return [
            (node.target.id, inspect.Parameter.POSITIONAL_OR_KEYWORD, None)
            for node in class_source(kind).body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ]
    if "__init__" in functions_of(kind):
        function, base = functions_of(kind)["__init__"]
        return expected_parameters(function, sys.modules[base.__module__], drop_first=True)
    outside = {base for base in kind.__mro__ if base not in own_bases(kind)}
    return [] if outside == {object} else None


@functools.cache
def autospec(kind: type) -> Any:
    return mock.create_autospec(kind)


def test_table_has_the_public_interface() -> None:
    assert {"request_purgatory.SystemTimer", "request_purgatory.aio.Purgatory"} <= CLASSES.keys()
    assert "request_purgatory.SystemTimer.call_later_ms" in METHODS
    assert "request_purgatory.TimerTask.delay_ms" in PROPERTIES
    assert len(METHODS) > 60


@pytest.mark.parametrize("name", CLASSES)
def test_constructor_has_the_signature_of_its_source(name: str) -> None:
    expected = expected_constructor(CLASSES[name])
    if expected is not None:
        assert parameters_of(inspect.signature(CLASSES[name])) == expected


@pytest.mark.parametrize("name", METHODS)
def test_method_has_the_signature_of_its_source(name: str) -> None:
    kind, member = METHODS[name]
    source, base = functions_of(kind)[member]
    is_static = "staticmethod" in decorators(source)
    loaded = getattr(kind, member)
    signature = inspect.signature(loaded)
    found = parameters_of(signature)
    if not is_static and not inspect.ismethod(loaded) and "classmethod" not in decorators(source):
        assert found.pop(0)[0] == "self"
    assert found == expected_parameters(
        source, sys.modules[base.__module__], drop_first=not is_static
    )
    if isinstance(loaded, FunctionType):
        assert signature.return_annotation == ast.unparse(source.returns or ast.Constant(None))


@pytest.mark.parametrize("name", CLASSES)
def test_class_has_the_docstring_of_its_source(name: str) -> None:
    kind = CLASSES[name]
    docstring = ast.get_docstring(class_source(kind)) or ""
    if kind is PurgatoryMetrics:  # The fields are described by the table that they are made from.
        fields = [f"    {metric.field}: {metric.meaning}" for metric in OF_PURGATORIES]
        docstring = "\n".join([docstring, "", "Attributes:", *fields])
    assert inspect.getdoc(kind) == docstring


@pytest.mark.parametrize("name", MEMBERS)
def test_member_has_the_docstring_of_its_source(name: str) -> None:
    kind, member = MEMBERS[name]
    source, _ = functions_of(kind)[member]
    documented = ast.get_docstring(source)
    if documented == f"As `HoldsRequests.{member}`.":
        documented = inspect.cleandoc(DOCSTRINGS[member] or "")
    if documented is not None:
        assert inspect.getdoc(inspect.getattr_static(kind, member)) == documented


@pytest.mark.parametrize("kind", [DelayedOperationPurgatory, request_purgatory.aio.Purgatory])
@pytest.mark.parametrize("member", DOCSTRINGS)
def test_requests_as_futures_are_described_once(kind: type, member: str) -> None:
    described = inspect.signature(getattr(HoldsRequests, member))
    found = inspect.signature(getattr(kind, member))
    assert parameters_of(found)[1:] == parameters_of(described)[1:]
    assert inspect.getdoc(getattr(kind, member)) == inspect.cleandoc(DOCSTRINGS[member] or "")


@pytest.mark.parametrize("name", PROPERTIES)
def test_property_is_a_data_descriptor(name: str) -> None:
    kind, member = PROPERTIES[name]
    assert inspect.isdatadescriptor(inspect.getattr_static(kind, member))


@pytest.mark.parametrize("name", PUBLIC)
def test_help_shows_nothing_of_the_compiler(name: str) -> None:
    text = pydoc.render_doc(PUBLIC[name], renderer=pydoc.plaintext)
    text = "".join(line for line in text.splitlines() if "__pyx_vtable__ = <capsule" not in line)
    assert "cython" not in text.lower()
    assert "__pyx" not in text


@pytest.mark.parametrize("name", CLASSES)
def test_autospec_rejects_a_wrong_constructor_call(name: str) -> None:
    kinds = {kind for _, kind, _ in expected_constructor(CLASSES[name]) or ()}
    if kinds and inspect.Parameter.VAR_KEYWORD not in kinds:
        with pytest.raises(TypeError):
            autospec(CLASSES[name])(no_such_parameter=1)


@pytest.mark.parametrize("name", METHODS)
def test_autospec_has_every_method(name: str) -> None:
    kind, member = METHODS[name]
    method = getattr(kind, member)
    double = getattr(autospec(kind), member)
    assert callable(double)
    kinds = {parameter.kind for parameter in inspect.signature(method).parameters.values()}
    if (
        isinstance(method, FunctionType)
        and inspect.Parameter.VAR_KEYWORD not in kinds
        and member not in CONTEXT_METHODS
    ):
        with pytest.raises(TypeError):
            double(no_such_parameter=1)


@pytest.mark.skipif(not primitives.COMPILED, reason="interpreted, docstrings are Python's")
def test_method_has_no_made_up_docstring_without_docstrings() -> None:
    program = "import request_purgatory as r; print(r.DelayedOperationPurgatory.renew.__doc__)"
    printed = subprocess.run(
        [sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == "As `HoldsRequests.renew`."


@pytest.mark.skipif(not primitives.COMPILED, reason="interpreted, signatures are Python's")
def test_class_without_a_signature_is_left_alone() -> None:
    """On a CPython without docstrings, the methods of C classes have none."""
    from request_purgatory._native import class_signatures

    no_signature = SimpleNamespace(__text_signature__=None)
    kind = type("Kind", (), {"__doc__": None, "__init__": no_signature, "renew": no_signature})
    class_signatures._add_signature(kind)
    class_signatures.document(kind)
    assert kind.__doc__ is None


@pytest.mark.parametrize("name", PUBLIC)
def test_type_hints_of_classes_can_be_resolved(name: str) -> None:
    typing.get_type_hints(PUBLIC[name])


@pytest.mark.parametrize("name", METHODS)
def test_type_hints_of_methods_can_be_resolved(name: str) -> None:
    kind, member = METHODS[name]
    hints = typing.get_type_hints(getattr(kind, member))
    source, _ = functions_of(kind)[member]
    if isinstance(getattr(kind, member), FunctionType):
        assert ("return" in hints) == (source.returns is not None)
