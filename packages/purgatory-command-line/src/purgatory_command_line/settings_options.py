"""Options made of settings dataclasses.

A settings dataclass says each option once: its name, type and default in the field, its help text
under `Attributes:` in the docstring. cyclopts can flatten a dataclass by itself, but looks for the
names and converters of options in the dataclass' annotations, and the settings do not import
cyclopts. `FieldsOf` has the names and converters instead.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from cyclopts import Group, Parameter
from docstring_parser import parse_from_object

from purgatory_command_line.converters import local_path, optional_whole_number, whole_number

F = TypeVar("F", bound=Callable[..., Any])
#: The values of a settings dataclass' fields that were given on the command line, by name.
Given = dict[str, Any]

#: What an option's type alone decides.
_BY_TYPE: Mapping[Any, Parameter] = {
    int: Parameter(converter=whole_number, metavar="N"),
    int | None: Parameter(converter=optional_whole_number, metavar="N"),
    float: Parameter(metavar="NUMBER"),
    float | None: Parameter(metavar="NUMBER"),
    Path: Parameter(converter=local_path, metavar="PATH"),
    Path | None: Parameter(converter=local_path, metavar="PATH"),
}


class _Converted:
    """In an annotation: keeps pydantic from checking what a converter has made of the text.

    cyclopts has it check values wherever a program has imported it, by the annotation's type.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, str]:
        return {"type": "any"}


#: Whole numbers from here on are shown with commas between thousands; ports are below.
_THOUSANDS_FROM = 100_000


@dataclass(frozen=True)
class FieldsOf:
    """Marks a command's parameter as standing for options made of a dataclass' fields.

    A parameter `Annotated[Settings, FieldsOf(Settings)]` gets an instance; a parameter
    `Annotated[Given, FieldsOf(Settings)]` gets the values that were given, by the fields' names.

    Attributes:
        settings: The dataclass.
        heading: The heading of the options in the help; none of their own if empty.
        headings: By field, the heading that begins with its option.
        only: The fields that become options; all unless given.
        without: Fields that do not become options.
        changes: By field, what its option has besides: a `Parameter` with another name, choices or
            a converter; or an annotation, where the command line has another type than the field.
        defaults: By field, the command's default where it differs from the field's.
    """

    settings: type
    heading: str = ""
    headings: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        names = self.only or tuple(setting.name for setting in fields(self.settings))
        return tuple(name for name in names if name not in self.without)

    def parameters(self, position: int) -> list[inspect.Parameter]:
        """Return the options as keyword-only parameters that cyclopts understands.

        `position` is that of the options' headings in the help.
        """
        hints = get_type_hints(self.settings, include_extras=True)
        helps = _field_helps(self.settings)
        heading = self.heading
        parameters = []
        for index, setting in enumerate(fields(self.settings)):
            if setting.name in self.headings or index == 0:
                heading = self.headings.get(setting.name, heading)
                group = Group(heading, sort_key=position + index / 1000)
            if setting.name in self.names:
                extras = [Parameter(help=helps.get(setting.name))]
                extras += [Parameter(group=group)] if heading else []
                parameters.append(self._parameter(setting, hints[setting.name], *extras))
        return parameters

    def _parameter(self, setting: Field[Any], hint: Any, *extras: Parameter) -> inspect.Parameter:
        default = self.defaults.get(setting.name, _default(setting))
        metadata = [*extras, Parameter(show_default=_show_default(default))]
        if hint is bool and default is True:
            metadata.append(Parameter(negative_bool="no-"))
        change = self.changes.get(setting.name)
        if change is None or isinstance(change, Parameter):
            metadata += [
                parameter for parameter in (_BY_TYPE.get(hint), change) if parameter is not None
            ]
        else:
            hint, *others = get_args(change)
            metadata += others
        return inspect.Parameter(
            setting.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[(hint, *metadata)],
        )


def with_settings_options(function: F) -> F:
    """Replace a command's parameters that are marked with `FieldsOf` by the options they stand for.

    The function that is returned makes the settings of what it is called with.
    """
    hints = get_type_hints(function, include_extras=True)
    marked: dict[str, FieldsOf] = {}
    parameters: list[inspect.Parameter] = []
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        hint = hints[parameter.name]
        marks = [mark for mark in get_args(hint)[1:] if isinstance(mark, FieldsOf)]
        if marks and get_origin(hint) is Annotated:
            marked[parameter.name] = marks[0]
            parameters += marks[0].parameters(position)
        else:
            parameters.append(parameter.replace(annotation=hint))

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        for name, fields_of in marked.items():
            given = {option: options.pop(option) for option in fields_of.names if option in options}
            as_given = get_args(hints[name])[0] == Given
            options[name] = (
                given if as_given else fields_of.settings(**{**fields_of.defaults, **given})
            )
        return function(*arguments, **options)

    parameters = [
        each.replace(annotation=Annotated[each.annotation, _Converted()]) for each in parameters
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command  # type: ignore[return-value]


def option_type(hint: Any) -> Any:
    """Return a type with the converter that options of the type have."""
    return Annotated[hint, _BY_TYPE[hint]] if hint in _BY_TYPE else hint


def _default(setting: Field[Any]) -> Any:
    if setting.default is not MISSING:
        return setting.default
    if setting.default_factory is not MISSING:
        return setting.default_factory()
    return inspect.Parameter.empty


def _show_default(default: Any) -> bool | Callable[[Any], str]:
    """Return what `Parameter.show_default` is for a default.

    It is False for what the absence of an option means anyway: no value, and no flag.
    """
    if default is None or default is False or default in ("", (), [], {}):
        return False
    return _as_typed


def _as_typed(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int) and value >= _THOUSANDS_FROM:
        return f"{value:,}"
    return str(value)


def _field_helps(settings: type) -> dict[str, str]:
    """Return the fields' help texts: their entries under `Attributes:` in the docstring.

    Fields that they mention become options: `available_now` becomes `--available-now`.
    """
    names = "|".join(setting.name for setting in fields(settings))
    helps = {}
    for entry in parse_from_object(settings).params:
        text = " ".join((entry.description or "").split())
        text = re.sub(
            rf"`({names})`", lambda match: f"`--{match.group(1).replace('_', '-')}`", text
        )
        text = re.sub(r"\bNone\b", "none", text)  # as it is typed
        helps[entry.arg_name] = text[:1].upper() + text[1:]
    return helps
