"""Mutants of what is only compiled: changes of the text of C headers and of Cython's modules.

`make .venv/.built` has to come first. A mutant is built in a copy of the package, the extensions
that it is in alone, and its tests run in a new process. A mutant of which the compiler makes the
same code is none: it is in a line for another Python, or changes nothing.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.equivalent import Equivalents
from tools.mutants.modules import CORE, SOURCES
from tools.mutants.mutations import Mutant

#: The copy, and what was built of it before any change.
COPY = Path("build/mutants/native")
GENERATED = CORE / "build/cython/src/request_purgatory"
#: Seconds for all tests of one mutant.
_TIME_LIMIT = 90.0

_TIMER_TESTS = [
    f"{CORE}/tests/unit/timer/test_{name}.py" for name in ("moments", "timer", "bucket")
]
_PURGATORY_TESTS = [
    f"{CORE}/tests/unit/purgatory/test_{name}.py"
    for name in ("watch_table", "closing", "tries", "purgatory", "leaks")
]


@dataclass(frozen=True)
class Native:
    """Where a source file is compiled, and who tests it.

    Attributes:
        extensions: The extension modules that are built anew, as paths below the package.
        tests: The tests, quickest first.
    """

    extensions: tuple[str, ...]
    tests: tuple[str, ...]


NATIVE = {
    "purgatory/watch_table.pyx": Native(
        ("purgatory/watch_table",),
        (*_PURGATORY_TESTS, f"{CORE}/tests/model/test_watch_table_model.py"),
    ),
    "_native/linked_list.h": Native(
        ("purgatory/watch_table", "timer/timer", "timer/wheel", "timer/task", "timer/_bucket"),
        (*_TIMER_TESTS, *_PURGATORY_TESTS),
    ),
    "_native/primitives.h": Native(
        ("purgatory/operation", "purgatory/core", "purgatory/_counters", "timer/timer"),
        (
            *_TIMER_TESTS,
            f"{CORE}/tests/unit/timer/test_task.py",
            f"{CORE}/tests/unit/purgatory/test_between_milliseconds.py",
            f"{CORE}/tests/unit/purgatory/test_counters.py",
            f"{CORE}/tests/unit/purgatory/test_nested_depth.py",
            f"{CORE}/tests/unit/purgatory/test_operation.py",
            f"{CORE}/tests/unit/purgatory/test_recursion_limit.py",
            *_PURGATORY_TESTS,
        ),
    ),
    "_native/hiding.pyx": Native(("_native/hiding",), tuple(_PURGATORY_TESTS[::-1])),
    "_native/hiding.h": Native(
        ("purgatory/core", "purgatory/_purge_backlog", "timer/timer"), tuple(_PURGATORY_TESTS[::-1])
    ),
    "_native/construction.pyx": Native(
        ("_native/construction",),
        (
            f"{CORE}/tests/unit/purgatory/test_construction.py",
            f"{CORE}/tests/unit/test_misuse.py",
            *_PURGATORY_TESTS,
        ),
    ),
}

#: Texts and what comes in their place, tried at each place where they are.
_CHANGES = (
    (r" == ", " != "),
    (r" != ", " == "),
    (r" <= ", " < "),
    (r" >= ", " > "),
    (r"(?<!<) < (?!<)", " <= "),
    (r"(?<!>) > (?!>)", " >= "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \+= ", " -= "),
    (r" -= ", " += "),
    (r" \|\| ", " && "),
    (r" && ", " || "),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"\bnot ", ""),
    (r"\bTrue\b", "False"),
    (r"\bFalse\b", "True"),
    (r"\breturn 0\b", "return 1"),
    (r"\breturn 1\b", "return 0"),
    (r"\bbreak\b", "continue"),
)
#: Statements of their own that can be left out.
_STATEMENT = re.compile(
    r"^\s*(?:self\._lock\.\w+\(\)|Py_\w+\(.*\)|[\w.>-]+\(.*\)|[\w.\[\]>-]+ [+-]?= [^=].*);?$"
)


def mutants_of(file: str) -> list[tuple[Mutant, str]]:
    """Return the mutants of a file, each with the changed text of the file."""
    text = (SOURCES / file).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    found = []
    for number in sorted(_code_lines(file, lines)):
        line = lines[number]
        for change, changed in _line_changes(line, is_c=file.endswith(".h")):
            mutant = Mutant(file, "", line.strip(), change, (number + 1, number + 1), len(found))
            found.append((mutant, "".join([*lines[:number], changed, *lines[number + 1 :]])))
    return found


def _code_lines(file: str, lines: list[str]) -> Iterator[int]:
    """Yield the lines that are inside of functions, and neither comments nor assertions."""
    comment = checks = False
    closing = "*/" if file.endswith(".h") else '"""'
    for number, line in enumerate(lines):
        stripped = line.strip()
        if comment:
            comment = closing not in line
        elif stripped.startswith(("/*", '"""')):
            comment = closing not in stripped[3:]
        elif re.match(r"\s*(cp?def|def|cdef class|static|class)\b", line) and "=" not in line:
            checks = "check_invariants" in line
        elif (
            not checks
            and line.startswith((" ", "\t"))
            and not stripped.startswith(
                (
                    "#",
                    "assert",
                    "from ",
                    "import ",
                    "typedef",
                    "cdef ",
                    "ctypedef",
                    "return self.",
                )
            )
        ):
            yield number


