"""The profiles hold for every test, and what an exploration finds can be run again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support import profiles
from tests.support.profiles import examples, reproducing

TESTS = Path(__file__).resolve().parents[1]


def test_settings_are_made_by_the_profiles_alone() -> None:
    """A test with settings of its own would drop the multiplier, or look at the same examples for ever."""
    own = re.compile(
        r"\bderandomize\b|\bmax_examples\b|^from hypothesis import .*\bsettings\b", re.MULTILINE
    )
    found = {path.name for path in TESTS.rglob("*.py") if own.search(path.read_text())}
    assert found == {"profiles.py", "test_profiles.py"}


@pytest.mark.parametrize(("profile", "count"), [("suite", 30), ("explore", 600)])
def test_exploring_multiplies_the_examples(
    profile: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the profile's number, or by a test's own."""
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
def test_failing_test_is_named_in_one_command(test: str, name: str) -> None:
    """As a shell takes it, and then make's shell."""
    (command,) = reproducing([test], 7)
    make, target, seed, arguments = shlex.split(command)
    assert (make, target, seed) == ("make", "explore", "SEED=7")
    assert shlex.split(arguments.removeprefix("ARGS=")) == [name]
    (command,) = reproducing([test], None)
    assert shlex.split(command)[-1] == name
