"""Jars from Maven Central, for the tests that start a JVM."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.java import java_command

_TIME_LIMIT = 1200.0
#: Seconds after which Maven Central is asked again for a module that it did not have.
_RETRY_INTERVAL = 86_400

_SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true" root="https://repo1.maven.org/maven2/"/></resolvers>
</ivysettings>
"""
_MODULE = """
<ivy-module version="2.0">
  <info organisation="tests" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" conf="default->master{}"/>'
_UNREACHABLE = re.compile(
    r"Server access error|SERVER ERROR|UnknownHostException|ConnectException|timed out",
    re.IGNORECASE,
)


def jars(cache: Path, *modules: str, dependencies: bool = True) -> Path | None:
    """Return a folder with the jars of Maven modules; None if Maven Central lacks a module.

    They are downloaded by the Ivy in PySpark. Without PySpark, Java or access to Maven Central the
    test is skipped.
    """
    pyspark = pytest.importorskip("pyspark", reason="its Ivy downloads jars")
    target = cache / "+".join(module.replace(":", "-") for module in modules)
    if (target / "complete").exists():
        return target
    absent = cache / f"{target.name}.absent"
    if absent.exists() and time.time() - absent.stat().st_mtime < _RETRY_INTERVAL:
        return None
    settings, module_file = cache / "settings.xml", cache / "ivy.xml"
    settings.write_text(_SETTINGS.format(cache=cache / "ivy"))
    scope = ",runtime" if dependencies else ""
    lines = "".join(_DEPENDENCY.format(*module.split(":"), scope) for module in modules)
    module_file.write_text(_MODULE.format(dependencies=lines))
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    command = [
        java_command(),
        "-cp",
        str(ivy),
        "org.apache.ivy.Main",
        "-settings",
        str(settings),
        "-ivy",
        str(module_file),
    ]
    retrieve = ["-retrieve", f"{target}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    result = subprocess.run(
        [*command, *retrieve], capture_output=True, text=True, timeout=_TIME_LIMIT, check=False
    )
    if result.returncode == 0 and target.is_dir():
        (target / "complete").touch()
        return target
    output = result.stdout + result.stderr
    if _UNREACHABLE.search(output):
        pytest.skip("needs Maven Central for Kafka's jars; it can't be reached")
    assert "not found" in output, output[-5000:]
    absent.touch()
    return None