def _line_changes(line: str, *, is_c: bool) -> Iterator[tuple[str, str]]:
    code = line.split("#")[0] if not is_c else line
    for pattern, replacement in _CHANGES:
        for match in re.finditer(pattern, code):
            changed = line[: match.start()] + replacement + line[match.end() :]
            yield f"{match[0].strip()} -> {replacement.strip() or '(nothing)'}", changed
    if _STATEMENT.match(code.rstrip()):
        indent = line[: len(line) - len(line.lstrip())]
        yield f"{code.strip()} -> (nothing)", f"{indent}{';' if is_c else 'pass'}\n"


def prepare() -> None:
    """Copy the package with its extensions, to be changed there."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(
        SOURCES.parent, COPY, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )


def try_mutants(
    chosen: Iterable[tuple[Mutant, str]], deadline: float
) -> Iterator[tuple[Mutant, str, str]]:
    """Build and test mutants.

    Args:
        chosen: The mutants, with the texts of their files.
        deadline: When to begin no further one, by `time.monotonic`.

    Yields:
        Each mutant with its fate - "killed", "out of time", "survived", "same code", "does not
        compile" or "left out" - and the last line that pytest printed.
    """
    originals: dict[str, list[bytes]] = {}
    for mutant, text in chosen:
        if time.monotonic() > deadline:
            yield mutant, "left out", ""
            continue
        native = NATIVE[mutant.file]
        path = COPY / "request_purgatory" / mutant.file
        saved = {_library(name): _library(name).read_bytes() for name in native.extensions}
        try:
            if mutant.file not in originals:
                originals[mutant.file] = [_build(mutant.file, name) for name in native.extensions]
            path.write_text(text, encoding="utf-8")
            try:
                built = [_build(mutant.file, name) for name in native.extensions]
            except subprocess.CalledProcessError:
                yield mutant, "does not compile", ""
                continue
            if built == originals[mutant.file]:
                yield mutant, "same code", ""
                continue
            yield mutant, *_test(native.tests)
        finally:
            shutil.copy(SOURCES / mutant.file, path)
            for library, content in saved.items():
                library.write_bytes(content)


def _library(extension: str) -> Path:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return COPY / "request_purgatory" / f"{extension}{suffix}"


def _build(file: str, extension: str) -> bytes:
    """Build an extension of the copy, quickly rather than well.

    Returns:
        Its code.
    """
    if file.endswith(".pyx"):
        generated = COPY / "mutant.c"
        directives = [f"-X{name}={value}" for name, value in _directives().items()]
        command = [str(Path(sys.executable).with_name("cython")), "-3", "-I", str(COPY)]
        source = str(COPY / "request_purgatory" / f"{extension}.pyx")
        _run([*command, *directives, source, "-o", str(generated)])
    else:
        generated = GENERATED / f"{extension}.c"
    library = _library(extension)
    headers = str(COPY / "request_purgatory/_native")
    options = ["-shared", "-fPIC", "-O0", "-g0", "-w", "-I", headers]
    # The generated file has copies of the headers beside it, which are found before any other.
    include = ["-I", sysconfig.get_paths()["include"]]
    unit = COPY / "mutant" / f"{extension}.c"
    unit.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(generated, unit)
    _run(["gcc", *options, *include, str(unit), "-o", str(library)])
    return library.read_bytes()


def _directives() -> dict[str, object]:
    """Return the directives for Cython of setup.py.

    Raises:
        AssertionError: There are none.
    """
    for node in ast.parse((CORE / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DIRECTIVES":
            found: dict[str, object] = ast.literal_eval(node.value)
            del found["language_level"]
            return found
    raise AssertionError("setup.py has no DIRECTIVES")


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _test(tests: Iterable[str]) -> tuple[str, str]:
    """Run the tests on the copy.

    Returns:
        The fate of the mutant, and the last line that was printed.
    """
    environment = os.environ | {
        "PYTHONPATH": str(COPY.resolve()),
        "REQUEST_PURGATORY_EXPECT": "compiled",
        "HYPOTHESIS_PROFILE": "mutants",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-c", "pyproject.toml", "--rootdir", "."]
    process = subprocess.Popen(
        [*command, "--no-header", "--tb=no", *tests],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=_TIME_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "out of time", ""
    last = (output.strip().splitlines() or [""])[-1]
    return ("survived" if process.returncode == 0 else "killed"), last


def run(
    files: Iterable[str],
    lines: dict[str, set[int]],
    *,
    count: int,
    seed: int,
    seconds: float,
    equivalents: Equivalents,
) -> int:
    """Try mutants of each file, at random by the seed, those of changed lines first.

    Args:
        files: Some of NATIVE.
        lines: The changed lines of each file.
        count: How many mutants of a file to try.
        seed: Orders them.
        seconds: When to begin no further one.
        equivalents: Those to leave out.

    Returns:
        The number of mutants that survived.
    """
    deadline = time.monotonic() + seconds
    fates: Counter[str] = Counter()
    prepare()
    for file in files:
        found = [each for each in mutants_of(file) if not equivalents.has(each[0])]
        random.Random(f"{seed} {file}").shuffle(found)
        found.sort(key=lambda each: each[0].lines[0] not in lines.get(file, ()))
        for mutant, fate, line in try_mutants(found[:count], deadline):
            fates[fate] += 1
            if fate == "survived":
                print(f"survived: {mutant}\n    {line}", flush=True)
    print(f"mutants of what is only compiled: {dict(fates)}")
    return fates["survived"]
