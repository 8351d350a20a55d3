"""Compiles the core with Cython; pyproject.toml has everything else about the package.

The sources are plain Python with a `.pxd` file beside each. Without a compiler they run
interpreted. Environment variables:

    REQUEST_PURGATORY_BUILD
        interpreted   Compile nothing.
        compiled      Fail if the compiler fails, instead of leaving the core interpreted.
        sanitized     As compiled, with C assertions and sanitizers, into a folder under build/.
    REQUEST_PURGATORY_SANITIZERS
        The sanitizers of a sanitized build; address,undefined by default. ThreadSanitizer
        (thread) can't be combined with others.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PACKAGE = Path("src/request_purgatory")
# The folder of the C headers.
NATIVE = PACKAGE / "_native"
BUILDS = ("", "interpreted", "compiled", "sanitized")
BUILD = os.environ.get("REQUEST_PURGATORY_BUILD", "")
SANITIZERS = os.environ.get("REQUEST_PURGATORY_SANITIZERS", "address,undefined")

MODULES = (
    "_native/primitives.pyx",
    "_native/parker.py",
    "_native/hiding.pyx",
    "_native/collector_hooks.pyx",
    "_native/construction.pyx",
    "_native/class_signatures.pyx",
    "clock.py",
    "purgatory/_counters.py",
    "timer/task.py",
    "timer/_sleeping_threads.py",
    "timer/_bucket.py",
    "timer/_delay_queue.py",
    "timer/wheel.py",
    "timer/_timer_core.py",
    "timer/timer.py",
    "purgatory/_put_off.py",
    "purgatory/operation.py",
    "purgatory/_operation_chain.py",
    "purgatory/watch_table.pyx",
    "purgatory/_purge_backlog.py",
    "purgatory/_nested_checks.py",
    "purgatory/core.py",
    "purgatory/purgatory.py",
    "purgatory/hold.py",
    "purgatory/hold_future.py",
    "purgatory/quorum.py",
    "legacy.py",
    "aio/loop_clock.py",
    "aio/_loop_handle.py",
    "aio/hold.py",
    "aio/_wait_answers.py",
    "aio/sweep.py",
    "aio/_alarm.py",
    "aio/_loop_entrance.py",
    "replay/end_recorder.py",
    "replay/trace_operation.py",
    "replay/replay_driver.py",
)

DIRECTIVES = {
    "language_level": 3,
    # The `.pxd` files declare the C types. Annotations are for readers and mypy, and allow values
    # that C types do not.
    "annotation_typing": False,
    # A typed argument refuses None, whose fields C would read as those of the type.
    "allow_none_for_extension_args": False,
    # Plain method descriptors: a call costs some 10 ns less than that of Cython's own functions.
    "binding": False,
    # Argument Clinic's format is the one that `inspect.signature` reads. It has no annotations.
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "auto_pickle": False,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    # No module relies on the GIL: see docs/explanation/design.md, "Free-threaded Python".
    "freethreading_compatible": True,
}

# Further directives of single modules. As directives of a class, the first two would need an import
# of Cython at run time.
MODULE_DIRECTIVES: dict[str, dict[str, Any]] = {
    # The cyclic collector does not track these objects. (Cython supports a free list only for
    # classes without a base.)
    "timer/task.py": {"no_gc": True},
    # A task that a finalizer cancels finds its bucket's lock, even while the collector takes the
    # timer apart.
    "timer/_bucket.py": {"no_gc_clear": True},
    # A finalizer empties the chain one by one: together, its operations would go recursively.
    "purgatory/_operation_chain.py": {"no_gc_clear": True},
    # HoldFuture is a Python class: its methods have signatures without embedded ones.
    "aio/hold.py": {"embedsignature": False},
}


def extension(source: str) -> Extension:
    """Return the extension module of one source file.

    Args:
        source: The file's path below the package.
    """
    options: dict[str, Any] = {}
    if os.name != "nt":
        # Python's own flags add debug information, which would be most of a wheel's size. -O3 takes
        # a fifth longer than -O2 to compile, and its code runs no fewer instructions.
        options["extra_compile_args"] = ["-O2", "-g0"]
        if BUILD == "compiled":
            # As GCC 14 does: where older compilers warn, it would leave the core interpreted.
            options["extra_compile_args"] += [
                "-Werror=implicit-function-declaration",
                "-Werror=incompatible-pointer-types",
                "-Werror=int-conversion",
            ]
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
    headers = [str(path) for path in sorted(NATIVE.glob("*.h"))]
    return Extension(name, [str(path)], include_dirs=[str(NATIVE)], depends=headers, **options)


def extensions() -> list[Extension]:
    """Translate the sources to C.

    Returns:
        The extension modules.
    """
    from Cython.Build import cythonize
    from Cython.Compiler import Options

    Options.get_directive_defaults().update(no_gc=False, no_gc_clear=False, freelist=0)
    modules: list[Extension] = []
    # One call for all modules with the same directives: it looks at what depends on what once.
    for directives in ({}, *MODULE_DIRECTIVES.values()):
        sources = [each for each in MODULES if MODULE_DIRECTIVES.get(each, {}) == directives]
        modules += cythonize(
            [extension(source) for source in sources],
            compiler_directives=DIRECTIVES | directives,
            build_dir="build/cython",
            include_path=["src"],
        )
    return modules


def warn(error: BaseException) -> None:
    """Print to stderr why the core stays interpreted."""
    print(
        "request-purgatory: the core could not be compiled and stays interpreted, several times "
        f"slower: {error}",
        file=sys.stderr,
    )
    print(
        "request-purgatory: install a C compiler; on Debian and Ubuntu: "
        "apt-get install gcc python3-dev",
        file=sys.stderr,
    )


class BuildCompiled(build_ext):
    """A `build_ext` that compiles all modules, or none if the compiler fails."""

    def run(self) -> None:
        """Compile the modules; leave the core interpreted if that fails and is allowed to."""
        try:
            super().run()
        except Exception as error:
            if BUILD:
                raise
            warn(error)
            self.remove()

    def remove(self) -> None:
        """Delete the modules built before the failure: compiled and interpreted ones don't mix."""
        for module in self.extensions:
            for path in {
                Path(self.get_ext_fullpath(module.name)),
                Path(self.build_lib) / self.get_ext_filename(module.name),
            }:
                path.unlink(missing_ok=True)
        self.extensions = []


