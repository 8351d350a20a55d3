"""The Java runtime of the tests that start a JVM."""

from __future__ import annotations

import os
import shutil

import pytest


def java_command() -> str:
    """Return the path of `java`: that of JAVA_HOME, or the one on the PATH. Skip without it."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if command is None:
        pytest.skip("there is no Java runtime")
    return command
