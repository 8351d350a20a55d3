"""Read columns of files with a JSON object a line, in the types that Spark finds in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._spark.files import OPENERS, require_columns

_INT64 = 2**63


class JsonLines:
    """The objects of some files.

    Attributes:
        malformed: The number of lines that are no JSON objects, of those that have been read.
    """

    def __init__(self, files: Sequence[Path], required: Iterable[str]) -> None:
        self.malformed = 0
        self._files = files
        self._required = tuple(required)
        self._found: dict[str, None] = {}

    def batches(self, num_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the required columns, which may be `a.b` for a field in an object.

        Raises:
            TraceFormatError: No row of any file has a column, or it has objects.
        """
        names = self._required
        rows = (tuple(_value(row, name) for name in names) for row in self.rows())
        while batch := list(islice(rows, num_rows)):
            columns = [_column(name, [row[at] for row in batch]) for at, name in enumerate(names)]
            yield pa.RecordBatch.from_arrays(columns, names=list(names))
        found = [name for name in names if name.partition(".")[0] in self._found]
        require_columns(self._files[0], dict.fromkeys([*self._found, *found]), names)

    def rows(self) -> Iterator[dict[str, Any]]:
        for file in self._files:
            options = {"encoding": "utf-8-sig", "errors": "replace"}
            try:
                with OPENERS.get(file.suffix, open)(file, "rt", **options) as lines:
                    for line in lines:
                        if not line.strip():
                            continue
                        row = _object(line)
                        if row is None:
                            self.malformed += 1
                            continue
                        if not row.keys() <= self._found.keys():
                            self._found.update(dict.fromkeys(row))
                        yield row
            except (OSError, EOFError) as error:
                raise TraceFormatError(f"{file}: can't be read as JSON ({error})") from error


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _value(row: dict[str, Any], name: str) -> Any:
    if name in row:
        return row[name]
    outer, dot, inner = name.partition(".")
    value = row.get(outer) if dot else None
    return _value(value, inner) if isinstance(value, dict) else None


def _column(name: str, values: list[Any]) -> pa.Array:
    if any(isinstance(value, list) for value in values):
        lists = [value if isinstance(value, list) else None for value in values]
        kind = _kind(name, chain.from_iterable(filter(None, lists)))
        texts = kind == pa.string()
        lists = [
            None if each is None else [_text(value) if texts else value for value in each]
            for each in lists
        ]
        return pa.array(lists, pa.list_(kind))
    kind = _kind(name, values)
    return pa.array([_text(value) for value in values] if kind == pa.string() else values, kind)


def _kind(name: str, values: Iterable[Any]) -> pa.DataType:
    """Return the type that holds all values, as Spark infers it."""
    given = [value for value in values if value is not None]
    kinds = set(map(type, given))
    if dict in kinds:
        raise TraceFormatError(f"column {name} has objects; expected text, a number or a time")
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64() if all(-_INT64 <= number < _INT64 for number in given) else pa.string()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
