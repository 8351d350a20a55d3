"""Compiles the core with Cython; everything else about the package is in pyproject.toml.

The sources are plain Python with a `.pxd` beside each, and run as they stand where nothing was
compiled. Switches, by environment variables:

    REQUEST_PURGATORY_BUILD=interpreted   compile nothing REQUEST_PURGATORY_BUILD=compiled      a
    failing compiler fails the installation, instead of leaving the core interpreted
    REQUEST_PURGATORY_BUILD=sanitized     as compiled, with C assertions and sanitizers, into
    folders of its own under build/ REQUEST_PURGATORY_SANITIZERS=...      those sanitizers:
    address,undefined unless given; ThreadSanitizer (thread) stands alone
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("src/request_purgatory")
# The headers in C.
NATIVE = PACKAGE / "_native"
BUILDS = ("", "interpreted", "compiled", "sanitized")
BUILD = os.environ.get("REQUEST_PURGATORY_BUILD", "")
SANITIZERS = os.environ.get("REQUEST_PURGATORY_SANITIZERS", "address,undefined")

# Modules whose objects the cyclic collector does not track, and how many freed ones are kept for
# use again (Cython can do that for classes without a base only). Cython takes these two directives
# on a class only, and there only by way of an import that does not exist where Cython is not
# installed.
UNTRACKED = {"timer/task.py": 0, "purgatory/watch.py": 1024}
TRACKED = (
    "_native/primitives.pyx",
    "_native/parker.py",
    "_native/collector_hooks.pyx",
    "clock.py",
    "metrics.py",
    "timer/sleepers.py",
    "timer/bucket.py",
    "timer/delay_queue.py",
    "timer/wheel.py",
    "timer/timer.py",
    "purgatory/operation.py",
    "purgatory/watch_table.py",
    "purgatory/purge_backlog.py",
    "purgatory/purgatory.py",
    "purgatory/hold.py",
    "purgatory/legacy.py",
    "aio/loop_handle.py",
    "aio/hold.py",
    "pipeline/outcomes/replay_driver.py",
)

DIRECTIVES = {
    "language_level": 3,
    # The `.pxd` files say what is typed; annotations are for readers and mypy, and allow what C
    # types do not.
    "annotation_typing": False,
    # Plain method descriptors, which CPython calls by its shortest way.
    "binding": False,
    "embedsignature": True,
    "auto_pickle": False,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    # No module needs the interpreter lock for what is right: see docs/design.md, "Free-threaded
    # Python".
    "freethreading_compatible": True,
}


def extension(source: str) -> Extension:
    """The extension module of one source file."""
    options: dict[str, Any] = {}
    if os.name != "nt":
        # Python's own flags ask for debug information, which is most of a wheel's size.
        options["extra_compile_args"] = ["-O3", "-g0"]
    if BUILD == "sanitized":
        sanitize = f"-fsanitize={SANITIZERS}"
        options["extra_compile_args"] = [
            "-O1",
            "-g",
            "-UNDEBUG",
            "-fno-omit-frame-pointer",
            sanitize,
        ]
        options["extra_link_args"] = [sanitize]
        options["define_macros"] = [("REQUEST_PURGATORY_ASSERT", "1"), ("CYTHON_REFNANNY", "0")]
    path = PACKAGE / source
    name = ".".join(path.relative_to("src").with_suffix("").parts)
    headers = [str(NATIVE / "primitives.h"), str(NATIVE / "planted.h")]
    return Extension(name, [str(path)], include_dirs=[str(NATIVE)], depends=headers, **options)


def extensions() -> list[Extension]:
    """The compiled modules, as C; none where Cython fails and is allowed to."""
    from Cython.Build import cythonize
    from Cython.Compiler import Options

    Options.get_directive_defaults().update(no_gc=False, freelist=0)
    options: dict[str, Any] = {"build_dir": "build/cython", "include_path": ["src"]}
    modules = []
    for source, kept in UNTRACKED.items():
        untracked = DIRECTIVES | {"no_gc": True, "freelist": kept}
        modules += cythonize([extension(source)], compiler_directives=untracked, **options)
    modules += cythonize(
        [extension(source) for source in TRACKED], compiler_directives=DIRECTIVES, **options
    )
    return list(modules)


def warn(error: BaseException) -> None:
    """Say on the console why the core stays interpreted."""
    print(
        f"request-purgatory: the core could not be compiled and stays interpreted, several times slower: {error}",
        file=sys.stderr,
    )
    print(
        "request-purgatory: a C compiler is needed, on Debian and Ubuntu: apt-get install gcc python3-dev",
        file=sys.stderr,
    )


class BuildCompiled(build_ext):
    """`build_ext` that leaves the core interpreted if it can't be compiled: all modules or none."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            if BUILD:
                raise
            warn(error)
            self.remove()

    def remove(self) -> None:
        """Take away what was built before the failure: half a core would not fit together."""
        for module in self.extensions:
            for path in {
                Path(self.get_ext_fullpath(module.name)),
                Path(self.build_lib) / self.get_ext_filename(module.name),
            }:
                path.unlink(missing_ok=True)
        self.extensions = []


def main() -> None:
    """Run setuptools."""
    if BUILD not in BUILDS:
        sys.exit(
            f"REQUEST_PURGATORY_BUILD must be one of {', '.join(filter(None, BUILDS))}, got {BUILD!r}"
        )
    modules: list[Extension] = []
    if BUILD != "interpreted":
        try:
            modules = extensions()
        except Exception as error:
            if BUILD:
                raise
            warn(error)
    options: dict[str, dict[str, Any]] = {"build_ext": {"parallel": os.cpu_count() or 1}}
    if BUILD == "sanitized":
        # setuptools does not see that flags differ, and would take what another build has left for
        # its own.
        options["build"] = {"build_base": f"build/{BUILD}-{SANITIZERS.replace(',', '-')}"}
    setup(ext_modules=modules, cmdclass={"build_ext": BuildCompiled}, options=options)


main()
