"""The loaded build of the core is the expected one."""

from __future__ import annotations

import importlib
import os
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import request_purgatory
from request_purgatory import InvalidArgumentError, TimerTask
from request_purgatory._native import primitives, states

CORE = (
    *("clock", "_native.parker", "_native.primitives"),
    *(
        "purgatory.core",
        "purgatory._counters",
        "purgatory.hold",
        "purgatory.hold_future",
        "legacy",
        "purgatory._nested_checks",
        "purgatory.operation",
        "purgatory._operation_chain",
        "purgatory.purgatory",
        "purgatory._put_off",
    ),
    *("purgatory._purge_backlog", "purgatory.watch_table"),
    *(
        "timer._bucket",
        "timer._delay_queue",
        "timer._sleeping_threads",
        "timer.task",
        "timer.timer",
        "timer.wheel",
    ),
    "aio._loop_handle",
)


def test_every_module_is_of_the_expected_build() -> None:
    found = "compiled" if request_purgatory.__compiled__ else "interpreted"
    expected = os.environ.get("REQUEST_PURGATORY_EXPECT", found)
    suffixes = {"interpreted": (".py",), "compiled": tuple(EXTENSION_SUFFIXES)}[expected]
    for name in CORE:
        file = importlib.import_module(f"request_purgatory.{name}").__file__
        assert file is not None
        assert file.endswith(suffixes), f"expected the {expected} build, found {file}"
    assert request_purgatory.__compiled__ == (expected == "compiled")


def test_constants_of_both_builds_agree() -> None:
    names = re.findall(r"^    ([A-Z_]+) = (\d+)$", source("_native/states.pxd"), re.MULTILINE)
    assert len(names) == 9
    assert all(getattr(states, name) == int(number) for name, number in names)
    assert (primitives.LIMIT, primitives.MAX_DELAY_MS, primitives.MAX_CHECK_DEPTH) == (
        2**62 - 1,
        10_000 * 31_557_600_000,
        20,
    )


@pytest.mark.parametrize("number", [0, 1, -1, 2**31, -(2**40), primitives.LIMIT, -primitives.LIMIT])
def test_delays_of_any_size_are_kept_or_clamped(number: int) -> None:
    if number > primitives.MAX_DELAY_MS:
        with pytest.raises(InvalidArgumentError, match=f"got {number}$"):
            TimerTask(number)
    else:
        assert TimerTask(number).delay_ms == number
    assert TimerTask(-(10**30)).delay_ms == -primitives.LIMIT
    with pytest.raises(
        InvalidArgumentError, match=r"at most 315576000000000 .10,000 years., got 1000000"
    ):
        TimerTask(10**30)


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, the tag is made in C")
def test_threads_a_page_or_a_stack_apart_have_tags_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = 0x7F12_3456_6700
    idents = [first, first + 0x1000, first + 0x80_0000]
    tags: set[int] = set()
    for ident in idents:
        monkeypatch.setattr(primitives, "get_ident", lambda ident=ident: ident)
        tags.add(primitives.thread_tag())
    assert len(tags) == len(idents)
    assert all(0 <= tag < 2**32 for tag in tags)


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, the numbers are in C only")
def test_numbers_are_kept_where_they_were_set() -> None:
    numbers = primitives.zeros(3)
    primitives.set_number(numbers, 1, -(2**62))
    primitives.count_at(numbers, 2)
    assert [primitives.number_at(numbers, index) for index in range(3)] == [0, -(2**62), 1]


def compiled_sources() -> list[Path]:
    """Return the sources of what is compiled, as the build names them."""
    root = Path(__file__).parents[2]
    if not (root / "setup.py").exists():
        pytest.skip("the sources are not here")
    modules = re.findall(
        r'^    "([a-z_/]+\.pyx?)",$', (root / "setup.py").read_text(), re.MULTILINE
    )
    return [root / "src" / "request_purgatory" / module for module in modules]


def test_compiled_code_gets_along_without_tracebacks() -> None:
    """Cython's handlers crash where there is no memory for a traceback (3.1 to 3.3.1).

    They release the traceback where they are left by `return`, `break` or `continue`, and a `with`
    statement passes it to `__exit__`, without a look whether there is one.
    """
    found: list[str] = []
    sources = compiled_sources()
    for path in sources:
        handlers: list[int] = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            statement = line.lstrip()
            indent = len(line) - len(statement)
            while handlers and statement and indent <= handlers[-1]:
                del handlers[-1]
            if re.match(r"with (?!(no)?gil\b).*:( *#.*)?$", statement) or (
                handlers and re.match(r"(return|break|continue)\b", statement)
            ):
                found.append(f"{path.name}:{number}: {statement}")
            if re.match(r"except\b.*:", statement):
                handlers.append(indent)
    assert len(sources) > 20
    assert found == []


def source(name: str) -> str:
    """Return a source file of the package, from the checkout or from where it was installed."""
    for folder in (
        Path(__file__).parents[2] / "src" / "request_purgatory",
        Path(request_purgatory.__file__).parent,
    ):
        if (folder / name).exists():
            return (folder / name).read_text()
    pytest.skip(f"{name} is not installed")
