"""Compute the fields of requests and events from columns of a mapped table.

It runs in Spark's Python workers for `mapped_rows`, and in the threads of `purgatory quick`. A
request that was given up has a status instead of an answer: it expires at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.column_checks import (
    NOT_UTF8,
    ColumnCheck,
    aggregate_checks,
    amount_checks,
    first_reasons,
    quantifier_checks,
    time_check,
)
from purgatory_spark._rows.column_times import add_ms, is_local, times_us, zoned_us
from purgatory_spark._rows.column_values import (
    bools,
    floats,
    is_blank,
    is_changed,
    is_inexact,
    is_missing,
    is_not_utf8,
    is_number,
    milliseconds_of,
    numbers_of,
    text_of,
)
from purgatory_spark._rows.mapping import HOST, TableMapping
from purgatory_spark._rows.times import MAX_TIME_US, MIN_TIME_US
from purgatory_spark._rows.trace_columns import MAX_TIMEOUT_MS, PASSED
from purgatory_spark._spark.arrays import Bools, Floats, Ints, one_chunk

#: The field that says whether a time may mean two, of an hour that the zone repeats.
IS_REPEATED_HOUR = "is_repeated_hour"


@dataclass
class MappedColumns:
    """The fields of some rows, and why rows are rejected.

    Attributes:
        fields: The fields. Those of few distinct values are dictionaries.
        reasons: The reasons, null for good rows; None if all are good.
        constants: The fields that are the same in all rows, of every batch.
    """

    fields: pa.RecordBatch
    reasons: pa.Array | None
    constants: dict[str, str | float]

    @property
    def accepted(self) -> pa.RecordBatch:
        return self.fields if self.reasons is None else self.fields.filter(self.reasons.is_null())


@dataclass
class _Fields:
    """The fields of a batch as they are computed, and their checks in order."""

    batch: pa.RecordBatch
    zone: str
    is_second: pa.BooleanArray | None
    columns: dict[str, pa.Array] = field(default_factory=dict)
    checks: list[ColumnCheck] = field(default_factory=list)
    constants: dict[str, str | float] = field(default_factory=dict)
    is_repeated_hour: Bools | bool = False

    def result(self) -> MappedColumns:
        if self.zone != "UTC":
            is_repeated = np.zeros(self.batch.num_rows, dtype=bool) | self.is_repeated_hour
            self.columns[IS_REPEATED_HOUR] = pa.array(is_repeated)
        rows = pa.RecordBatch.from_arrays(list(self.columns.values()), names=list(self.columns))
        return MappedColumns(rows, first_reasons(self.checks, self.batch.num_rows), self.constants)

    def given(self, column: str) -> pa.Array:
        return one_chunk(self.batch.column(column))

    def constant(self, name: str, value: str) -> None:
        zeros = pa.array(np.zeros(self.batch.num_rows, dtype=np.int32))
        self.columns[name] = pa.DictionaryArray.from_arrays(zeros, pa.array([value]))
        self.constants[name] = value

    def number_constant(self, name: str, value: float, kind: pa.DataType) -> None:
        self.columns[name] = pa.repeat(pa.scalar(value, kind), self.batch.num_rows)
        self.constants[name] = value

    def text(self, name: str, column: str, *, required: bool = True) -> None:
        text = self.columns[name] = text_of(self.given(column), column)
        self.checks += self._text_checks(column, text, required=required)
        self._exact_text(column)

    def _text_checks(
        self, column: str, text: pa.StringArray, *, required: bool
    ) -> Iterator[ColumnCheck]:
        yield f"{column} {NOT_UTF8}", is_not_utf8(text)
        if required:
            yield f"null {column}", bools(text.is_null())
            yield f"empty {column}", is_blank(text)

    def _exact_text(self, column: str) -> None:
        inexact = is_inexact(self.given(column))
        if inexact is not None:
            self.checks.append((f"{column} is a float beyond 2^53", inexact))

    def few_texts(self, name: str, column: str, *, required: bool = True) -> None:
        """Add a column of few distinct values as a dictionary."""
        given = self.given(column)
        if not pa.types.is_dictionary(given.type) or given.null_count:
            given = text_of(given, column).dictionary_encode("encode")
        text, at = text_of(given.dictionary, column), given.indices.to_numpy()
        checks = self._text_checks(column, text, required=required)
        self.checks += [(reason, is_bad[at]) for reason, is_bad in checks if is_bad.any()]
        self._exact_text(column)
        self.columns[name] = pa.DictionaryArray.from_arrays(given.indices.cast(pa.int32()), text)

    def time(self, name: str, column: str, unit: str, *, required: bool = True) -> None:
        given = self.given(column)
        times = self.columns[name] = self._in_zone(times_us(given, unit, column), given, column)
        missing, is_null = is_missing(given), bools(times.is_null())
        if required:
            self.checks.append((f"null {column}", missing))
        if unit == "iso" and is_null.any():
            reason = f"{column} is a number without a unit: give it with --time-unit"
            self.checks.append((reason, ~missing & is_number(given, column)))
        self.checks.append((f"unparsable {column}", ~missing & is_null))
        reason, is_bad = time_check(column, _ints(times))
        self.checks.append((reason, ~is_null & is_bad))

    def _in_zone(self, times: pa.Int64Array, given: pa.Array, column: str) -> pa.Int64Array:
        """Return times without a zone as those of the mapping's; of two, the one that is meant."""
        if self.zone == "UTC":
            return times
        first, second = zoned_us(times, is_local(given, column), self.zone)
        self.is_repeated_hour |= bools(second.is_valid())
        arrived = self.columns.get("arrived_at")
        # Of two ends, the first one that is after the arrival.
        is_second = self.is_second if arrived is None else pc.less(first, arrived)
        return (
            first if is_second is None else pc.if_else(is_second, pc.coalesce(second, first), first)
        )

    def number(self, name: str, column: str) -> Floats:
        """Add a column of numbers. NaN is null in the returned ones, too."""
        given = self.given(column)
        numbers = self.columns[name] = numbers_of(given, column)
        self.checks.append((f"null {column}", is_missing(given)))
        self.checks.append((f"unparsable {column}", bools(numbers.is_null())))
        return floats(numbers)

    def exact(self, name: str, column: str) -> None:
        changed = is_changed(self.given(column), self.columns[name], column)
        self.checks.append((f"{column} has more digits than a double", changed))

    def timeout(self, column: str) -> None:
        given = self.given(column)
        number = floats(numbers_of(given, column), null=np.nan)
        is_finite = np.isfinite(number)
        is_usable = is_finite & (number >= 0) & (number <= MAX_TIMEOUT_MS)
        self.columns["timeout_ms"] = pa.array(np.where(is_usable, number, 0).astype(np.int32))
        self.checks += [
            (f"null {column}", is_missing(given)),
            (f"unparsable {column}", ~is_finite),
            ("negative timeout", number < 0),
            (f"{column} is more than {MAX_TIMEOUT_MS}", number > MAX_TIMEOUT_MS),
            (f"{column} is not a whole number", np.where(is_finite, number, 0) % 1.0 != 0),
        ]

    def watch_keys(self, columns: tuple[str, ...]) -> None:
        names, rows = ", ".join(columns), self.batch.num_rows
        first = self.given(columns[0])
        if len(columns) == 1 and _is_list(first.type):
            if pa.types.is_nested(first.type.value_type):
                raise TraceFormatError(
                    f"column {names} is {first.type}; expected an array of text or numbers"
                )
            lengths = np.asarray(pc.fill_null(pc.list_value_length(first), 0), dtype=np.int64)
            given = first.flatten()
            keys, inexact = text_of(given, names), is_inexact(given)
            of_row = np.repeat(np.arange(rows), lengths)
            self.checks += [
                (f"null {names}", bools(first.is_null())),
                ("null watch key", _any_of(of_row, bools(keys.is_null()), rows)),
                ("empty watch key", _any_of(of_row, is_blank(keys), rows)),
            ]
            inexact = None if inexact is None else _any_of(of_row, inexact, rows)
        else:
            texts = [text_of(self.given(column), column) for column in columns]
            has_key = np.stack([bools(text.is_valid()) & ~is_blank(text) for text in texts], axis=1)
            lengths = has_key.sum(axis=1)
            # The keys of a row follow each other.
            of_row, of_column = np.nonzero(has_key)
            keys = pa.concat_arrays(texts).take(pa.array(of_column * rows + of_row))
            self.checks.append((f"null {names}", lengths == 0))
            found = [is_inexact(self.given(column)) for column in columns]
            known = [each for each in found if each is not None]
            inexact = np.any(known, axis=0) if known else None
        offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
        self.columns["watch_keys"] = pa.ListArray.from_arrays(offsets, keys)
        self.checks.append((f"{names} {NOT_UTF8}", _any_of(of_row, is_not_utf8(keys), rows)))
        if inexact is not None:
            self.checks.append((f"{names} is a float beyond 2^53", inexact))


