"""Compiles what each Produce and each Fetch passes through; pyproject.toml has everything else.

The sources are plain Python, which Cython compiles as they are, without types: sockets aside, a
Produce takes two thirds of the time. Without a compiler they run interpreted. An environment
variable chooses, for this package and for request-purgatory:

    REQUEST_PURGATORY_BUILD
        interpreted   Compile nothing.
        compiled      Fail if the compiler fails, instead of leaving the modules interpreted.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

BUILD = os.environ.get("REQUEST_PURGATORY_BUILD", "")

MODULES = (
    "_wire.apis",
    "_wire.messages",
    "_wire.protocol.fetch",
    "_wire.protocol.produce",
    "_wire.reader",
    "_wire.writer",
    "api.fetch",
    "api.fetch_responses",
    "api.produce",
    "api.registry",
    "cluster.client_throttles",
    "cluster.node",
    "cluster.request_handler",
    "deferred_actions",
    "log.batch",
    "log.leader_epochs",
    "log.log",
    "log.readable_log",
    "log.record",
    "log.segment",
    "log.store",
    "log.validation",
    "metadata.metadata_cache",
    "replication.appends",
    "replication.delayed_fetch",
    "replication.fetch_sessions",
    "replication.fetches",
    "replication.replica",
    "replication.replica_manager",
    "request_context",
    "server.connection",
    "server.frame_buffer",
    "server.request_log",
)

DIRECTIVES: dict[str, Any] = {
    "language_level": 3,
    # Annotations are for readers and mypy: a value of another type is no error here either.
    "annotation_typing": False,
    # No module relies on the GIL: a node's state belongs to its event loop.
    "freethreading_compatible": True,
}


def extensions() -> list[Extension]:
    """Translate the sources to C.

    Returns:
        The extension modules; those that can't be compiled are left out unless BUILD is compiled.
    """
    from Cython.Build import cythonize

    # Python's own flags add debug information, which would be most of a wheel's size.
    flags = [] if os.name == "nt" else ["-O2", "-g0"]
    modules: list[Extension] = cythonize(
        [
            Extension(
                f"purgatory_broker.{module}",
                [f"src/purgatory_broker/{module.replace('.', '/')}.py"],
                extra_compile_args=flags,
            )
            for module in MODULES
        ],
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
    )
    for module in modules:
        # Cython keeps nothing of this kind.
        module.optional = BUILD != "compiled"
    return modules


class BuildWheel(bdist_wheel):
    """A `bdist_wheel` for every platform, where nothing could be compiled."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the wheel's tag, which is asked for after the build."""
        build = self.get_finalized_command("build_ext")
        paths = [Path(build.get_ext_fullpath(module.name)) for module in build.extensions or []]
        self.root_is_pure = not any(path.exists() for path in paths)
        tag: tuple[str, str, str] = super().get_tag()
        return tag


is_compiled = BUILD != "interpreted" and platform.python_implementation() == "CPython"
setup(
    ext_modules=extensions() if is_compiled else [],
    cmdclass={"bdist_wheel": BuildWheel},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
