"""`python -m tools.mutants`: tries mutants of the core, and fails if one survives."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import coverage
import pytest

from tools.mutants import native
from tools.mutants.campaign import Campaign, Verdict
from tools.mutants.changes import changed_lines
from tools.mutants.equivalent import PATH, Equivalents
from tools.mutants.line_tests import LineTests
from tools.mutants.modules import CORE, FAR_TESTS, LONG_TESTS, PACKAGE, TESTS, all_modules
from tools.mutants.mutations import Mutant, Mutations
from tools.mutants.native import NATIVE

BUILD = Path("build/mutants")
SURVIVORS = BUILD / "survivors.json"


def main() -> int:
    """Try the mutants that the command line names.

    Returns:
        1 if a mutant survived that is not named equivalent, or the file of these is out of date.
    """
    arguments = _arguments()
    known = all_modules()
    lines = {} if arguments.modules or arguments.native else changed_lines(arguments.base)
    modules = [file for file in arguments.modules or lines if file in known]
    if arguments.modules == ["all"]:
        modules = known
    elif set(arguments.modules) - set(known):
        print(f"not among the modules that have mutants: {set(arguments.modules) - set(known)}")
        return 2
    native_files = list(NATIVE) if arguments.native else [file for file in lines if file in NATIVE]
    if native_files:
        survived = native.run(
            native_files,
            lines,
            count=arguments.native or len(native_files) * 100,
            seed=arguments.seed,
            seconds=60 * arguments.minutes,
            equivalents=Equivalents.load(),
        )
        if survived or not modules:
            return 1 if survived else 0
    if not modules:
        print(f"mutants: no module of the core differs from {arguments.base}")
        return 0
    mutations = {file: Mutations((PACKAGE / file).resolve(), file) for file in modules}
    mutants = [mutant for file in modules for mutant in _run_here(mutations[file], file)]
    equivalents = Equivalents.load()
    named = [mutant for mutant in mutants if equivalents.has(mutant)]
    stale = equivalents.stale(modules)
    chosen = mutants if arguments.named else [each for each in mutants if each not in set(named)]
    if arguments.again:
        survived = _survivors()
        chosen = [mutant for mutant in chosen if list(mutant.key) in survived[mutant.file]]
    if lines:
        chosen = _changed_first(chosen, lines, arguments.seed)
    counts: Counter[str] = Counter()
    began = time.monotonic()

    def report(verdict: Verdict) -> None:
        counts[verdict.fate] += 1
        if verdict.fate in ("survived", "no test"):
            print(f"{verdict.fate}: {verdict.mutant}", flush=True)
        if arguments.verbose and verdict.test:
            print(f"{verdict.fate} by {verdict.test}: {verdict.mutant}", flush=True)
        if counts.total() % 100 == 0:
            print(f"... {counts.total()} of {len(chosen)}, {dict(counts)}", flush=True)

    campaign = Campaign(
        mutations,
        chosen,
        _line_tests(),
        package=PACKAGE.resolve(),
        processes=arguments.processes,
        near_seconds=arguments.near_seconds,
        seconds=60 * arguments.minutes,
        report=report,
    )
    code = pytest.main(
        [
            *("-c", "pyproject.toml", "--rootdir", "."),
            *("-q", "--no-header", "--no-summary", "--capture=no", "-p", "no:cacheprovider"),
            *("-m", "not slow and not jvm and not spark"),
            *(f"--ignore={test}" for test in FAR_TESTS),
            *(f"--deselect={test}" for test in LONG_TESTS),
            *TESTS,
        ],
        plugins=[campaign],
    )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(code)
    for test in campaign.failed_before:
        print(f"fails on the unchanged code, and judges no mutant: {test}")
    alive = [each.mutant for each in campaign.verdicts if each.fate in ("survived", "no test")]
    if arguments.named:
        alive = [mutant for mutant in alive if mutant not in set(named)]
        killed = {each.mutant for each in campaign.verdicts} - set(alive)
        wrong = [m for m in named if m in killed and not _survived(campaign, m)]
        for mutant in wrong:
            print(f"named equivalent, but killed: {mutant}")
    _save_survivors(modules, alive)
    for key in stale:
        print(f"{PATH} names a mutant that does not exist: {key}")
    print(
        f"mutants: {len(mutants)} in {len(modules)} modules; killed {counts['killed']}, out of "
        f"time {counts['out of time']}, named equivalent {len(named)}, alive {len(alive)}, "
        f"left out {campaign.left_out}; {time.monotonic() - began:.0f} s"
    )
    shutil.rmtree(BUILD / "tmp", ignore_errors=True)
    return 1 if alive or stale else 0


def _survived(campaign: Campaign, mutant: Mutant) -> bool:
    return any(
        each.mutant == mutant and each.fate in ("survived", "no test") for each in campaign.verdicts
    )


def _run_here(mutations: Mutations, file: str) -> list[Mutant]:
    """Return the mutants of what the interpreted build runs: pyproject.toml lists the rest."""
    path = str((PACKAGE / file).resolve())
    left_out = set(coverage.Coverage(data_file=None).analysis2(path)[2])
    return [mutant for mutant in mutations.mutants if mutant.lines[0] not in left_out]


def _survivors() -> dict[str, list[list[str]]]:
    """Return the keys of the mutants that survived the last run of their module."""
    if not SURVIVORS.exists():
        return {}
    found: dict[str, list[list[str]]] = json.loads(SURVIVORS.read_text(encoding="utf-8"))
    return found


def _save_survivors(modules: list[str], alive: list[Mutant]) -> None:
    survivors = _survivors()
    for file in modules:
        survivors[file] = [list(mutant.key) for mutant in alive if mutant.file == file]
    SURVIVORS.write_text(json.dumps(survivors, indent=1), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "modules",
        nargs="*",
        help='paths below the package, such as timer/wheel.py, or "all"; those that differ from '
        "--base by default, their changed lines first",
    )
    parser.add_argument(
        "--base",
        default=os.environ.get("MUTANTS_BASE", "HEAD~1"),
        help="the commit to compare with; MUTANTS_BASE or HEAD~1 by default",
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="begin no mutant after this")
    parser.add_argument("--seed", type=int, default=0, help="orders the mutants of other lines")
    parser.add_argument("--processes", type=int, default=2, help="mutants tried side by side")
    parser.add_argument(
        "--near-seconds", type=float, default=20.0, help="the usual time of one mutant's tests"
    )
    parser.add_argument(
        "--native", type=int, default=0, help="so many of each file that is only compiled, instead"
    )
    parser.add_argument("--again", action="store_true", help="the last run's survivors only")
    parser.add_argument("--named", action="store_true", help="those named equivalent, too")
    parser.add_argument("--verbose", action="store_true", help="name the test that killed each")
    return parser.parse_args()


def _line_tests() -> LineTests:
    tests = CORE / "tests"
    shared = [tests / "conftest.py", *sorted((tests / "support").glob("*.py"))]
    return LineTests(BUILD / "tests.json", PACKAGE, shared)


def _changed_first(mutants: list[Mutant], lines: dict[str, set[int]], seed: int) -> list[Mutant]:
    """Order mutants by chance, those of changed lines first.

    Returns:
        The mutants, in the same order for the same seed.
    """
    shuffled = list(mutants)
    random.Random(seed).shuffle(shuffled)
    return sorted(
        shuffled,
        key=lambda mutant: lines[mutant.file].isdisjoint(
            range(mutant.lines[0], mutant.lines[1] + 1)
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
