"""On other interpreters than CPython the core is left interpreted."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.packaging.builds import ROOT

#: Runs setup.py as on PyPy, and prints what it would compile.
_SCRIPT = """
import platform, runpy, setuptools
platform.python_implementation = lambda: "PyPy"
setuptools.setup = lambda **options: print(options["ext_modules"])
runpy.run_path("setup.py", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("build", "code", "message"),
    [
        ("", 0, "[]\n"),
        ("compiled", 1, "REQUEST_PURGATORY_BUILD=compiled needs CPython, this is PyPy\n"),
    ],
)
def test_core_is_not_compiled_on_pypy(build: str, code: int, message: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        cwd=ROOT / "packages" / "request-purgatory",
        env=os.environ | {"REQUEST_PURGATORY_BUILD": build},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == code
    assert (ran.stdout + ran.stderr).endswith(message)
