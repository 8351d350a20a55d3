"""Tables of formats that need a package: Avro, Delta and Iceberg, in a JVM with these packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.job import TIME_LIMIT, Job, clean_environment, quick_spark

#: The packages of each format by version of Spark. Spark 4.3 has no release of Delta and Iceberg
#: yet; the package for Avro is that of an older Spark, which works.
PACKAGES = {
    "4.1": {
        "avro": "org.apache.spark:spark-avro_2.13:4.1.1",
        "delta": "io.delta:delta-spark_4.1_2.13:4.1.0",
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    },
    "4.3": {"avro": "org.apache.spark:spark-avro_2.13:4.1.1"},
}


def settings_of(folder: Path, packages: dict[str, str]) -> dict[str, str]:
    """Return the settings of a session that has the packages."""
    settings = {
        "spark.jars.packages": ",".join(packages.values()),
        "spark.master": "local[1]",
        "spark.sql.warehouse.dir": (folder / "tables").as_uri(),
    }
    extensions = {
        "delta": "io.delta.sql.DeltaSparkSessionExtension",
        "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    found = [extensions[kind] for kind in packages if kind in extensions]
    if found:
        settings["spark.sql.extensions"] = ",".join(found)
    if "delta" in packages:
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.sql.catalog.spark_catalog"] = catalog
    if "iceberg" in packages:
        settings["spark.sql.catalog.lake"] = "org.apache.iceberg.spark.SparkCatalog"
        settings["spark.sql.catalog.lake.type"] = "hadoop"
        settings["spark.sql.catalog.lake.warehouse"] = (folder / "warehouse").as_uri()
    return settings


@pytest.mark.jvm
@pytest.mark.slow
# Ivy's cache allows no two processes to write the same jar.
@pytest.mark.xdist_group("kafka streams")
@pytest.mark.timeout(2 * TIME_LIMIT)
def test_tables_of_packages_are_imported(tmp_path: Path) -> None:
    version = ".".join(pyspark.__version__.split(".")[:2])
    packages = PACKAGES.get(version)
    if packages is None:
        pytest.skip(f"no packages are known for Spark {version}")
    arguments = ["-m", "tests.spark.lake_application", str(tmp_path), *packages]
    environment = clean_environment(
        **quick_spark(tmp_path, settings_of(tmp_path, packages)),
        PYTHONPATH=str(Path(__file__).parents[2]),
        PYSPARK_PYTHON=sys.executable,
    )
    job = Job([sys.executable, *arguments], tmp_path / "log", environment)
    code, output = job.wait()
    log = (tmp_path / "log").read_text(errors="replace")
    if "unresolved dependency" in log:
        pytest.skip(f"can't download the packages {', '.join(packages.values())}")
    assert code == 0, job.describe()
    (line,) = [line for line in output.splitlines() if line.startswith("found: ")]
    found = json.loads(line.removeprefix("found: "))
    expected = [[["web", "completed"], ["web", "expired"]], ["null start"]]
    assert found == dict.fromkeys(found, expected)
    assert len(found) == sum({"avro": 5, "delta": 4, "iceberg": 5}[kind] for kind in packages)
