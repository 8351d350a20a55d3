"""Read the columns of a table from files of this machine, by Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.log_formats import compiled, log_columns
from purgatory_spark._local.json_lines import JsonLines
from purgatory_spark._spark.csv_files import (
    csv_header,
    damage_named,
    has_quoted_newline,
    is_cut_in_field,
)
from purgatory_spark._spark.files import (
    OPENERS,
    URI,
    file_format,
    require_columns,
    trace_files,
)

#: Reads some rows, in a thread of its own.
Part = Callable[[], Iterable[pa.RecordBatch]]

#: What a thread maps at a time.
_BATCH_ROWS = 65_536
_BLOCK_BYTES = 4 * 2**20
#: Of a whole file, which is more than one thread's.
_WHOLE_BLOCK_BYTES = 16 * 2**20
_FORMATS = ("csv", "parquet", "json")


class NeedsSparkError(TraceFormatError):
    """A source, or a setting, that only Spark reads; the message names the command for it."""


class NewlineInFieldError(Exception):
    """A CSV file was cut within a field."""


class TableFiles:
    """The rows of a table in CSV, JSON or Parquet files, or in text logs.

    Attributes:
        names: The columns of the first file.
        malformed: The number of rows of another form that have been read.
    """

    def __init__(
        self,
        source: str,
        required: Iterable[str],
        log_format: str | None,
        few_valued: Iterable[str] = (),
    ) -> None:
        """Find the files, and check that they have the `required` columns.

        `few_valued`: those with few distinct values. If they are text, they may be dictionaries.
        """
        self.malformed = 0
        self._counting = Lock()
        self._required = list(dict.fromkeys(required))
        self._few_valued = set(few_valued)
        self._log_format = log_format
        kind, colon, location = source.partition(":")
        path = Path(location if colon and kind in _FORMATS else source)
        if kind == "table" or URI.match(str(path)):
            raise NeedsSparkError(
                f"{source}: without Spark, tables are files of this machine; use `purgatory run`"
            )
        if log_format is not None:
            self.names = log_columns(log_format)
            require_columns("the log format", self.names, self._required, "format")
            self._files = _log_files(path)
            return
        if path.is_dir() and not any(file_format(file.name) for file in path.iterdir()):
            raise NeedsSparkError(f"{source}: a folder of folders; use `purgatory run`")
        self._files = [path] if colon and path.is_file() else trace_files(path)
        found = kind if colon and kind in _FORMATS else file_format(self._files[0].name)
        if found not in _FORMATS:
            raise NeedsSparkError(
                f"{source}: without Spark, tables are CSV, JSON, Parquet or a text log, not "
                f"{found}; use `purgatory run`"
            )
        self._format = found
        self.names = self._names(self._files[0])
        if found != "json":
            for file in self._files:
                require_columns(file, self._names(file), self._required)

    def parts(self, *, whole_files: bool = False) -> Iterator[Part]:
        """Yield functions that read parts of the table, in order.

        Raises:
            NewlineInFieldError: A file was cut within a field, by one of the functions. Take whole
                files then.
        """
        self.malformed = 0
        if self._log_format is None and self._format == "json":
            yield from map(_as_part, self._json_batches())
            return
        for file in self._files:
            if self._log_format is not None:
                yield from map(_as_part, self._log_batches(file, self._log_format))
            elif self._format == "parquet":
                yield from self._parquet_parts(file)
            else:
                yield from self._csv_parts(file, is_whole=whole_files)

    def _names(self, file: Path) -> list[str]:
        if self._format == "csv":
            return csv_header(file)
        if self._format == "json":
            lines = JsonLines(self._files[:1], ())
            return list(next(lines.rows(), {}))
        with _parquet_damage_named(file):
            return list(pq.read_schema(file).names)

    def _parquet_parts(self, file: Path) -> Iterator[Part]:
        with _parquet_damage_named(file):
            metadata = pq.read_metadata(file)
        for group in range(metadata.num_row_groups):
            yield partial(self._parquet_batches, file, metadata, group)

    def _parquet_batches(
        self, file: Path, metadata: pq.FileMetaData, group: int
    ) -> Iterator[pa.RecordBatch]:
        with _parquet_damage_named(file):
            schema = metadata.schema.to_arrow_schema()
            texts = [field.name for field in schema if pa.types.is_string(field.type)]
            with pq.ParquetFile(
                file,
                metadata=metadata,
                coerce_int96_timestamp_unit="us",
                read_dictionary=[name for name in texts if name in self._few_valued],
            ) as opened:
                # The threads that map batches keep the cores busy.
                for batch in opened.iter_batches(
                    _BATCH_ROWS, row_groups=[group], columns=self._required, use_threads=False
                ):
                    fields = [field.with_type(_in_utc(field.type)) for field in batch.schema]
                    yield batch.cast(pa.schema(fields))

    def _json_batches(self) -> Iterator[pa.RecordBatch]:
        lines = JsonLines(self._files, self._required)
        yield from lines.batches(_BATCH_ROWS)
        self.malformed += lines.malformed

    def _csv_parts(self, file: Path, *, is_whole: bool) -> Iterator[Part]:
        names, header = None, self._names(file)
        with damage_named(file), OPENERS.get(file.suffix, open)(file, "rb") as content:
            while block := content.read(-1 if is_whole else _BLOCK_BYTES):
                block += content.readline()
                yield partial(self._csv_batches, file, block, names, is_whole=is_whole)
                names = header

    def _csv_batches(
        self, file: Path, block: bytes, names: list[str] | None, *, is_whole: bool
    ) -> list[pa.RecordBatch]:
        """Parse rows of a file. `names`: of its columns, None if they are the first row."""
        skipped: list[str] = []

        def skip(row: pa_csv.InvalidRow) -> str:
            skipped.append(row.text)
            return "skip"

        few_texts = pa.dictionary(pa.int32(), pa.string())
        parse = pa_csv.ParseOptions(
            newlines_in_values=is_whole and has_quoted_newline(file), invalid_row_handler=skip
        )
        convert = pa_csv.ConvertOptions(
            column_types={
                name: few_texts if name in self._few_valued else pa.string()
                for name in self._required
            },
            include_columns=self._required,
            null_values=[""],
            strings_can_be_null=True,
        )
        read = pa_csv.ReadOptions(
            block_size=_WHOLE_BLOCK_BYTES, use_threads=is_whole, column_names=names
        )
        with damage_named(file):
            try:
                try:
                    table = pa_csv.read_csv(pa.BufferReader(block), read, parse, convert)
                except pa.ArrowInvalid as error:
                    if "UTF8" not in str(error):
                        raise
                    # Other bytes are replaced, as Spark's reader does.
                    skipped.clear()
                    replaced = block.decode("utf-8", "replace").encode()
                    table = pa_csv.read_csv(pa.BufferReader(replaced), read, parse, convert)
            except pa.ArrowInvalid as error:
                raise OSError(str(error)) from error
        if not is_whole:
            # NumPy compares bytes in vectors.
            newlines = np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
            lines = newlines - (names is None) + (not block.endswith(b"\n"))
            # If each line is a row, only the last one can be cut.
            each_is_row = b"\r" not in block and table.num_rows + len(skipped) == lines
            if is_cut_in_field(block[block.rfind(b"\n", 0, -1) + 1 :] if each_is_row else block):
                raise NewlineInFieldError
        with self._counting:
            self.malformed += sum(1 for text in skipped if text.strip())
        batches: list[pa.RecordBatch] = table.to_batches()
        return batches

    def _log_batches(self, file: Path, log_format: str) -> Iterator[pa.RecordBatch]:
        expression, names = compiled(log_format, self._required)
        pattern = re.compile(expression, re.ASCII)
        rows: list[tuple[str | None, ...]] = []

        def batch() -> pa.RecordBatch:
            columns = [pa.array(texts, pa.string()) for texts in zip(*rows, strict=True)]
            return pa.RecordBatch.from_arrays(columns, names=names)

        options = {"encoding": "utf-8", "errors": "replace", "newline": "\n"}
        with damage_named(file), OPENERS.get(file.suffix, open)(file, "rt", **options) as lines:
            for line in lines:
                if not line.strip():
                    continue
                found = pattern.search(line.rstrip("\r\n"))
                if found is None:
                    self.malformed += 1
                    continue
                rows.append(found.groups())
                if len(rows) == _BATCH_ROWS:
                    yield batch()
                    rows.clear()
        if rows:
            yield batch()


def _as_part(batch: pa.RecordBatch) -> Part:
    return lambda: [batch]


@contextmanager
def _parquet_damage_named(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise TraceFormatError(f"{file}: can't be read as Parquet ({error})") from error


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return a type with UTC in place of its zone: a name that is a time is written in it."""
    if pa.types.is_list(kind):
        return pa.list_(_in_utc(kind.value_type))
    if pa.types.is_timestamp(kind) and kind.tz:
        return pa.timestamp(kind.unit, "UTC")
    return kind


def _log_files(path: Path) -> list[Path]:
    if not path.exists():
        raise TraceFormatError(f"{path}: no such file or folder")
    if path.is_file():
        return [path]
    return sorted(
        file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_"))
    )
