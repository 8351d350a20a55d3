"""Check the rows of a trace by their columns, in a Python worker.

These are the rules of `rows.checks`, for rows that Spark does not see because a worker reads their
file, and for those that it sends to the worker anyway. `repeats` has the rule of repeated
requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._rows.times import MAX_TIME_US, MIN_TIME_US
from purgatory_spark._rows.trace_columns import AGGREGATES, NOT_NULL, QUANTIFIERS
from purgatory_spark._spark.arrays import Bools, Floats, Ints

#: A reason, and whether each row is rejected for it.
_Check = tuple[str, Bools]

_WHOLE_NUMBER = re.compile("-?[0-9]+")
_MAX_DIGITS = 9
# More keys than a request can have.
_TOO_MANY = 10**_MAX_DIGITS


def reject_reasons(rows: pa.RecordBatch, kind: str) -> pa.Array | None:
    """Return the reason of the first check that each row fails, or null; None if all are good.

    Columns with few values are dictionaries, of which null may be a value.
    """
    checks = _request_checks(rows) if kind == "requests" else _event_checks(rows)
    broken = [check for check in checks if check[1].any()]
    if not broken:
        return None
    number = np.full(rows.num_rows, -1)
    for at, (_, is_bad) in enumerate(broken):
        number[(number < 0) & is_bad] = at
    return pa.array([reason for reason, _ in broken]).take(pa.array(number, mask=number < 0))


def _request_checks(rows: pa.RecordBatch) -> Iterator[_Check]:
    yield from _nulls(rows, "requests")
    yield _time_check(rows, "arrived_at")
    watch_keys = rows.column("watch_keys")
    keys = watch_keys.flatten()
    if keys.null_count:
        has_null = np.zeros(rows.num_rows, dtype=bool)
        has_null[pc.list_parent_indices(watch_keys).filter(keys.is_null()).to_numpy()] = True
        yield "null watch key", has_null
    yield "negative timeout", _numbers(rows, "timeout_ms") < 0
    yield from _values(rows, "aggregate", "unknown aggregate", lambda name: name not in AGGREGATES)
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
    yield "threshold is not a number", np.isnan(_numbers(rows, "threshold"))


def _event_checks(rows: pa.RecordBatch) -> Iterator[_Check]:
    yield from _nulls(rows, "events")
    yield _time_check(rows, "occurred_at")
    amount = _numbers(rows, "amount")
    yield "amount is not a finite number", ~np.isfinite(amount)
    yield "negative amount", amount < 0


def _nulls(rows: pa.RecordBatch, kind: str) -> Iterator[_Check]:
    for name in NOT_NULL[kind]:
        column = rows.column(name)
        if pa.types.is_dictionary(column.type):
            if column.dictionary.null_count:
                is_null = _bools(column.dictionary.is_null())
                yield f"null {name}", is_null[column.indices.to_numpy()]
        elif column.null_count:
            yield f"null {name}", _bools(column.is_null())


def _time_check(rows: pa.RecordBatch, name: str) -> _Check:
    time_us = _numbers(rows, name)
    reason = f"{name} not of the years 1900 to 2199"
    return reason, (time_us < MIN_TIME_US) | (time_us > MAX_TIME_US)


def _values(
    rows: pa.RecordBatch, name: str, reason: str, is_bad: Callable[[str], bool]
) -> Iterator[_Check]:
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


def _numbers(rows: pa.RecordBatch, name: str) -> Ints | Floats:
    column = rows.column(name)
    numbers: Ints | Floats = (pc.fill_null(column, 0) if column.null_count else column).to_numpy()
    return numbers


def _bools(column: pa.Array) -> Bools:
    bools: Bools = column.to_numpy(zero_copy_only=False)
    return bools