def map_request_columns(
    batch: pa.RecordBatch, mapping: TableMapping, is_second: pa.BooleanArray | None = None
) -> MappedColumns:
    """Return the fields of requests, with `ended_at`: when a request was answered, or null.

    Times are microseconds since the epoch. There is no `request_id` unless a column has it, and no
    `watch_keys` where requests wait for their own answers. `IS_REPEATED_HOUR` is a field, too,
    unless the mapping's zone is UTC.

    `is_second`: whether an arrival that may mean two times is the second, or the end of a row
    without an arrival.
    """
    columns, fields = mapping.columns, _Fields(batch, mapping.time_zone, is_second)
    if "host" in columns:
        fields.few_texts("host", mapping.column("host"))
    else:
        fields.constant("host", HOST)
    if "request_id" in columns:
        fields.text("request_id", mapping.column("request_id"))
    for passed in PASSED:
        if passed.name in columns:
            fields.few_texts(passed.name, mapping.column(passed.name), required=False)
        else:
            fields.constant(passed.name, passed.default or "")
    is_unanswered = _is_unanswered(fields, mapping)
    _add_times(fields, mapping, ~is_unanswered)
    if "timeout_ms" in columns:
        fields.timeout(mapping.column("timeout_ms"))
    else:
        fields.number_constant("timeout_ms", mapping.timeout_ms, pa.int32())
    if mapping.key_columns:
        fields.watch_keys(mapping.key_columns)
    if "aggregate" in columns:
        fields.few_texts("aggregate", mapping.column("aggregate"))
    else:
        fields.constant("aggregate", mapping.aggregate)
    fields.checks += aggregate_checks(_checked(fields))
    if "threshold" in columns:
        column = mapping.column("threshold")
        is_nan = np.isnan(fields.number("threshold", column))
        fields.checks.append(("threshold is not a number", is_nan))
        fields.exact("threshold", column)
    else:
        fields.number_constant("threshold", mapping.threshold, pa.float64())
    if "quantifier" in columns:
        fields.few_texts("quantifier", mapping.column("quantifier"))
    else:
        fields.constant("quantifier", mapping.constant_quantifier)
    fields.checks += quantifier_checks(_checked(fields))
    if mapping.status is not None:
        fields.constants.pop("timeout_ms", None)
        _let_expire(fields.columns, is_unanswered)
    return fields.result()


