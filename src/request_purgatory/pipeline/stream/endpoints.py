"""Where a stream's rows come from and go to: folders of Parquet or JSON files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.importers.delimited import spark_path, written_path
from request_purgatory.pipeline.importers.imported import TraceFormatError
from request_purgatory.pipeline.schema import EVENTS, REQUESTS, require

FORMATS = ("parquet", "json")


@dataclass(frozen=True)
class Folders:
    """Input folders that files are added to, and an output folder.

    Attributes:
        requests, events: folders of files of `schema.REQUESTS` and `schema.EVENTS`. A file is read once, whole: write it
            elsewhere and move it in.
        out: the output, in folders `kind=outcomes` and `kind=late`.
        format: of all of them, one of `FORMATS`.
        files_per_batch: how many new files of each input one micro-batch takes at most; all unless given.
    """

    requests: Path
    events: Path
    out: Path
    format: str = "parquet"
    files_per_batch: int | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidArgumentError("format", f"one of {', '.join(FORMATS)}", self.format)
        if self.files_per_batch is not None and self.files_per_batch < 1:
            raise InvalidArgumentError("files_per_batch", "at least 1", self.files_per_batch)

    def described(self) -> dict[str, str]:
        """For the checkpoint's record."""
        return {name: str(getattr(self, name).resolve()) for name in ("requests", "events", "out")} | {"format": self.format}

    def read(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """Both inputs as streams.

        Raises:
            TraceFormatError: a folder is not there.
            SchemaError: the Parquet files that are there already lack a column, or have another type.
        """
        return self._stream(spark, self.requests, REQUESTS), self._stream(spark, self.events, EVENTS)

    def _stream(self, spark: SparkSession, folder: Path, schema: T.StructType) -> DataFrame:
        if not folder.is_dir():
            raise TraceFormatError(f"{folder}: no folder of {self.format} files to read")
        if self.format == "parquet" and any(folder.rglob("*.parquet")):
            require(spark.read.parquet(spark_path(folder)), schema, str(folder))
        reader = spark.readStream.schema(schema).format(self.format)
        if self.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_per_batch)
        return reader.load(spark_path(folder))

    def write(self, results: DataFrame) -> Any:
        """The output as a stream writer, whose checkpoint and trigger are not set yet. Each row is written exactly once."""
        return (
            results.writeStream.format(self.format)
            .option("path", written_path(self.out.resolve()))
            .partitionBy("kind")
            .outputMode("append")
        )


def quiet_ticks(spark: SparkSession, idle_s: float) -> DataFrame:
    """Ticks for inputs whose times are the present: what happened `idle_s` seconds ago has come by now.

    So the watermark follows the clock while nothing comes, and requests expire on a quiet stream.
    """
    seconds = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return seconds.select((F.col("timestamp") - F.expr(f"interval {idle_s} seconds")).alias("at"))


def told_ticks(spark: SparkSession, folder: Path) -> DataFrame:
    """Ticks from a folder of JSON files with rows `{"at": ...}`."""
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema("at TIMESTAMP").json(spark_path(folder))
