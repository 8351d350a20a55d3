"""Check the rows of a trace by their columns, in a Python worker.

These are the rules of `rows.checks`, for rows that Spark does not see because a worker reads their
file, and for those that it sends to the worker anyway. `repeats` has the rule of repeated
requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._rows.times import MAX_TIME_US, MIN_TIME_US
from purgatory_spark._rows.trace_columns import AGGREGATES, NOT_NULL, QUANTIFIERS
from purgatory_spark._spark.arrays import Bools, Floats, Ints

#: A reason, and whether each row is rejected for it.
ColumnCheck = tuple[str, Bools]

#: The reason of a row that does not have as many fields as its file has columns.
MALFORMED = "malformed row"
#: Readers of files put U+FFFD in the place of bytes that are no text, which makes ids equal.
NOT_UTF8 = "is not UTF-8, or has the character U+FFFD that stands for such bytes"
_WHOLE_NUMBER = re.compile("-?[0-9]+")
_MAX_DIGITS = 9
# More keys than a request can have.
_TOO_MANY = 10**_MAX_DIGITS


def reject_reasons(rows: pa.RecordBatch, kind: str) -> pa.Array | None:
    """Return the reason of the first check that each row fails, or null; None if all are good.

    Columns with few values are dictionaries, of which null may be a value.
    """
    checks = _request_checks(rows) if kind == "requests" else _event_checks(rows)
    return first_reasons(checks, rows.num_rows)


def first_reasons(checks: Iterable[ColumnCheck], num_rows: int) -> pa.Array | None:
    """Return the reason of the first check that rejects each row, or null; None if all are good."""
    broken = [check for check in checks if check[1].any()]
    if not broken:
        return None
    number = np.full(num_rows, -1)
    for at, (_, is_bad) in enumerate(broken):
        number[(number < 0) & is_bad] = at
    return pa.array([reason for reason, _ in broken]).take(pa.array(number, mask=number < 0))


def _request_checks(rows: pa.RecordBatch) -> Iterator[ColumnCheck]:
    yield from _nulls(rows, "requests")
    yield time_check("arrived_at", _numbers(rows, "arrived_at"))
    watch_keys = rows.column("watch_keys")
    keys = watch_keys.flatten()
    if keys.null_count:
        has_null = np.zeros(rows.num_rows, dtype=bool)
        has_null[pc.list_parent_indices(watch_keys).filter(keys.is_null()).to_numpy()] = True
        yield "null watch key", has_null
    yield "negative timeout", _numbers(rows, "timeout_ms") < 0
    yield from aggregate_checks(rows)
    yield from quantifier_checks(rows)
    yield "threshold is not a number", np.isnan(_numbers(rows, "threshold"))


def aggregate_checks(rows: pa.RecordBatch) -> Iterator[ColumnCheck]:
    yield from _values(rows, "aggregate", "unknown aggregate", lambda name: name not in AGGREGATES)


def quantifier_checks(rows: pa.RecordBatch) -> Iterator[ColumnCheck]:
    quantifier = "quantifier"
    yield from _values(
        rows,
        quantifier,
        "unknown quantifier",
        lambda text: text not in QUANTIFIERS and not _WHOLE_NUMBER.fullmatch(text),
    )
    yield from _values(rows, quantifier, "quorum below 1", lambda text: quorum_of(text) == 0)
    too_many = _quorum_exceeds_keys(rows)
    if too_many is not None:
        yield "quorum of more keys than the request has", too_many


def _event_checks(rows: pa.RecordBatch) -> Iterator[ColumnCheck]:
    yield from _nulls(rows, "events")
    yield time_check("occurred_at", _numbers(rows, "occurred_at"))
    yield from amount_checks(_numbers(rows, "amount"))


def amount_checks(amount: Floats) -> Iterator[ColumnCheck]:
    yield "amount is not a finite number", ~np.isfinite(amount)
    yield "negative amount", amount < 0


def _nulls(rows: pa.RecordBatch, kind: str) -> Iterator[ColumnCheck]:
    for name in NOT_NULL[kind]:
        column = rows.column(name)
        if pa.types.is_dictionary(column.type):
            if column.dictionary.null_count:
                is_null = _bools(column.dictionary.is_null())
                yield f"null {name}", is_null[column.indices.to_numpy()]
        elif column.null_count:
            yield f"null {name}", _bools(column.is_null())


def time_check(name: str, time_us: Ints) -> ColumnCheck:
    reason = f"{name} not of the years 1900 to 2199"
    return reason, (time_us < MIN_TIME_US) | (time_us > MAX_TIME_US)


def _values(
    rows: pa.RecordBatch, name: str, reason: str, is_bad: Callable[[str], bool]
) -> Iterator[ColumnCheck]:
    """Yield a check of each distinct value of a dictionary; null is good."""
    column = rows.column(name)
    bad = [value is not None and is_bad(value) for value in column.dictionary.to_pylist()]
    if any(bad):
        yield reason, np.array(bad)[column.indices.to_numpy()]


def quorum_of(quantifier: str | None) -> int | None:
    """Return the number that a quantifier is, None for others; less than 1 becomes 0."""
    if quantifier is None or not _WHOLE_NUMBER.fullmatch(quantifier):
        return None
    digits = quantifier.lstrip("0")
    if not digits or quantifier.startswith("-"):
        return 0
    return int(digits) if len(digits) <= _MAX_DIGITS else _TOO_MANY


def _quorum_exceeds_keys(rows: pa.RecordBatch) -> Bools | None:
    """Return which requests need more keys than they have; None if there is no quorum."""
    column = rows.column("quantifier")
    quorums = np.array([quorum_of(text) or 0 for text in column.dictionary.to_pylist()], dtype=int)
    if not quorums.any():
        return None
    needed: Ints = quorums[column.indices.to_numpy()]
    at = np.flatnonzero(needed)
    watch_keys = rows.column("watch_keys").take(pa.array(at))
    keys = watch_keys.flatten().dictionary_encode("encode")
    parents = pc.list_parent_indices(watch_keys).to_numpy()
    # A key that a request lists several times counts once.
    pairs = np.unique(parents * len(keys.dictionary) + keys.indices.to_numpy())
    distinct = np.bincount(pairs // max(1, len(keys.dictionary)), minlength=len(at))
    exceeds = np.zeros(rows.num_rows, dtype=bool)
    exceeds[at] = needed[at] > distinct
    return exceeds


def _numbers(rows: pa.RecordBatch, name: str) -> Any:
    column = rows.column(name)
    return (pc.fill_null(column, 0) if column.null_count else column).to_numpy()


def _bools(column: pa.Array) -> Bools:
    bools: Bools = column.to_numpy(zero_copy_only=False)
    return bools