def map_event_columns(
    batch: pa.RecordBatch, mapping: TableMapping, is_second: pa.BooleanArray | None = None
) -> MappedColumns:
    """Return the fields of events, as `map_request_columns` does."""
    columns, fields = mapping.event_columns, _Fields(batch, mapping.time_zone, is_second)
    if "host" in columns:
        fields.few_texts("host", columns["host"])
    else:
        fields.constant("host", HOST)
    fields.text("key", columns["key"])
    fields.time("occurred_at", columns["occurred_at"], mapping.time_unit)
    if "amount" in columns:
        amount = fields.number("amount", columns["amount"])
        fields.checks += amount_checks(amount)
        fields.exact("amount", columns["amount"])
    else:
        fields.number_constant("amount", 1.0, pa.float64())
    return fields.result()


def _is_unanswered(fields: _Fields, mapping: TableMapping) -> Bools:
    if mapping.status is None:
        return np.zeros(fields.batch.num_rows, dtype=bool)
    status = text_of(fields.given(mapping.status), mapping.status)
    return bools(pc.is_in(status, value_set=pa.array(mapping.unanswered, pa.string())))


def _add_times(fields: _Fields, mapping: TableMapping, is_answered: Bools) -> None:
    columns, unit = mapping.columns, mapping.time_unit
    has_arrival = "arrived_at" in columns
    if has_arrival:
        fields.time("arrived_at", mapping.column("arrived_at"), unit)
    if "ended_at" in columns:
        fields.time("ended_at", mapping.column("ended_at"), unit, required=not has_arrival)
    service = mapping.service_field
    if service is not None:
        column = mapping.column(service)
        given = fields.given(column)
        convert = milliseconds_of if service == "service_s" else numbers_of
        service_ms, missing = convert(given, column), is_missing(given)
        if has_arrival:
            ended = fields.columns["ended_at"] = add_ms(fields.columns["arrived_at"], service_ms)
            is_unparsable = ~missing & is_answered & bools(ended.is_null())
            fields.checks += [
                (f"unparsable {column}", is_unparsable),
                (f"{column} beyond the year 2199", _ints(ended) > MAX_TIME_US),
            ]
        else:
            arrived = add_ms(fields.columns["ended_at"], service_ms, -1)
            fields.columns["arrived_at"] = arrived
            fields.checks += [
                (f"null {column}", missing),
                (f"unparsable {column}", bools(arrived.is_null())),
                (f"negative {column}", floats(service_ms) < 0),
                (f"{column} before the year 1900", _ints(arrived) < MIN_TIME_US),
            ]
    elif "ended_at" not in columns:
        fields.columns["ended_at"] = pa.nulls(fields.batch.num_rows, pa.int64())
    arrived, ended = fields.columns["arrived_at"], fields.columns["ended_at"]
    fields.checks.append(("end before start", is_answered & bools(pc.less(ended, arrived))))


