"""Each command line of the documentation is one that the command, or the Makefile, knows."""

from __future__ import annotations

import re

import pytest
from cyclopts import CycloptsError

import purgatory_broker_command
import purgatory_command
from purgatory_spark._spark.workers import _REMEDY
from tests.docs import snippets

#: Made from the commands' own help, with `[OPTIONS]` in its lines.
GENERATED = ("docs/reference/command.md", "docs/reference/broker_command.md")
APPS = {
    "purgatory": purgatory_command.make_app,
    "purgatory-broker": purgatory_broker_command.make_app,
}
#: Lines that are what a reader types: in pages, and in the two documents of the repository.
DOCUMENTS = [*snippets.pages(), "CONTRIBUTING.md", "examples/docker/README.md"]


def command_lines(program: str) -> list[tuple[str, list[str]]]:
    """Return the arguments of each line that starts a program, with its page."""
    return [
        (page, words[1:])
        for page in DOCUMENTS
        if page not in GENERATED
        for words in snippets.commands(page)
        if words[0] == program
    ]


@pytest.mark.parametrize(
    ("program", "page", "arguments"),
    [(program, *line) for program in APPS for line in command_lines(program)],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:40],
)
def test_command_line_is_understood(program: str, page: str, arguments: list[str]) -> None:
    """Nothing is run."""
    try:
        APPS[program]().parse_args(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        pytest.fail(f"{page}: {program} {' '.join(arguments)}: {error}")


def test_there_are_command_lines() -> None:
    """Of all kinds."""
    assert len(command_lines("purgatory")) >= 20
    assert len(command_lines("purgatory-broker")) > 5
    assert len(command_lines("make")) > 10


def test_targets_of_make_exist() -> None:
    """Each word without a `=` is a target."""
    makefile = (snippets.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page, arguments in command_lines("make"):
        named = {word for word in arguments if "=" not in word and "/" not in word}
        assert named <= targets, f"{page}: make {' '.join(arguments)}"


def test_archive_has_one_name() -> None:
    files = [*snippets.pages(), "Makefile"]
    texts = [(snippets.ROOT / file).read_text(encoding="utf-8") for file in files]
    texts += [_REMEDY, *[entry.example for entry in purgatory_command.COMMANDS]]
    found = {name for text in texts for name in re.findall(r"[\w/.-]+\.tar\.gz(?=[#\s`])", text)}
    assert found == {"dist/purgatory.tar.gz"}
