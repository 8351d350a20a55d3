"""The builds of the core, and the outcomes of all wrong calls on each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import request_purgatory
from tests.misuse.outcomes import TIME_LIMIT, Outcome

ROOT = Path(__file__).parents[2]
COMPILED, INTERPRETED = "compiled", "interpreted"

#: Seconds for all calls on one build, beside those that hang.
_ALL_CALLS = 900

#: Outcomes by call, as text.
Outcomes = dict[str, Outcome]


def observe(folder: Path) -> dict[str, Outcomes]:
    """Make all calls on each build, side by side.

    Args:
        folder: Where the interpreted build is copied to.

    Returns:
        The outcomes by the name of the build. The compiled build is missing where the tests run on
        the interpreted one.
    """
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(
        Path(request_purgatory.__file__).parent, folder / "request_purgatory", ignore=ignored
    )
    paths = {INTERPRETED: [str(folder), str(ROOT)]}
    if request_purgatory.__compiled__:
        paths[COMPILED] = [str(ROOT)]
    running = {build: _start(path, folder / f"{build}.json") for build, path in paths.items()}
    try:
        for build, process in running.items():
            assert process.wait(_ALL_CALLS) == 0, f"the tool failed on the {build} build"
    finally:
        for process in running.values():
            process.kill()
            process.wait(TIME_LIMIT)
    return {
        build: {
            call: Outcome(**outcome)
            for call, outcome in json.loads((folder / f"{build}.json").read_text()).items()
        }
        for build in running
    }


def _start(path: list[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.misuse.observe"],
            stdout=file,
            cwd=output.parent,
            # With Python's allocator in debug mode, memory that was freed is not found by luck.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONMALLOC": "debug"},
        )
