"""The Hypothesis profiles apply to every test, and print how to repeat a failure."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import tests
from tests.support import profiles
from tests.support.profiles import examples, reproducing

#: The folders of the tests of all packages.
FOLDERS = [Path(folder) for folder in tests.__path__]


def test_only_the_profiles_make_settings() -> None:
    own = re.compile(
        r"\bderandomize\b|\bmax_examples\b|^from hypothesis import .*\bsettings\b", re.MULTILINE
    )
    found = {
        path.name
        for folder in FOLDERS
        for path in folder.rglob("*.py")
        if own.search(path.read_text())
    }
    assert found == {"profiles.py", "test_profiles.py"}


@pytest.mark.parametrize(
    ("profile", "count"), [("suite", 30), ("interpreted", 10), ("mutants", 6), ("explore", 600)]
)
def test_exploring_multiplies_the_examples(
    profile: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "PROFILE", profile)
    assert examples(30).max_examples == count
    assert examples(30, times=2).max_examples == min(count, 60)


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("tests/a.py::test_b", "tests/a.py::test_b"),
        ("tests/a.py::test_b[two words]", "tests/a.py::test_b[two words]"),
        ("tests/a.py::test_b[x]@spark", "tests/a.py::test_b[x]"),
    ],
)
def test_failing_test_is_repeated_by_one_command(test: str, name: str) -> None:
    (command,) = reproducing([test], 7)
    make, target, seed, arguments = shlex.split(command)
    assert (make, target, seed) == ("make", "explore", "SEED=7")
    assert shlex.split(arguments.removeprefix("ARGS=")) == [name]
    (command,) = reproducing([test], None)
    assert shlex.split(command)[-1] == name
