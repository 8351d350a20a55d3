"""The wrong calls: which there are, by the signatures of what is called, and how one is made."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.misuse.hostile_values import HOSTILE
from tests.misuse.subjects import (
    CALLABLES,
    INSTANCES,
    LOOP_INSTANCES,
    PARTS,
    RIGHT,
    RIGHT_FOR,
    UNINITIALIZED,
    WAITING,
    World,
)

#: Methods with two underscores that users call, mostly by a statement.
SPECIAL = (
    *("__enter__", "__exit__", "__aenter__", "__aexit__", "__call__"),
    *("__copy__", "__deepcopy__", "__reduce__", "__repr__", "__str__"),
)

RIGHT_ARGUMENTS = "right"
NO_ARGUMENT = "no argument"
ONE_MORE = "one more argument"
UNKNOWN_KEYWORD = "unknown keyword"

#: Ways to use a member.
CALL, GET, SET = "call", "get", "set"

#: The hostile values to which attributes are set.
SET_TO = ("None", "-1", "2**64", "1.5", "str", "object")


@dataclass(frozen=True)
class Call:
    """One call, as text: a child process makes the objects of it.

    Attributes:
        subject: The name of what is called, or of the object that has the member.
        member: The method or attribute; empty where the subject itself is called.
        use: CALL, GET or SET.
        parameter: The parameter that gets a hostile value, or one of the constants above.
        value: The hostile value's name.
    """

    subject: str
    member: str
    use: str
    parameter: str
    value: str = ""

    def __str__(self) -> str:
        target = f"{self.subject}.{self.member}" if self.member else self.subject
        if self.use == GET:
            return target
        if self.use == SET:
            return f"{target} = {self.value}"
        return f"{target}({self.parameter}{'=' if self.value else ''}{self.value})"


def members(instance: object) -> Iterator[tuple[str, str]]:
    """Yield the public members of an object that this package defines, and their use."""
    kind = type(instance)
    own = [base for base in kind.__mro__ if base.__module__.startswith("request_purgatory")]
    for name in dir(kind):
        static = inspect.getattr_static(kind, name, None)
        if name.startswith("_") and name not in SPECIAL:
            continue
        if name.startswith("node_"):
            continue  # The links of the interpreted build, which have no names when compiled.
        if not any(name in vars(base) for base in own):
            continue
        if inspect.isdatadescriptor(static):
            yield name, GET
            yield name, SET
        elif callable(static) and "For this package only" not in (static.__doc__ or ""):
            yield name, CALL


def signature_of(target: Callable[..., Any]) -> inspect.Signature:
    """Return a signature; that of any arguments where the compiled build tells none."""
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        init = getattr(target, "__init__", None)
        if inspect.isclass(target) and init is not object.__init__:
            parameters = list(inspect.signature(init).parameters.values())[1:]  # type: ignore[arg-type]
            return inspect.Signature(parameters)
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])


def wrong_calls(
    subject: str, member: str, target: Callable[..., Any], values: Iterable[str]
) -> Iterator[Call]:
    """Yield the calls of one callable: the right one, and all wrong ones."""
    parameters = signature_of(target).parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    yield Call(subject, member, CALL, RIGHT_ARGUMENTS)
    if any(is_required(parameter) for parameter in parameters):
        yield Call(subject, member, CALL, NO_ARGUMENT)
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        yield Call(subject, member, CALL, ONE_MORE)
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        yield Call(subject, member, CALL, UNKNOWN_KEYWORD)
    for parameter in parameters:
        for value in values:
            yield Call(subject, member, CALL, parameter.name, value)


def is_required(parameter: inspect.Parameter) -> bool:
    """Return True if a call without the parameter is refused."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variable


def calls_of_instance(
    subject: str, instance: object, values: Iterable[str] = HOSTILE
) -> Iterator[Call]:
    """Yield the calls of an object's members."""
    for member, use in members(instance):
        if (subject, member) in WAITING:
            continue
        if use == GET:
            yield Call(subject, member, use, "")
        elif use == SET:
            for value in SET_TO:
                yield Call(subject, member, use, "", value)
        else:
            yield from wrong_calls(subject, member, getattr(instance, member), values)


def all_calls(world: World, loop_world: World) -> Iterator[Call]:
    """Yield every call.

    Args:
        world: An example of what the calls are made in, whose objects have the signatures.
        loop_world: The same, on an event loop.
    """
    for name, target in CALLABLES.items():
        yield from wrong_calls(name, "", target, () if is_record(target) else HOSTILE)
    for name, make in {**INSTANCES, **PARTS}.items():
        yield from calls_of_instance(name, make(world))
    for name, make in LOOP_INSTANCES.items():
        yield from calls_of_instance(name, make(loop_world))
    for name, make_new in UNINITIALIZED.items():
        yield from calls_of_instance(name, make_new(), ())


def is_record(target: object) -> bool:
    """Return True for a class whose objects keep what the package gives them, unchecked."""
    return dataclasses.is_dataclass(target) or (
        inspect.isclass(target) and issubclass(target, BaseException)
    )


def needs_loop(call: Call) -> bool:
    """Return True if the call is to be made on an event loop."""
    return call.subject in LOOP_INSTANCES or call.subject.startswith("aio.")


def make(call: Call, world: Any) -> Any:
    """Make a call.

    Returns:
        What it returned.
    """
    receiver: Any = None
    if not call.member:
        receiver = CALLABLES[call.subject]
    elif call.subject in UNINITIALIZED:
        receiver = UNINITIALIZED[call.subject]()
    else:
        receiver = {**INSTANCES, **PARTS, **LOOP_INSTANCES}[call.subject](world)
    if call.use == GET:
        return getattr(receiver, call.member)
    if call.use == SET:
        return setattr(receiver, call.member, HOSTILE[call.value]())
    target = getattr(receiver, call.member) if call.member else receiver
    positional, named = arguments_of(call, target, world)
    return target(*positional, **named)


def arguments_of(
    call: Call, target: Callable[..., Any], world: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments by position and by name."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    if call.parameter == NO_ARGUMENT:
        return positional, named
    for parameter in signature_of(target).parameters.values():
        is_hostile = parameter.name == call.parameter and call.value != ""
        if not is_hostile and not is_required(parameter):
            continue
        if is_hostile:
            value = HOSTILE[call.value]()
        else:
            right = RIGHT_FOR.get((call.member, parameter.name)) or RIGHT.get(parameter.name)
            value = None if right is None else right(world)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named["hostile"] = value
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY or not is_required(parameter):
            named[parameter.name] = value
        else:
            positional.append(value)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            del named[parameter.name]
            positional.append(value)
    if call.parameter == ONE_MORE:
        signature = signature_of(target)
        positional += [None] * (1 + len(signature.parameters) - len(positional))
    if call.parameter == UNKNOWN_KEYWORD:
        named["no_such_parameter"] = None
    return positional, named
