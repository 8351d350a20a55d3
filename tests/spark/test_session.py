"""Sessions: with the settings that users get, and with further ones of a caller."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.spark import session
from tests.spark.job import job
from tests.spark.session_application import WORKLOAD, java_options
from tests.support.spark_session import JAVA_OPTIONS

APPLICATION = Path(__file__).with_name("session_application.py")


@pytest.mark.jvm
@pytest.mark.smoke
def test_pipeline_with_the_settings_that_users_get(tmp_path: Path) -> None:
    """Adaptive planning, several shuffle partitions, both JIT compilers: the outcomes are the same.

    All other tests in this process have a session with settings of their own (`conftest.py`).
    """
    out = tmp_path / "out"
    out.mkdir()
    with job([sys.executable, str(APPLICATION), str(out)], tmp_path / "log") as running:
        found = json.loads(running.until("found: ").removeprefix("found: "))
        code, _ = running.end()
    assert code == 0
    expected = session.SETTINGS | session.DEFAULTS | session.LOCAL_SETTINGS
    expected |= {"spark.master": "local[*]", "spark.sql.adaptive.enabled": "true"}
    assert {name: found["settings"].get(name) for name in expected} == expected
    assert not set(JAVA_OPTIONS.split()) & set(found["java_options"])
    agreement = {"design": "wheel", "rows": WORKLOAD.requests, "differing": 0, "example": None}
    assert found["compared"] == agreement


def test_options_of_the_caller_are_added_to_those_of_the_package(spark: SparkSession) -> None:
    """The JVM of the tests' session has the log's settings, and what `conftest.py` asks for."""
    options = java_options(spark)
    log_settings = Path(session.__file__).with_name("log4j2.properties").as_uri()
    assert f"-Dlog4j2.configurationFile={log_settings}" in options
    assert set(JAVA_OPTIONS.split()) <= set(options)
