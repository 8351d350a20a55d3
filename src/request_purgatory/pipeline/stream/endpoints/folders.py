"""Folders of Parquet or JSON files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.stream.endpoints.json_rows import read_json_rows
from request_purgatory.pipeline.traces.importers.delimited import spark_path, written_path
from request_purgatory.pipeline.traces.importers.imported import SOURCE, TraceFormatError
from request_purgatory.pipeline.traces.schema import JSON_TIMES, require

FORMATS = ("parquet", "json")


@dataclass(frozen=True)
class FolderSource:
    """A folder that files are added to.

    A file is read once, whole: write it elsewhere and move it in.

    Attributes:
        folder: where they are.
        format: one of `FORMATS`; JSON has a row a line.
        files_per_batch: how many new files one micro-batch takes at most; all unless given.
    """

    folder: Path
    format: str = "parquet"
    files_per_batch: int | None = None
    endless = False

    def __post_init__(self) -> None:
        _check_format(self.format)
        if self.files_per_batch is not None and self.files_per_batch < 1:
            raise InvalidArgumentError("files_per_batch", "at least 1", self.files_per_batch)

    def described(self, spark: SparkSession) -> str:  # noqa: ARG002 - a folder is where it is
        """The folder and the format."""
        return _described(self.folder, self.format)

    def read(self, spark: SparkSession, schema: T.StructType) -> DataFrame:
        """The rows as a stream.

        Raises:
            TraceFormatError: the folder is not there.
            SchemaError: the Parquet files that are there already lack a column, or have another
                type.
        """
        if not self.folder.is_dir():
            raise TraceFormatError(f"{self.folder}: no folder of {self.format} files to read")
        reader = spark.readStream
        if self.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_per_batch)
        if self.format == "json":
            # As text, so that a line that is no row can be told as it stands.
            lines = reader.text(spark_path(self.folder)).select(
                F.ltrim("value", F.lit("\ufeff")).alias("value")
            )
            return read_json_rows(lines.where(F.trim("value") != ""), schema)
        if any(self.folder.rglob("*.parquet")):
            require(spark.read.parquet(spark_path(self.folder)), schema, str(self.folder))
        # A site's settings could make Spark go on without what it can't read.
        reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
        rows = reader.schema(schema).parquet(spark_path(self.folder))
        # Spark reads nulls where a file has no such column.
        a_null = reduce(Column.__or__, [F.col(name).isNull() for name in schema.names])
        return rows.select(
            *schema.names, F.when(a_null, F.col("_metadata.file_path")).alias(SOURCE)
        )


@dataclass(frozen=True)
class FolderSink:
    """A folder with folders `kind=outcomes` and `kind=late`, in which each row is exactly once.

    Attributes:
        folder: where they are, or will be.
        format: one of `FORMATS`.
    """

    folder: Path
    format: str = "parquet"

    def __post_init__(self) -> None:
        _check_format(self.format)

    @property
    def places(self) -> tuple[str, str]:
        """The two folders."""
        return f"{self.folder}/kind=outcomes", f"{self.folder}/kind=late"

    def described(self, spark: SparkSession) -> str:  # noqa: ARG002 - a folder is where it is
        """The folder and the format."""
        return _described(self.folder, self.format)

    def write(self, results: DataFrame) -> Any:
        """The output as a stream writer."""
        writer = (
            results.writeStream.format(self.format)
            .option("path", written_path(self.folder.resolve()))
            .partitionBy("kind")
        )
        if self.format == "json":
            writer = writer.options(**JSON_TIMES)
        return writer.outputMode("append")


def _check_format(name: str) -> None:
    if name not in FORMATS:
        raise InvalidArgumentError("format", f"one of {', '.join(FORMATS)}", name)


def _described(folder: Path, kind: str) -> str:
    return f"{folder.resolve()} ({kind})"