def _let_expire(columns: dict[str, pa.Array], is_unanswered: Bools) -> None:
    """Let the requests that were given up expire then, instead of having an end."""
    arrived, ended = _ints(columns["arrived_at"]), columns["ended_at"]
    waited_ms = (_ints(ended) - arrived) // 1000
    is_known = is_unanswered & bools(ended.is_valid())
    is_known &= (waited_ms >= 0) & (waited_ms <= MAX_TIMEOUT_MS)
    timeouts = np.where(is_known, waited_ms, _ints(columns["timeout_ms"]))
    columns["timeout_ms"] = pa.array(timeouts.astype(np.int32))
    columns["ended_at"] = pc.if_else(pa.array(is_unanswered), None, ended)


def _checked(fields: _Fields) -> pa.RecordBatch:
    """Return what the checks of aggregates and quantifiers look at."""
    names = [name for name in ("aggregate", "quantifier") if name in fields.columns]
    columns = [fields.columns[name] for name in names]
    rows = fields.batch.num_rows
    own = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1), pa.int32()), pa.nulls(rows))
    columns.append(fields.columns.get("watch_keys", own))
    return pa.RecordBatch.from_arrays(columns, names=[*names, "watch_keys"])


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _any_of(rows: Ints, is_bad: Bools, count: int) -> Bools:
    """Return which rows have a key that is bad."""
    found: Bools = np.zeros(count, dtype=bool)
    found[rows[is_bad]] = True
    return found


def _ints(column: pa.Array) -> Any:
    return pc.fill_null(column, 0).to_numpy()


def rejections(mapped: Iterable[MappedColumns]) -> dict[str, int]:
    """Return how many rows are rejected for each reason."""
    counts: dict[str, int] = {}
    for reasons in (each.reasons for each in mapped if each.reasons is not None):
        for value in pc.value_counts(reasons.drop_null()).to_pylist():
            counts[value["values"]] = counts.get(value["values"], 0) + value["counts"]
    return dict(sorted(counts.items()))