class BuildWheel(bdist_wheel):
    """A `bdist_wheel` that tags an interpreted core as such.

    Otherwise pip would keep the slow wheel in its cache as one for this platform, and install it
    again where there is a compiler by then.
    """

    def get_tag(self) -> tuple[str, str, str]:
        """Return the wheel's tag, which is asked for after the build."""
        self.root_is_pure = not self.get_finalized_command("build_ext").extensions
        tag: tuple[str, str, str] = super().get_tag()
        return tag


def main() -> None:
    """Run setuptools."""
    if BUILD not in BUILDS:
        known = ", ".join(filter(None, BUILDS))
        sys.exit(f"REQUEST_PURGATORY_BUILD must be one of {known}, got {BUILD!r}")
    modules: list[Extension] = []
    interpreter = platform.python_implementation()
    if BUILD not in ("", "interpreted") and interpreter != "CPython":
        # The C headers look into CPython's objects.
        sys.exit(f"REQUEST_PURGATORY_BUILD={BUILD} needs CPython, this is {interpreter}")
    if BUILD != "interpreted" and interpreter == "CPython":
        try:
            modules = extensions()
        except Exception as error:
            if BUILD:
                raise
            warn(error)
    options: dict[str, dict[str, Any]] = {"build_ext": {"parallel": os.cpu_count() or 1}}
    if BUILD == "sanitized":
        # setuptools does not compare compiler flags, and would reuse another build's objects.
        options["build"] = {"build_base": f"build/{BUILD}-{SANITIZERS.replace(',', '-')}"}
    setup(
        ext_modules=modules,
        cmdclass={"build_ext": BuildCompiled, "bdist_wheel": BuildWheel},
        options=options,
    )


main()
