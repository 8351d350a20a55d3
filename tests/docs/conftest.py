"""The Spark session of the pipeline's tests."""

from tests.spark.conftest import spark as spark
