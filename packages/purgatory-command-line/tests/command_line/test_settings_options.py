"""Options made of settings dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from cyclopts import App, Parameter

from purgatory_command_line.settings_options import FieldsOf, Given, with_settings_options


@dataclass(frozen=True)
class Settings:
    """Settings.

    Attributes:
        size: how many, unless `fast`.
        limit: The most.
        folder: A folder.
        fast: Whether to hurry.
        kept: Whether to keep it.
    """

    size: int = 1_000_000
    limit: int | None = None
    folder: Path | None = None
    fast: bool = False
    kept: bool = True


def call(fields_of: FieldsOf, *arguments: str, as_given: bool = False) -> Any:
    """Return what a command gets for arguments."""
    hint = Given if as_given else fields_of.settings

    def command(*, settings: Any) -> Any:
        return settings

    command.__annotations__ = {"settings": Annotated[hint, fields_of]}
    app = App(
        default_parameter=Parameter(negative_bool=(), negative_iterable=()),
        result_action="return_value",
    )
    app.default(with_settings_options(command))
    return app(arguments, exit_on_error=False, print_error=False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Settings()),
        (["--size", "2,000", "--limit", "3_000"], Settings(size=2000, limit=3000)),
        (["--limit", "none", "--folder", "a b"], Settings(folder=Path("a b"))),
        (["--fast", "--no-kept"], Settings(fast=True, kept=False)),
    ],
)
def test_settings_are_made_of_the_options(arguments: list[str], expected: Settings) -> None:
    assert call(FieldsOf(Settings), *arguments) == expected


def test_command_may_get_what_was_given() -> None:
    assert call(FieldsOf(Settings), "--fast", as_given=True) == {"fast": True}


def test_fields_can_be_left_out_renamed_and_given_another_default() -> None:
    fields_of = FieldsOf(
        Settings,
        without=("folder",),
        changes={"size": Parameter(name="--count")},
        defaults={"limit": 5},
    )
    assert call(fields_of, "--count", "2") == Settings(size=2, limit=5)
    assert [each.name for each in fields_of.parameters(0)] == ["size", "limit", "fast", "kept"]


def test_help_is_the_docstrings() -> None:
    size, *_ = FieldsOf(Settings).parameters(0)
    extras = Parameter.combine(*size.annotation.__metadata__)
    assert extras.help == "How many, unless `--fast`."
    assert extras.show_default(size.default) == "1,000,000"


def test_option_is_what_its_converter_makes_where_a_program_has_pydantic() -> None:
    pytest.importorskip("pydantic", reason="the check is pydantic's")

    def command(*, user: Any) -> Any:
        return user

    pairs = Parameter(converter=lambda _type, tokens: {each.value: "" for each in tokens})
    command.__annotations__ = {"user": Annotated[list[str], pairs]}
    app = App(result_action="return_value")
    app.default(with_settings_options(command))
    assert app(["--user", "a"], exit_on_error=False, print_error=False) == {"a": ""}
