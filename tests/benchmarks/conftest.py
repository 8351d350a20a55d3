"""The Spark session of the pipeline's tests."""

try:
    from tests.spark.conftest import spark as spark
except ModuleNotFoundError:  # Where the core is installed alone, which the soak's tests need.
    pass
