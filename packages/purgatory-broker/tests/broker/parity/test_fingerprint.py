"""The hashes that tell when a case must be observed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.broker.parity.cases import all_cases
from tests.broker.parity.fingerprint import Fingerprints, read_source
from tests.broker.parity.observed import Observed

_CASE = """
from typing import Any
from tests.broker.shared import helper as help_out, Shared
from tests.broker import kept

LIMIT = 5
OTHER = 6

def look(harness):
    return help_out(harness, LIMIT), _inner()

def _inner():
    return [Shared().method(), kept.value]

def another(harness):
    return OTHER
"""
_SHARED = """
_TIMES = {1: 2}
_UNUSED = 1

def helper(harness, limit):
    return limit * _TIMES[1]

class Shared:
    def method(self):
        return "text"
"""
_KEPT = """
value = 1
"""
SOURCES = {
    "tests.broker.case": _CASE,
    "tests.broker.shared": _SHARED,
    "tests.broker": "",
    "tests.broker.kept": _KEPT,
}
CASES = {case.name: case for case in all_cases()}
#: With what was hashed before, so that each definition is read once.
AS_IT_IS = Fingerprints()
CASE = ("tests.broker.case", "look")


def _hash(module: str = "case", old: str = "", new: str = "") -> str:
    """Return the case's hash after one text of one module was replaced."""
    name = f"tests.broker.{module}"
    assert old in SOURCES[name]
    return Fingerprints((SOURCES | {name: SOURCES[name].replace(old, new)}).__getitem__).of(CASE)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("case", "LIMIT = 5", "LIMIT = 7"),
        ("case", "help_out(harness, LIMIT)", "help_out(harness, LIMIT + 1)"),
        ("case", "value]", "value, 1]"),
        ("case", "def look", "@print\ndef look"),
        ("case", "def look(harness)", "def look(harness=3)"),
        ("case", "LIMIT = 5", "LIMIT = 5\nprint(1)"),
        ("case", "LIMIT = 5", "LIMIT = 5\nLIMIT += 1"),
        ("case", "LIMIT = 5", "LIMIT = 5\nLIMIT[0] = 1"),
        ("shared", "{1: 2}", "{1: 3}"),
        ("shared", "limit *", "limit +"),
        ("shared", '"text"', '"another text"'),
        ("shared", "def helper", "async def helper"),
        ("kept", "value = 1", "value = 2"),
    ],
)
def test_change_of_used_code_changes_the_hash(module: str, old: str, new: str) -> None:
    assert _hash(module, old, new) != _hash()


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("case", "LIMIT = 5", "# In seconds.\nLIMIT  =  (5)  # five"),
        ("case", "def look(harness):", 'def look(harness: Any) -> Any:\n    """Look."""'),
        ("case", "from typing import Any", '"""A module."""\nimport json'),
        ("case", "OTHER = 6", "OTHER = 7"),
        ("case", "return OTHER", "return None"),
        ("shared", "_UNUSED = 1", "_UNUSED = 2"),
        ("shared", "class Shared:", 'class Shared:\n    """A class."""\n'),
        ("shared", "def method(self):", "def method(self) -> str:"),
        (
            "shared",
            "return limit * _TIMES[1]",
            "return (\n        limit * _TIMES[1]  # twice\n    )",
        ),
    ],
)
def test_irrelevant_change_keeps_the_hash(module: str, old: str, new: str) -> None:
    assert _hash(module, old, new) == _hash()


def test_moving_a_helper_keeps_the_hash() -> None:
    shared = _SHARED.replace("_TIMES = {1: 2}", "from tests.broker.times import _TIMES")

    def moved(times: str) -> str:
        sources = SOURCES | {"tests.broker.shared": shared, "tests.broker.times": times}
        return Fingerprints(sources.__getitem__).of(CASE)

    assert moved("_TIMES = {1: 2}") == _hash()
    assert moved("_TIMES = {1: 3}") == _hash("shared", "{1: 2}", "{1: 3}") != _hash()


def test_reexported_name_is_followed() -> None:
    passed_on = "from tests.broker.values import value as LIMIT\nfrom typing import Any as Shared\n"
    case = _CASE.replace("LIMIT = 5", "from tests.broker.between import LIMIT, Shared")

    def of(value: int) -> str:
        added = {"case": case, "between": passed_on, "values": f"value = {value}"}
        return Fingerprints(
            (SOURCES | {f"tests.broker.{name}": text for name, text in added.items()}).__getitem__
        ).of(CASE)

    assert of(1) == of(1) != of(2)


@pytest.mark.parametrize("statement", ["from . import kept", "import tests.broker.kept"])
def test_import_that_cannot_be_followed_is_an_error(statement: str) -> None:
    with pytest.raises(AssertionError, match="can't be followed"):
        _hash("case", "LIMIT = 5", f"LIMIT = 5\n{statement}")


def test_missing_definition_is_an_error() -> None:
    with pytest.raises(LookupError, match="defines no nothing"):
        Fingerprints(SOURCES.__getitem__).of(("tests.broker.case", "nothing"))


def _changed(read: Callable[[str], str], names: Iterable[str]) -> set[str]:
    """Return which of these cases are others with these sources."""
    return _kept(names).changed([CASES[name] for name in names], Fingerprints(read))


def _kept(names: Iterable[str]) -> Observed:
    return Observed(hashes={name: AS_IT_IS.of_case(CASES[name]) for name in names})


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("tests.broker.kafka_server", 'VERSION = "4.', 'VERSION = "5.'),
        (
            "tests.broker.kafka_server",
            '"offsets.topic.num.partitions": 4',
            '"offsets.topic.num.partitions": 5',
        ),
        (
            "tests.broker.kafka_server",
            "auto.leader.rebalance.enable=false",
            "auto.leader.rebalance.enable=true",
        ),
        ("tests.broker.kafka_server", "-Xmx256m", "-Xmx512m"),
        ("tests.broker.parity.real", "nodes=3", "nodes=4"),
        ("tests.broker.parity.case_harness", "def until", "def until_"),
        ("tests.broker.parity.raw", "TIME_LIMIT = 30.0", "TIME_LIMIT = 31.0"),
        ("tests.broker.parity.observation", '"session_id", ', '"session", '),
        (
            "purgatory_broker._wire.error_code",
            "OFFSET_OUT_OF_RANGE = 1",
            "OFFSET_OUT_OF_RANGE = 2",
        ),
    ],
)
def test_shared_code_changes_every_hash(module: str, old: str, new: str) -> None:
    """Kafka's version, its settings, and the client; one case stands for all."""

    def read(name: str) -> str:
        source = read_source(name)
        if name == module:
            assert old in source
            source = source.replace(old, new)
        return source

    assert _changed(read, ["create_no_topics"]) == {"create_no_topics"}


def test_code_of_members_changes_the_hashes_of_their_cases() -> None:
    def read(name: str) -> str:
        source = read_source(name)
        return (
            source.replace("LONG_MS = 10_000", "LONG_MS = 11_000")
            if name == "tests.broker.parity.members"
            else source
        )

    changed = _changed(read, CASES)
    assert {"fetch_at_the_end_waits", "create_partitions"}.isdisjoint(changed)
    assert 20 < len(changed) < len(CASES) / 2


def test_case_without_a_hash_counts_as_changed() -> None:
    kept = _kept(CASES)
    del kept.hashes["create_partitions"]
    assert kept.changed(CASES.values(), AS_IT_IS) == {"create_partitions"}
